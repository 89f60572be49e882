from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge.protocol import LATEST, InputRequiredResult
from mcp_bridge.protocol.input_requests import (
    CreateMessageRequest,
    FormElicitRequest,
    InputRequest,
    ListRootsRequest,
    URLElicitRequest,
)

FORM = FormElicitRequest("Name?", {"type": "object"})
PAGE = URLElicitRequest("Sign.", "https://example.com/a")
WORDS = CreateMessageRequest([{"role": "user"}], 9, {"temperature": 1, "maxTokens": 5})
TOOLS = CreateMessageRequest([{"role": "user"}], 9, {"tools": []})
CHOICE = CreateMessageRequest([{"role": "user"}], 9, {"toolChoice": {"mode": "auto"}})
ROOTS = ListRootsRequest()


@pytest.mark.parametrize("url", ["https://example.com/a", "http://localhost:8000"])
def test_question_may_link_to_a_web_address(url: str) -> None:
    assert URLElicitRequest("Sign.", url).params()["url"] == url


@pytest.mark.parametrize("url", ["", "/a", "https:///a", "ftp://example.com", "javascript:x"])
def test_question_may_not_link_elsewhere(url: str) -> None:
    with pytest.raises(ValueError, match=f"^the URL must be http or https, not '{url}'"):
        URLElicitRequest("Sign.", url)


@pytest.mark.requirement("cache.nowhere-else", "elicit.members")
def test_requests_are_sent_by_their_keys_with_the_state() -> None:
    result = InputRequiredResult({"a": FORM, "b": PAGE, "c": WORDS, "d": ROOTS}, "state")
    elicit, schema = "elicitation/create", {"type": "object"}
    assert json.loads(result.to_json(LATEST, b'{"server":1}')) == {
        "resultType": "input_required",
        "inputRequests": {
            "a": {
                "method": elicit,
                "params": {"mode": "form", "message": "Name?", "requestedSchema": schema},
            },
            "b": {
                "method": elicit,
                "params": {"mode": "url", "message": "Sign.", "url": "https://example.com/a"},
            },
            "c": {
                "method": "sampling/createMessage",
                "params": {"messages": [{"role": "user"}], "maxTokens": 9, "temperature": 1},
            },
            "d": {"method": "roots/list", "params": {}},
        },
        "requestState": "state",
        "_meta": {"server": 1},
    }
    assert json.loads(InputRequiredResult({}, "x").to_json(LATEST)) == {
        "resultType": "input_required",
        "inputRequests": {},
        "requestState": "x",
        "_meta": {},
    }


BOTH = {"elicitation": {"form": {}, "url": {}}}


@pytest.mark.requirement("mrtr.declared", "meta.undeclared")
@pytest.mark.parametrize(
    ("request_", "capabilities", "declared"),
    [
        *[(FORM, each, True) for each in ({"elicitation": {}}, BOTH)],
        *[(FORM, each, False) for each in ({}, {"elicitation": {"url": {}}}, {"elicitation": 1})],
        *[(PAGE, each, True) for each in ({"elicitation": {"url": {}}}, BOTH)],
        *[(PAGE, each, False) for each in ({}, {"elicitation": {}}, {"elicitation": ["url"]})],
        (WORDS, {"sampling": {}}, True),
        *[(WORDS, each, False) for each in ({}, {"roots": {}}, {"sampling": True})],
        *[(each, {"sampling": {"tools": {}}}, True) for each in (WORDS, TOOLS, CHOICE)],
        *[(each, {"sampling": {}}, False) for each in (TOOLS, CHOICE)],
        (ROOTS, {"roots": {"listChanged": True}}, True),
        (ROOTS, {"sampling": {}}, False),
    ],
)
def test_request_is_for_clients_that_declare_it(
    request_: InputRequest, capabilities: Any, declared: bool
) -> None:
    assert request_.is_declared(capabilities) is declared

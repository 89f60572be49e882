"""Results of remote servers are sent on, as far as the caller's revision has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge.protocol import LATEST, REVISIONS, JSONObject
from mcp_bridge.protocol.input_requests import (
    CreateMessageRequest,
    FormElicitRequest,
    ListRootsRequest,
    URLElicitRequest,
)
from mcp_bridge.remote.results import questions_in, read_result
from tests.remote.upstreams.verbatim import RESULT
from tests.remote.upstreams.writing import LEGACY

TEXT = {"type": "text", "text": "Gone."}
SCHEMA = {"type": "object", "properties": {}}
MESSAGES = [{"role": "user", "content": {"type": "text", "text": "Hello"}}]


def sent(result: JSONObject, version: str = LATEST.version) -> Any:
    revision = REVISIONS[version]
    return json.loads(read_result(result).to_json(revision))


def test_all_members_are_sent_on() -> None:
    # Clients do not know the type of the last block.
    result = RESULT | {"content": RESULT["content"][:-1]}
    assert sent(result) == result | {"resultType": "complete"}
    assert sent(result, LEGACY) == result


def test_unknown_block_is_described_in_a_text() -> None:
    (block,) = sent({"content": [{"type": "hologram"}]})["content"]
    assert json.loads(block["text"])["type"] == "hologram"


@pytest.mark.parametrize("version", REVISIONS)
def test_structured_content_needs_a_revision_with_it(version: str) -> None:
    is_known = REVISIONS[version].structured_content
    assert ("structuredContent" in sent(RESULT, version)) == is_known


@pytest.mark.parametrize("structured", [[1, 2], "text", 2**60, False])
def test_structured_content_of_legacy_clients_is_an_object(structured: Any) -> None:
    result = {"content": [], "structuredContent": structured}
    assert sent(result)["structuredContent"] == structured
    assert "structuredContent" not in sent(result, LEGACY)


def test_error_keeps_its_structured_content() -> None:
    result = {"content": [TEXT], "isError": True, "structuredContent": {"code": 7}}
    assert sent(result) == result | {"resultType": "complete"}


@pytest.mark.parametrize(
    "more", [{}, {"annotations": {"priority": 1}}, {"_meta": {"vendor/key": 2**60}}]
)
def test_text_of_an_error_can_be_read(more: dict[str, Any]) -> None:
    result = {"content": [TEXT | more], "isError": True}
    (block,) = read_result(result).content
    assert getattr(block, "text", None) == "Gone."
    assert sent(result)["content"] == result["content"]


@pytest.mark.parametrize(
    "result",
    [
        {"content": None},
        {"content": {"type": "text"}},
        {"content": ["text"]},
        {"content": [{"text": "no type"}]},
        {"content": [{"type": 1}]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 1}]},
        {"content": [], "isError": "no"},
        {"content": [], "_meta": []},
    ],
)
def test_other_results_are_errors(result: JSONObject) -> None:
    with pytest.raises(ValueError, match=r"^(its|isError|a) "):
        read_result(result)


def test_questions_are_read() -> None:
    form = {"message": "Who?", "requestedSchema": SCHEMA}
    url = {"mode": "url", "message": "Pay", "url": "https://pay.example"}
    sampling = {"messages": MESSAGES, "maxTokens": 5, "temperature": 0.5}
    requests = {
        "form": {"method": "elicitation/create", "params": form},
        "url": {"method": "elicitation/create", "params": url},
        "sampling": {"method": "sampling/createMessage", "params": sampling},
        "roots": {"method": "roots/list"},
    }
    assert questions_in({"inputRequests": requests}) == {
        "form": FormElicitRequest("Who?", SCHEMA),
        "url": URLElicitRequest("Pay", "https://pay.example"),
        "sampling": CreateMessageRequest(MESSAGES, 5, {"temperature": 0.5}),
        "roots": ListRootsRequest(),
    }
    assert questions_in({}) == {}


@pytest.mark.parametrize(
    "request_",
    [
        None,
        {"method": "ping"},
        {"method": ["elicitation/create"]},
        {"method": "elicitation/create"},
        {"method": "elicitation/create", "params": []},
        {"method": "elicitation/create", "params": {"mode": "url", "message": "Pay"}},
        {"method": "elicitation/create", "params": {"message": 1, "requestedSchema": SCHEMA}},
        {"method": "sampling/createMessage", "params": {"messages": MESSAGES}},
        {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": True}},
    ],
)
def test_questions_outside_the_protocol_are_errors(request_: Any) -> None:
    with pytest.raises(ValueError, match=r"^inputRequests"):
        questions_in({"inputRequests": {"key": request_}})

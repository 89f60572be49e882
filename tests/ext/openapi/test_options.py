"""Selection of a document's operations as tools, and messages about its faults."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient
from tests.ext.openapi.calling import (
    DOCUMENT,
    HOOK,
    PATHS,
    Offer,
)
from tests.support.serving import messages, names, served


def test_chosen_operations_are_tools_under_legal_names(offer: Offer) -> None:
    offer(prefix="cms_")
    assert sorted(names()) == [
        *("cms_articles_get", "cms_articles_put", "cms_files", "cms_forms", "cms_numbers"),
        *("cms_read", "cms_write"),
    ]
    assert served("cms_articles_put").source == "document.json: PUT /articles/{slug}"


@pytest.mark.parametrize(
    ("operations", "found"),
    [
        (["GET /articles/*"], ["articles_get"]),
        (["articles/*"], ["articles_get", "articles_put"]),
        (["old"], ["old"]),
        (["GET /old"], ["old"]),
        (["GET /o*", "read"], ["read"]),
    ],
)
def test_patterns_match_operations_except_deprecated_ones(
    operations: list[str], found: list[str], offer: Offer
) -> None:
    offer(operations=operations)
    assert sorted(names()) == found


def test_unsupported_operations_are_reported_and_others_served(offer: Offer) -> None:
    broken = {"/broken": {"$ref": "#/nowhere"}}
    offer(DOCUMENT | {"paths": PATHS | broken}, operations=["xml", "read", "missing", "tag:x"])
    assert names() == ["read"]
    where = "MCP_BRIDGE['SOURCES']['other']:"
    assert messages("mcp_bridge.W060") == [
        "POST /xml (document.json) is marked, but not served: its request body is "
        "application/xml, which is not supported."
    ]
    assert messages("mcp_bridge.W061") == [
        f"MCP_BRIDGE['SOURCES']['other']['OPTIONS']['operations']: nothing matches the name "
        f"{each!r}."
        for each in ("missing", "tag:x")
    ]
    assert messages("mcp_bridge.W062") == [
        f"{where} The path '/broken' cannot be read: it refers to '#/nowhere', which its document "
        "does not contain."
    ]


def test_operation_options_match_those_of_mcp_tool(offer: Offer, caller: MCPClient) -> None:
    offer(
        operations={
            "tag:articles": {"permissions": ["auth.view_user"]},
            "articles/put": {"confirm": True, "name": "save", "idempotent": False},
            "read": {"title": "Read it", "description": "Read what there is."},
        },
        permissions=["auth.view_group"],
    )
    save, read = served("save"), served("read")
    assert save.access.permissions == ("auth.view_group", "auth.view_user")
    assert save.options.confirm
    assert save.annotations == {
        **{"readOnlyHint": False, "destructiveHint": True},
        "idempotentHint": False,
    }
    assert (read.title, read.description) == ("Read it", "Read what there is.")
    assert caller.list_tools() == []


def test_options_override_the_method_and_must_not_conflict(offer: Offer) -> None:
    offer(operations={"GET /*": {"destructive": True}, "read": {"confirm": True}})
    assert served("read").annotations == {"destructiveHint": True}
    offer(operations={"GET /*": {"destructive": True}, "read": {"read_only": True}})
    assert names() == ["articles_get"]
    [message] = messages("mcp_bridge.W060")
    assert "a read_only tool cannot be destructive" in message


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"anonymous": None}, "it requires either the option 'headers'"),
        ({"headers": HOOK, "anonymous": True}, "but not both"),
        ({"operations": []}, "it requires the option 'operations'"),
        ({"operations": ["*"]}, "'*' matches everything: name the operations"),
        ({"operations": "read"}, "its option 'operations' is not a list of patterns"),
        ({"operations": {"read": {"input": {}}}}, "unknown option 'input'"),
        ({"operations": {"read": {"read_only": 3}}}, "read_only must be True or False"),
        ({"server": "http://billing.internal"}, "its server does not use TLS"),
        ({"prefix": "a b"}, "its option 'prefix' has characters other than"),
        ({"retries": 3}, "unknown option 'retries'; known are 'document', 'server'"),
        ({"timeout": "10"}, "its option 'timeout' is not a number of seconds"),
        ({"document": None}, "it requires the option 'document'"),
    ],
)
def test_invalid_options_are_errors(options: Any, why: str, offer: Offer) -> None:
    offer(**options)
    [message] = messages("mcp_bridge.E003")
    assert why in message


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("{", "is not JSON: Expecting property name"),
        ("[]", "does not contain an object"),
        ('{"swagger": "2.0"}', "it is not OpenAPI of version 3, but of '2.0'"),
        ("[" * 100_000, "is not JSON: maximum recursion depth"),
    ],
)
def test_unreadable_document_is_a_warning(document: str, why: str, offer: Offer) -> None:
    offer(document)
    [message] = messages("mcp_bridge.W063")
    assert why in message


def test_missing_document_is_a_warning(offer: Offer, tmp_path: Path) -> None:
    offer(document=tmp_path / "none.json")
    [message] = messages("mcp_bridge.W063")
    assert "none.json: No such file or directory" in message


def test_missing_library_is_one_error(offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mcp_bridge.outbound.client", "mcp_bridge.ext.openapi.client"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    offer()
    assert names() == []
    [found] = registry.discovered.messages
    assert (found.id, found.hint) == (
        "mcp_bridge.E060",
        'Run pip install "django-mcp-bridge[openapi]".',
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"headers": "nowhere.headers"}, "No module named 'nowhere'"),
        ({"headers": "tests.ext.openapi.calling.PATHS"}, "is not a function"),
        ({"server": "https://user@host/", "anonymous": True}, "more than a scheme, a host"),
    ],
)
def test_missing_or_invalid_server_is_an_error(options: Any, why: str, offer: Offer) -> None:
    offer(**options)
    [message] = messages("mcp_bridge.E062")
    assert why in message


def test_missing_certificate_file_is_a_warning(offer: Offer) -> None:
    offer(ca_file="/nowhere.pem", server="https://localhost")
    [message] = messages("mcp_bridge.W064")
    assert "No such file" in message


def test_operations_with_the_same_name_are_a_warning(offer: Offer) -> None:
    operations = {"read": {"name": "same"}, "write": {"name": "same"}}
    offer(operations=operations)
    assert names() == []
    [message] = messages("mcp_bridge.W027")
    assert "'same'" in message

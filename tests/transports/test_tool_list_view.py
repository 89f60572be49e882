"""GET /mcp/tools/list: the list of tools, to look at without a client."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from mcp_bridge.protocol import pagination
from tests.support import wire
from tests.support.site import TOOLS
from tests.support.wire import caller, somebody, strict

quiet = wire.quiet

PATH = "/mcp/tools/list"


@pytest.fixture
def http() -> APIClient:
    client = APIClient()
    client.force_authenticate(somebody())
    return client


def get(client: APIClient, query: str = "", **sent: str) -> Any:
    response = client.get(PATH + query, headers=sent)
    kind = "application/json" if response.status_code == 200 else "application/problem+json"
    assert response.headers["Content-Type"] == kind
    return response


def test_list_has_every_tool_and_no_next_cursor(http: APIClient) -> None:
    answer = strict(get(http).content)
    assert set(answer) == {"tools", "nextCursor"}
    assert answer["nextCursor"] is None
    assert {tool["name"] for tool in answer["tools"]} >= set(TOOLS)


def test_tools_are_those_of_the_latest_revision(http: APIClient) -> None:
    assert strict(get(http).content)["tools"] == caller().list_tools()


def test_cursors_lead_through_every_page(http: APIClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"PAGE_SIZE": 7}
    answer = strict(get(http).content)
    names = [tool["name"] for tool in answer["tools"]]
    while answer["nextCursor"] is not None:
        answer = strict(get(http, f"?cursor={answer['nextCursor']}").content)
        names += [tool["name"] for tool in answer["tools"]]
    assert names == [tool["name"] for tool in caller().list_tools()]


@pytest.mark.parametrize("cursor", ["", "?", "LTE", "%00", "%FF", "x" * 2000, "Pg", "PgA", "null"])
def test_bad_cursor_is_a_bad_request(http: APIClient, cursor: str, quiet: None) -> None:
    response = get(http, f"?cursor={cursor}")
    assert (response.status_code, strict(response.content)["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("cursor", [pagination.after("echo"), "NQ", "NQ=="])
def test_good_cursor_is_understood(http: APIClient, cursor: str) -> None:
    assert get(http, f"?cursor={cursor}").status_code == 200


def test_offset_beyond_the_end_is_an_empty_page(http: APIClient) -> None:
    assert strict(get(http, "?cursor=OTk5").content) == {"tools": [], "nextCursor": None}


def test_list_may_not_be_shared(http: APIClient) -> None:
    assert get(http).headers["Cache-Control"] == "private"


def test_head_is_the_get_without_its_body(http: APIClient) -> None:
    response = http.head(PATH)
    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_view_changes_and_calls_nothing(http: APIClient, verb: str, quiet: None) -> None:
    body = wire.good(caller()).encode()
    response = http.generic(verb, PATH, body, content_type="application/json")
    assert (response.status_code, response.headers["Allow"]) == (405, "GET, HEAD")


def test_anonymous_caller_sees_public_tools() -> None:
    answer = strict(get(APIClient()).content)
    assert [tool["name"] for tool in answer["tools"]] == ["ping_public"]


@pytest.mark.requirement("http.origin-checked")
@pytest.mark.django_db
def test_credential_and_origin_are_checked(quiet: None) -> None:
    bad = get(APIClient(), Authorization="Bearer x")
    assert bad.status_code == 401
    assert bad.headers["WWW-Authenticate"] == 'Bearer realm="mcp", error="invalid_token"'
    for origin in ("http://evil.example", "null"):
        assert get(APIClient(), Origin=origin).status_code == 403

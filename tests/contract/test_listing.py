from __future__ import annotations

import base64
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import translation

from mcp_bridge.protocol import pagination
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from tests.support.site import TOOLS


def names(client: CheckedClient) -> list[str]:
    return [tool["name"] for tool in client.list_tools()]


@pytest.mark.requirement("tools.list", "tools.order")
def test_only_marked_procedures_are_listed_in_order(client: CheckedClient) -> None:
    assert names(client) == TOOLS


def test_pages_contain_every_tool_once(client: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"PAGE_SIZE": 3}
    assert names(client) == TOOLS


@pytest.mark.requirement("pages.cursor-ends")
def test_last_page_has_no_cursor(client: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"PAGE_SIZE": len(TOOLS)}
    assert "nextCursor" not in client.post("tools/list")


def test_cursor_of_a_removed_tool_remains_valid(client: CheckedClient) -> None:
    result = client.post("tools/list", cursor=pagination.after("echp"))
    assert result["tools"][0]["name"] == "fail"


@pytest.mark.parametrize("cursor", ["Mg", "Mg=="])
def test_offset_is_accepted_as_a_cursor(client: CheckedClient, cursor: str) -> None:
    result = client.post("tools/list", cursor=cursor)
    assert [tool["name"] for tool in result["tools"]] == TOOLS[2:]


@pytest.mark.requirement("pages.invalid")
@pytest.mark.parametrize(
    "cursor",
    ["", "?", "LTE", "KzE", "NV8w", "Pg", "PgA", "PiA", "PnAANDk", "é", 3, {}, ["Mg"]]
    + ["A" * 9999],
)
def test_invalid_cursors_are_refused(client: CheckedClient, cursor: Any) -> None:
    with pytest.raises(MCPError, match="Invalid cursor") as raised:
        client.post("tools/list", cursor=cursor)
    assert raised.value.error["code"] == -32602
    assert client.response.status_code == 200


def test_cursor_of_null_is_absent_in_legacy_eras_only(client: CheckedClient) -> None:
    if client.revision.modern:
        with pytest.raises(MCPError, match="Invalid cursor"):
            client.post("tools/list", cursor=None)
    else:
        listed = client.post("tools/list", cursor=None)["tools"]
        assert [each["name"] for each in listed] == TOOLS


@pytest.mark.parametrize("offset", [len(TOOLS), len(TOOLS) + 1, 999_999_999])
def test_offset_beyond_the_end_is_an_empty_page(client: CheckedClient, offset: int) -> None:
    cursor = base64.urlsafe_b64encode(str(offset).encode()).decode()
    result = client.post("tools/list", cursor=cursor)
    assert result["tools"] == []
    assert "nextCursor" not in result


@pytest.mark.requirement("cache.hints", "cache.private")
def test_modern_list_has_ttl_and_scope(modern: CheckedClient) -> None:
    result = modern.post("tools/list")
    assert (result["ttlMs"], result["cacheScope"]) == (300_000, "private")
    assert result["resultType"] == "complete"


def test_legacy_list_has_no_modern_members(legacy: CheckedClient) -> None:
    assert set(legacy.post("tools/list")) == {"tools"}


@pytest.mark.requirement("initialize.version-kept")
def test_tool_shows_the_members_of_its_revision(client: CheckedClient) -> None:
    (echo,) = [tool for tool in client.list_tools() if tool["name"] == "echo"]
    assert set(echo) <= client.revision.tool_fields
    assert ("title" in echo) == ("title" in client.revision.tool_fields)


def test_true_and_false_hints_are_listed(modern: CheckedClient) -> None:
    tools = {tool["name"]: tool for tool in modern.list_tools()}
    assert tools["add"]["annotations"] == {
        "readOnlyHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert tools["echo"]["annotations"] == {"destructiveHint": False}
    assert "annotations" not in tools["tree"]


def test_lazy_texts_are_in_the_language_of_the_request(modern: CheckedClient) -> None:
    def title() -> str:
        tools = {tool["name"]: tool for tool in modern.list_tools()}
        return str(tools["shop_translated"]["title"])

    with translation.override("en"):
        assert title() == "Yes"
    with translation.override("de"):
        assert title() == "Ja"
    with translation.override("en"):
        assert title() == "Yes"


def test_description_is_the_docstring_without_its_parameters(modern: CheckedClient) -> None:
    (add,) = [tool for tool in modern.list_tools() if tool["name"] == "add"]
    assert add["description"] == "Add two numbers."
    assert add["inputSchema"]["properties"]["a"]["description"] == "the first number"


@pytest.mark.django_db
def test_query_count_does_not_grow_with_the_tools(
    django_assert_max_num_queries: Any, user: Any
) -> None:
    fresh = get_user_model().objects.get(pk=user.pk)
    client = CheckedClient(user=fresh)
    client.list_tools()
    client = CheckedClient(user=get_user_model().objects.get(pk=user.pk))
    # A new client has the registry ask for the generation; the permissions take two.
    with django_assert_max_num_queries(3):
        client.list_tools()

"""Toolsets: parts of the tools under separate addresses, or by a header."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.asgi import get_asgi_application
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse

from mcp_bridge import mcp_tool
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import pagination
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.tokens.models import Token
from mcp_bridge.views import MCPView
from tests.support.asgi import exchange, scope_with
from tests.support.serving import set_tool
from tests.support.toolsets import serve_toolsets

TOOLSETS: dict[str, Any] = {
    "editing": {
        "tools": ["article_*", "publish"],
        "title": "Newsroom: editing",
        "instructions": "Write and publish.",
    },
    "reading": {"tools": ["*"], "read_only": True},
    "procedures": ["source:rpc"],
    "nothing": [],
}
BOTH = ["WSGI", "ASGI"]


@mcp_tool
def article_create() -> str:
    """Create an article."""
    return "created"


@mcp_tool(read_only=True)
def article_get() -> str:
    """Read an article."""
    return "read"


@mcp_tool(permissions="auth.add_user")
def publish() -> str:
    """Publish an article."""
    return "published"


@mcp_tool(read_only=True)
def weather() -> str:
    """Say the weather."""
    return "rain"


@mcp_tool(public=True, read_only=True)
async def hours() -> str:
    """Say the opening hours."""
    return "always"


@pytest.fixture(params=BOTH, autouse=True)
def served(request: pytest.FixtureRequest, settings: Any) -> None:
    functions = article_create, article_get, publish, weather, hours
    serve_toolsets(settings, TOOLSETS, *functions, asynchronous=request.param == "ASGI")


def at(toolset: str, **options: Any) -> MCPClient:
    return MCPClient(path=f"/mcp/{toolset}", **options)


def by_header(toolset: str, **options: Any) -> MCPClient:
    client = MCPClient(path="/mcp", **options)
    client.headers["X-MCP-Toolset"] = toolset
    return client


@pytest.fixture(params=[at, by_header])
def choose(request: pytest.FixtureRequest) -> Any:
    """Return either way to choose a toolset."""
    return request.param


def listed(client: MCPClient) -> list[str]:
    return [tool["name"] for tool in client.list_tools()]


def test_toolset_lists_and_calls_only_its_own_tools(choose: Any, revision: str, user: Any) -> None:
    client = choose("editing", user=user, revision=revision)
    assert listed(client) == ["article_create", "article_get"]
    assert client.call_tool("article_get")["content"][0]["text"] == "read"
    with pytest.raises(MCPError) as elsewhere:
        client.call_tool("weather")
    with pytest.raises(MCPError) as nowhere:
        client.call_tool("wether")
    assert elsewhere.value.error == {"code": -32602, "message": "Unknown tool: weather"}
    assert nowhere.value.error == {"code": -32602, "message": "Unknown tool: wether"}


def test_all_tools_are_listed_without_a_choice(client: CheckedClient) -> None:
    client.path = "/mcp"
    assert listed(client) == ["article_create", "article_get", "hours", "weather"]


def test_toolset_can_be_of_tools_that_only_read(choose: Any, user: Any) -> None:
    assert listed(choose("reading", user=user)) == ["article_get", "hours", "weather"]


def test_toolset_can_be_all_of_a_source(choose: Any, user: Any) -> None:
    assert len(listed(choose("procedures", user=user))) == 4


def test_toolset_without_tools_is_an_empty_list(choose: Any, user: Any) -> None:
    assert listed(choose("nothing", user=user)) == []


def test_permissions_hold_in_a_toolset(choose: Any, user: Any) -> None:
    client = choose("editing", user=user)
    with pytest.raises(MCPError, match="Unknown tool: publish"):
        client.call_tool("publish")
    user.user_permissions.add(Permission.objects.get(codename="add_user"))
    client = choose("editing", user=User.objects.get(pk=user.pk))
    assert "publish" in listed(client)
    assert client.call_tool("publish")["content"][0]["text"] == "published"


def test_disabled_tool_is_not_in_a_toolset(choose: Any, user: Any) -> None:
    client = choose("editing", user=user)
    assert "article_get" in listed(client)
    set_tool("article_get", enabled=False)
    assert listed(client) == ["article_create"]


def test_limits_of_a_token_hold_in_a_toolset(choose: Any, user: Any) -> None:
    _, secret = Token.objects.issue(user=user, name="x", tools=["article_get", "weather"])
    assert listed(choose("editing", token=secret)) == ["article_get"]


def test_toolset_has_its_own_title_and_instructions(choose: Any, user: Any) -> None:
    modern = choose("editing", user=user).post("server/discover")
    assert modern["instructions"] == "Write and publish."
    info = modern["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert info["title"] == "Newsroom: editing"
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    legacy = choose("editing", user=user, revision="2025-11-25").post("initialize", **hello)
    assert legacy["instructions"] == "Write and publish."
    assert legacy["serverInfo"]["title"] == "Newsroom: editing"


def test_toolset_without_texts_has_those_of_the_site(choose: Any, user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "INSTRUCTIONS": "Ask."}
    answer = choose("reading", user=user).post("server/discover")
    assert answer["instructions"] == "Ask."
    assert "title" not in answer["_meta"]["io.modelcontextprotocol/serverInfo"]


def test_pages_of_toolsets_are_separate(user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "PAGE_SIZE": 1}
    editing, reading = at("editing", user=user), at("reading", user=user)
    for _ in range(2):
        assert listed(editing) == ["article_create", "article_get"]
        assert listed(reading) == ["article_get", "hours", "weather"]
    # A cursor is a place in the alphabet, in any toolset.
    page = reading.post("tools/list", cursor=pagination.after("article_create"))
    assert [tool["name"] for tool in page["tools"]] == ["article_get"]


def test_address_of_an_unknown_toolset_is_404(user: Any) -> None:
    client = at("write", user=user)
    assert client.send(b"{}").status_code == 404


def test_error_for_unknown_toolset_names_the_visible_ones(user: Any) -> None:
    client = by_header("edit", user=user)
    with pytest.raises(MCPError) as caught:
        client.list_tools()
    assert client.response.status_code == 400
    assert caught.value.error == {
        "code": -32600,
        "message": "Unknown toolset: send X-MCP-Toolset with one of editing, reading, procedures, "
        "or leave it out.",
    }
    with pytest.raises(MCPError, match="with one of reading, procedures, or leave it out"):
        by_header("edit").list_tools()


def test_header_cannot_change_the_toolset_of_the_address(user: Any) -> None:
    client = at("editing", user=user)
    client.headers["X-MCP-Toolset"] = "reading"
    with pytest.raises(MCPError, match="this address serves 'editing': leave the header"):
        client.list_tools()
    client.headers["X-MCP-Toolset"] = "editing"
    assert listed(client) == ["article_create", "article_get"]


def test_header_is_refused_on_sites_without_toolsets(user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {}
    with pytest.raises(MCPError, match="Unknown toolset: leave the header X-MCP-Toolset out"):
        by_header("editing", user=user).list_tools()
    assert len(listed(by_header("", user=user))) == 4


def test_toolsets_are_not_revealed_without_a_credential(settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "ALLOW_ANONYMOUS": False}
    for name in ("editing", "edit"):
        client = by_header(name)
        with pytest.raises(MCPError, match="Authentication required"):
            client.list_tools()
        assert client.response.status_code == 401


def test_toolset_without_public_tools_asks_for_a_credential(choose: Any) -> None:
    assert listed(choose("reading")) == ["hours"]
    client = choose("editing")
    with pytest.raises(MCPError, match="Authentication required"):
        client.list_tools()
    assert ToolCallRecord.objects.filter(error_code="unauthenticated").count() == 1


def test_default_toolset_is_served_at_the_endpoint(user: Any, settings: Any) -> None:
    toolsets = {"default": ["article_get"], "all": ["*"]}
    serve_toolsets(settings, toolsets, article_create, article_get)
    client = MCPClient(path="/mcp", user=user)
    assert listed(client) == listed(at("default", user=user)) == ["article_get"]
    with pytest.raises(MCPError, match="Unknown tool: article_create"):
        client.call_tool("article_create")
    assert listed(at("all", user=user)) == ["article_create", "article_get"]


def test_list_view_is_limited_to_the_toolset(user: Any) -> None:
    client = MCPClient(user=user)
    found = client.http.get("/mcp/editing/tools/list").json()
    assert [tool["name"] for tool in found["tools"]] == ["article_create", "article_get"]
    found = client.http.get("/mcp/tools/list", HTTP_X_MCP_TOOLSET="reading").json()
    assert [tool["name"] for tool in found["tools"]] == ["article_get", "hours", "weather"]


def test_custom_address_serves_a_toolset(user: Any) -> None:
    assert reverse("mcp-toolset-editing") == "/mcp/editing"
    assert callable(MCPView.as_view(toolset="editing"))
    with pytest.raises(ImproperlyConfigured, match=r"MCP_BRIDGE\['TOOLSETS'\] does not name"):
        MCPView.as_view(toolset="edit")


def test_call_in_a_toolset_is_recorded(choose: Any, user: Any) -> None:
    client = choose("editing", user=user)
    client.call_tool("article_create")
    with pytest.raises(MCPError):
        client.call_tool("weather")
    kept = ToolCallRecord.objects.order_by("pk").values_list("tool", "error_code")
    assert list(kept) == [("article_create", ""), ("weather", "forbidden")]


def test_rate_counts_calls_of_all_toolsets_together(user: Any, settings: Any) -> None:
    cache.clear()
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "THROTTLE_RATES": {"article_create": "2/min"}}
    for client in (MCPClient(path="/mcp", user=user), at("editing", user=user)):
        assert not client.call_tool("article_create")["isError"]
    assert by_header("editing", user=user).call_tool("article_create")["isError"]


@pytest.mark.django_db(transaction=True)
def test_direct_lane_answers_at_the_addresses_of_toolsets() -> None:
    from mcp_bridge.ext.lane import MCPApplication

    application = MCPApplication(get_asgi_application())
    assert {"/mcp/editing", "/mcp/editing/", "/mcp/reading"} < application.mcp_served.keys()
    assert [*MCPApplication(get_asgi_application(), path="/mcp/reading").mcp_served] == [
        "/mcp/reading"
    ]
    for address, status in (("/mcp/reading", 200), ("/mcp/editing", 401)):
        headers = [(b"host", b"testserver"), (b"content-type", b"application/json")]
        scope = {**scope_with(headers), "path": address}
        found = exchange(application, scope, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        assert found.status == status
    ToolCallRecord.objects.all().delete()

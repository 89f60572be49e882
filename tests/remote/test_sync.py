"""Fetching the tools of remote servers: bounds, what is left out, and the command."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from mcp_bridge.remote.models import RemoteServer, RemoteTool
from mcp_bridge.remote.sync import MAX_TOOLS, SyncError, sync, verify
from mcp_bridge.testing import MCPClient, text_of
from tests.remote.desk import OBJECT, Desk, allow, connect, enable, open_desk, serve_desk, tool
from tests.remote.upstreams.lying import LIES

pytestmark = pytest.mark.django_db
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def reason(settings: Any, desk: Desk, **members: Any) -> str:
    """Return why a tool is left out beside another, which is not."""
    desk.tools = [tool("good"), {**tool("bad"), **members}]
    server = connect(settings, desk)
    assert server.tools.get(remote_name="good").name == "weather_good"
    row = server.tools.exclude(remote_name="good").get()
    assert (row.name is None) == bool(row.reason)
    return str(row.reason)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"name": "two words"}, "its name is not 1 to 128 of"),
        ({"name": "x" * 300}, "its name is not 1 to 128 of"),
        ({"name": ""}, "its name is not 1 to 128 of"),
        ({"name": "größe"}, "its name is not 1 to 128 of"),
        ({"name": 7}, "its name is not 1 to 128 of"),
        ({"inputSchema": None}, "is not an object"),
        ({"inputSchema": {"type": "string"}}, "not of the type object"),
        ({"inputSchema": {**OBJECT, "description": "x" * 10**6}}, "at most 65536"),
        ({"outputSchema": {**OBJECT, "description": "x" * 10**5}}, "at most 65536"),
        ({"outputSchema": [1]}, "outputSchema is not an object"),
        ({"inputSchema": {**OBJECT, "$schema": "https://other.example/"}}, "dialect"),
        (
            {"inputSchema": {**OBJECT, "$schema": DRAFT_7, "dependencies": {}}},
            "its 'dependencies' differently",
        ),
        (
            {"inputSchema": {"type": "object", "properties": {"a": {"$ref": "http://x.example"}}}},
            "is not fetched",
        ),
        ({"inputSchema": {"type": "object", "properties": {"a": {"type": "strin"}}}}, "not valid"),
        (
            {"inputSchema": {"type": "object", "properties": {"a": {"x-mcp-header": "a b"}}}},
            "x-mcp-header",
        ),
        ({"execution": {"taskSupport": "required"}}, "only as a task"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_tool_that_cannot_be_served_is_left_out(
    settings: Any, desk: Desk, members: dict[str, Any], said: str
) -> None:
    assert said in reason(settings, desk, **members)


def test_schema_of_an_older_dialect_is_enforced(settings: Any, desk: Desk) -> None:
    properties = {"city": {"$ref": "#/definitions/city"}}
    schema = {"type": "object", "$schema": DRAFT_7, "properties": properties}
    schema["definitions"] = {"city": {"type": "string", "minLength": 2}}
    desk.tools = [tool("forecast", inputSchema=schema)]
    serve_desk(settings, desk)
    client = MCPClient(user=User.objects.create_user("ada"))
    assert client.list_tools()[0]["inputSchema"] == schema
    assert "/city" in text_of(client.call_tool("weather_forecast", {"city": "x"}))
    assert text_of(client.call_tool("weather_forecast", {"city": "Bonn"})) == "sun"


def test_two_tools_of_one_name_are_left_out(settings: Any, desk: Desk) -> None:
    desk.tools = [tool("twice"), tool("good"), tool("twice", description="Other.")]
    server = connect(settings, desk)
    assert "several tools" in server.tools.get(remote_name="twice").reason
    assert server.tools.get(remote_name="good").name == "weather_good"


def test_long_name_is_cut_alike_in_list_and_call(settings: Any, desk: Desk) -> None:
    long = "a" * 100
    desk.tools = [tool(long), tool(long[:-1] + "b")]
    serve_desk(settings, desk)
    client = MCPClient(user=User.objects.create_user("ada"))
    names = [each["name"] for each in client.list_tools()]
    digest = hashlib.sha256(f"weather_{long}".encode()).hexdigest()[:8]
    assert f"weather_{'a' * 47}_{digest}" in names
    assert [len(each) for each in names] == [64, 64]
    for name in names:
        client.call_tool(name)
    assert {each["name"] for each in desk.calls} == {long, long[:-1] + "b"}


def test_names_that_become_equal_are_left_out(settings: Any, desk: Desk) -> None:
    desk.tools = [tool("a.b"), tool("a_b")]
    server = connect(settings, desk)
    rows = {each.remote_name: each for each in server.tools.all()}
    assert rows["a.b"].name == "weather_a_b"
    assert "another tool of this site" in rows["a_b"].reason


def test_all_pages_are_fetched(settings: Any, desk: Desk) -> None:
    desk.tools, desk.page_size = [tool(f"t{number}") for number in range(25)], 10
    assert connect(settings, desk).tools.count() == 25


def test_list_without_an_end_is_bounded(settings: Any, desk: Desk) -> None:
    desk.tools, desk.page_size = [tool(f"t{number}") for number in range(10_000)], 300
    server = connect(settings, desk)
    assert server.tools.count() == MAX_TOOLS
    assert desk.methods.count("tools/list") == 2
    found = sync(server)
    assert (found.is_whole, found.gone) == (False, 0)


def test_repeated_cursor_ends_the_list(settings: Any, desk: Desk) -> None:
    desk.page_size = 0
    server = connect(settings, desk)
    assert server.tools.count() == 0
    assert desk.methods.count("tools/list") == 2


@pytest.mark.parametrize("lie", ["html", "failing", "challenge", "half_json"])
def test_failed_fetch_keeps_the_rows(settings: Any, desk: Desk, lie: str) -> None:
    server = serve_desk(settings, desk)
    desk.raw = LIES[lie]
    with pytest.raises(SyncError) as raised:
        sync(server)
    server.refresh_from_db()
    assert server.last_error == str(raised.value)
    client = MCPClient(user=User.objects.create_user("ada"))
    assert [each["name"] for each in client.list_tools()] == ["weather_forecast"]
    desk.raw = None
    sync(server)
    server.refresh_from_db()
    assert server.last_error == ""


def test_fetching_again_changes_nothing(settings: Any, desk: Desk) -> None:
    server = connect(settings, desk)
    found = sync(server)
    assert (found.offered, found.new, found.changed, found.gone) == (1, 0, 0, 0)


def test_name_of_a_gone_tool_is_free_again(settings: Any, desk: Desk) -> None:
    desk.tools = [tool("a.b")]
    server = connect(settings, desk)
    desk.tools = [tool("a_b")]
    sync(server)
    assert RemoteTool.objects.get(remote_name="a_b").name == "weather_a_b"


def test_verify_says_what_was_reached(settings: Any, desk: Desk, official: str) -> None:
    server = connect(settings, desk)
    assert verify(server) == "It was reached: a server, MCP 2026-07-28."
    for lie in ("challenge", "html", "missing", "failing", "redirect"):
        desk.raw = LIES[lie]
        with pytest.raises(SyncError):
            verify(server)
    allow(settings, official)
    server.url = f"{official}/legacy_stateful_json/mcp"
    assert verify(server) == "It was reached: upstream, MCP 2025-11-25."


def run(*arguments: str) -> tuple[str, str]:
    out, error = io.StringIO(), io.StringIO()
    try:
        call_command("mcp_sync", *arguments, stdout=out, stderr=error)
    except CommandError as raised:
        error.write(str(raised))
    return out.getvalue(), error.getvalue()


def test_command_fetches_all_enabled_servers(settings: Any, desk: Desk) -> None:
    allow(settings, desk.url)
    RemoteServer.objects.create(slug="weather", name="Weather", url=desk.url)
    RemoteServer.objects.create(slug="off", name="Off", url=desk.url, enabled=False)
    with open_desk(tool("news")) as other:
        allow(settings, other.url)
        RemoteServer.objects.create(slug="press", name="Press", url=other.url)
        out, error = run()
        assert out == (
            "press: 1 tools (1 new, 0 changed, 0 gone), 0 left out.\n"
            "weather: 1 tools (1 new, 0 changed, 0 gone), 0 left out.\n"
        )
        other.raw = LIES["failing"]
        out, error = run()
    assert out.startswith("weather: 1 tools")
    assert error == "press: The server failed (HTTP status 503).\n1 of 2 servers failed."
    assert run("weather", "--verify")[0] == "weather: It was reached: a server, MCP 2026-07-28.\n"
    assert "No remote server has the short name 'nothing'" in run("nothing")[1]


def test_other_processes_see_what_was_fetched(settings: Any, desk: Desk) -> None:
    server = serve_desk(settings, desk)
    client = MCPClient(user=User.objects.create_user("ada"))
    client.list_tools()
    desk.tools = [*desk.tools, tool("news")]
    sync(server)
    enable("weather_news")
    assert [each["name"] for each in client.list_tools()] == ["weather_forecast", "weather_news"]
    assert json.loads(RemoteTool.objects.get(name="weather_news").definition) == tool("news")

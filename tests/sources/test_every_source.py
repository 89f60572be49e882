"""Tools of every source are listed, called, refused, recorded and confirmed in the same way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.cache import cache
from jsonschema import Draft202012Validator

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records.rows import flush
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.sources.offers import EVERY, MISSING, RUNS, SECRET
from tests.support.confirming import FORM, YES
from tests.support.recording import record
from tests.support.serving import served, set_tool

PUBLIC = ["broken", "count", "missing", "wipe"]


@pytest.fixture(params=EVERY, autouse=True)
def offer(request: pytest.FixtureRequest, settings: Any) -> Iterator[Any]:
    """One source that offers the tools, and the asynchronous view if a test requests it."""
    module = import_module(f"tests.sources.offers.{request.param}")
    asynchronous = "asynchronous" in request.fixturenames
    asynchronous = asynchronous and request.getfixturevalue("asynchronous")
    RUNS.clear()
    cache.clear()
    with module.offered() as patterns:
        settings.MCP_BRIDGE = {
            "SOURCES": {request.param: module.SOURCE},
            "AUDIT": {"ARGUMENTS": "full"},
            **getattr(module, "SETTINGS", {}),
        }
        route(settings, *patterns, asynchronous=asynchronous)
        yield module


def names(client: CheckedClient) -> list[str]:
    return sorted(each["name"] for each in client.list_tools())


def refused(client: CheckedClient, tool: str, **arguments: Any) -> str:
    with pytest.raises(MCPError) as raised:
        client.call_tool(tool, arguments)
    return str(raised.value)


def last_error() -> str:
    """Return the recorded reason of the last failed or refused call."""
    flush()
    return ToolCallRecord.objects.latest("pk").error_code


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_tools_are_listed_and_called(client: CheckedClient, user: Any, asynchronous: bool) -> None:
    assert names(client) == PUBLIC
    for tool in client.list_tools():
        Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["type"] == "object"
        assert tool["description"]
    result = client.call_tool("count", {"number": 3})
    assert json.loads(text_of(result)) == {"number": 3, "user": "ada"}
    assert not result.get("isError")
    made = record()
    assert (made.tool, made.outcome, made.user) == ("count", "succeeded", user)
    assert json.loads(made.arguments) == {"number": 3}


def test_results_are_structured_if_the_revision_supports_it(modern: CheckedClient) -> None:
    assert modern.call_tool("count", {"number": 3})["structuredContent"] == {
        "number": 3,
        "user": "ada",
    }


def test_hints_are_listed(modern: CheckedClient) -> None:
    tools = {each["name"]: each.get("annotations", {}) for each in modern.list_tools()}
    assert tools["count"]["readOnlyHint"] is True
    assert tools["wipe"]["destructiveHint"] is True


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({}, "/number"),
        ({"number": 0}, "/number"),
        ({"number": 101}, "/number"),
        ({"number": "three"}, "/number"),
        ({"number": None}, "/number"),
        ({"number": 3, "extra": 1}, "/extra"),
    ],
)
def test_invalid_argument_is_refused_with_its_place(
    arguments: dict[str, Any], where: str, modern: CheckedClient
) -> None:
    result = modern.call_tool("count", arguments)
    assert result["isError"]
    assert where in text_of(result)
    assert record().error_code == "invalid"


def test_all_invalid_arguments_are_reported_at_once(modern: CheckedClient) -> None:
    text = text_of(modern.call_tool("count", {"number": 0, "extra": 1}))
    assert "/number" in text
    assert "/extra" in text


def test_invalid_arguments_change_nothing(modern: CheckedClient) -> None:
    for arguments in ({}, {"name": 5}, {"name": "all", "more": 1}):
        assert modern.call_tool("wipe", arguments)["isError"]
    assert RUNS == []


def test_tool_error_is_returned(client: CheckedClient) -> None:
    result = client.call_tool("missing")
    assert result["isError"]
    assert text_of(result) == MISSING
    assert record().error_code == "tool_error"


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_unexpected_error_is_hidden(modern: CheckedClient, asynchronous: bool) -> None:
    result = modern.call_tool("broken")
    assert result["isError"]
    assert SECRET not in json.dumps(result)
    assert "7f3z" not in json.dumps(result)
    assert record().outcome == "failed"


def test_tool_is_hidden_without_its_permission(
    client: CheckedClient, user: Any, offer: Any
) -> None:
    text = refused(client, "guarded", number=3)
    assert text == refused(client, "nothing", number=3).replace("nothing", "guarded")
    allow = getattr(offer, "allow", None)
    if allow is None:
        user.user_permissions.add(Permission.objects.get(codename="view_user"))
    else:
        allow(user)
    # Django caches the permissions on a user object.
    user = type(user).objects.get(pk=user.pk)
    client = CheckedClient(user=user, revision=client.revision.version)
    assert names(client) == sorted([*PUBLIC, "guarded"])
    assert json.loads(text_of(client.call_tool("guarded", {"number": 5})))["number"] == 5


def test_administrator_can_restrict_a_tool_to_groups(modern: CheckedClient, user: Any) -> None:
    editors = Group.objects.create(name="editors")
    set_tool("count", restricted=True).groups.add(editors)
    assert "count" not in names(modern)
    user.groups.add(editors)
    assert modern.call_tool("count", {"number": 1})["structuredContent"]["number"] == 1


def test_administrator_can_disable_a_tool(client: CheckedClient) -> None:
    set_tool("count", enabled=False)
    assert "count" not in names(client)
    assert "count" in refused(client, "count", number=1)


def test_administrator_can_limit_the_rate(modern: CheckedClient) -> None:
    set_tool("count", rate="1/min")
    assert not modern.call_tool("count", {"number": 1}).get("isError")
    result = modern.call_tool("count", {"number": 1})
    assert result["isError"]
    assert last_error() == "throttled"


def test_changed_definition_requires_approval(modern: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "APPROVE_DESTRUCTIVE": True}
    assert "wipe" in names(modern)
    other = json.dumps({**json.loads(canonical_definition(served("wipe"))), "title": "Before"})
    set_tool("wipe", approved=other, fingerprint=fingerprint(other), guarded=True)
    assert "wipe" not in names(modern)
    refused(modern, "wipe", name="all")
    assert RUNS == []


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_calls_can_require_confirmation(user: Any, asynchronous: bool) -> None:
    set_tool("wipe", confirm=True)
    client = CheckedClient(user=user, capabilities=FORM)
    params = {"name": "wipe", "arguments": {"name": "all"}}
    asked = client.post("tools/call", **params)
    assert asked["resultType"] == "input_required"
    assert RUNS == []
    state = asked["requestState"]
    result = client.post("tools/call", **params, requestState=state, inputResponses=YES)
    assert not result.get("isError")
    assert RUNS == ["all"]
    with pytest.raises(MCPError):
        client.post("tools/call", **params, requestState=state, inputResponses=YES)
    assert RUNS == ["all"]

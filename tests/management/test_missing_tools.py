"""Commands explain why a tool is missing; clients only receive that it is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.urls import path
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.access import AccessPolicy
from mcp_bridge.features import Context, Tool
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.serving import route, serve
from tests.management.test_commands import run
from tests.support.serving import set_tool, taking


class Nobody(AccessPolicy):
    """A policy that refuses everyone."""

    def allows(self, tool: Tool, context: Context) -> bool:
        return False


def reason(user: Any, name: str = "take") -> str:
    """Return mcp_call's reason why a tool is missing for a user, which mcp_tools shows too."""
    arguments = [] if user is None else ["--user", user.get_username()]
    with pytest.raises(CommandError) as raised:
        call_command("mcp_call", name, '{"value": 1}', *arguments)
    begin, _, why = str(raised.value).partition(". ")
    assert begin == f"Unknown tool: {name}"
    assert "\n" not in why
    with pytest.raises(MCPError) as refused:
        MCPClient(user=user).call_tool(name, {"value": 1})
    if user is None or user.is_active:
        assert refused.value.error == {"code": -32602, "message": f"Unknown tool: {name}"}
    if user is not None:
        out, err = run("mcp_tools", *arguments)
        assert name not in out
        assert why in err or name not in err
    return why


def test_disabled_tool_is_explained(user: Any, settings: Any) -> None:
    serve(settings, taking(int))
    set_tool("take", enabled=False)
    assert reason(user) == "It is disabled in the admin."
    set_tool("take", enabled=True)
    assert run("mcp_tools", "--user", "ada")[1] == ""


def test_tool_pending_approval_is_explained(user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled"}
    serve(settings, taking(int))
    assert reason(user).startswith("It is new and pending approval")


def test_changed_tool_is_explained(user: Any, settings: Any) -> None:
    serve(settings, taking(int), confirm=True)
    assert [tool["name"] for tool in MCPClient(user=user).list_tools()] == ["take"]
    serve(settings, taking(str), confirm=True)
    assert reason(user).startswith("It has changed and is pending approval")


def test_tool_with_missing_permissions_is_explained(user: Any, settings: Any) -> None:
    serve(settings, taking(int), permissions=["auth.add_user", "auth.change_user"])
    user.user_permissions.set(Permission.objects.filter(codename="add_user"))
    assert reason(user) == "ada lacks the permission auth.change_user."
    user.user_permissions.clear()
    assert reason(user) == "ada lacks the permissions auth.add_user and auth.change_user."


def test_tool_limited_to_groups_is_explained(user: Any, settings: Any) -> None:
    serve(settings, taking(int))
    setting = set_tool("take", restricted=True)
    assert (
        reason(user) == "It is restricted to groups, but none is selected: all calls are refused."
    )
    setting.groups.set([Group.objects.create(name="Desk"), Group.objects.create(name="Editors")])
    set_tool("take", restricted=True)
    assert reason(user) == "It is restricted to the groups Desk and Editors; ada is not a member."
    user.groups.set(setting.groups.all())
    assert run("mcp_tools", "--user", "ada")[1] == ""


def test_non_public_tool_is_explained() -> None:
    assert reason(None, "echo") == "It is not public: pass --user."


def test_inactive_user_is_explained(user: Any, settings: Any) -> None:
    serve(settings, taking(int))
    user.is_active = False
    user.save()
    assert reason(user) == "ada is not active."


@pytest.mark.parametrize("name", ["for_nobody", "permitted"])
def test_hidden_tools_of_the_test_site_are_explained(name: str, user: Any) -> None:
    said = {
        "for_nobody": "An access rule in code refuses ada.",
        "permitted": "ada lacks the permission auth.add_user.",
    }
    assert reason(user, name) == said[name]
    _, err = run("mcp_tools", "--user", "ada")
    assert [line.split(":")[0] for line in err.splitlines()] == [
        *("for_nobody", "permitted", "permitted_twice")
    ]


def test_custom_policy_is_explained(user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": "tests.management.test_missing_tools.Nobody"}
    serve(settings, taking(int))
    assert reason(user) == (
        "The policy tests.management.test_missing_tools.Nobody (ACCESS_POLICY) refuses ada."
    )


def star(*values: int) -> None:
    """Take any."""


@pytest.mark.parametrize(("mark", "id"), [({}, "E006"), ({"name": "st.ar"}, "E005")])
def test_tool_withheld_by_an_error_is_explained(
    mark: dict[str, str], id: str, user: Any, settings: Any
) -> None:
    serve(settings, star, **mark)
    said = reason(user, mark.get("name", "star"))
    assert said.startswith(f"mcp_bridge.{id}: ")
    assert "tests/management/test_missing_tools.py:" in said


def test_tools_with_the_same_name_are_explained(user: Any, settings: Any) -> None:
    server = RpcServer()
    server.register_procedure(mcp_tool(taking(int)), name="a.b")
    server.register_procedure(mcp_tool(taking(str)), name="a_b")
    route(settings, path("rpc", server.view))
    assert reason(user, "a_b").startswith("mcp_bridge.E007: ")


def test_unknown_name_is_explained(user: Any) -> None:
    assert reason(user, "shop.orders.find") == (
        "No marked and registered function has this name or URI. Did you mean 'shop_orders_find'?"
    )
    assert reason(user, "qqq") == "No marked and registered function has this name or URI."

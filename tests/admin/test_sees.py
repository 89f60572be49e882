"""The preview of the tools that a user or group sees, and why others are hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.access import AccessPolicy
from mcp_bridge.features import Context, Tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.testing.serving import route
from tests.support.administrator import VIEW, Administrator, row, serve_tools
from tests.support.marked import in_german

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"


class Closed(AccessPolicy):
    """An access policy that refuses every call."""

    def allows(self, tool: Tool, context: Context) -> bool:
        return False


def alpha() -> str:
    """Say alpha."""
    return "alpha"


def acting(name: str, permission: str) -> Callable[[], str]:
    def act() -> str:
        """Act."""
        raise AssertionError

    act.__name__ = name
    return mcp_tool(permissions=permission)(act)  # type: ignore[no-any-return]


@pytest.fixture
def administrator(settings: Any) -> Administrator:
    ToolSetting.objects.all().delete()
    serve_tools(settings, alpha, permissions=["auth.add_user", "auth.view_group"])
    return Administrator()


def test_users_and_groups_are_found_by_name(administrator: Administrator) -> None:
    group = Group.objects.create(name=f"press {MARKER}")
    ada = get_user_model().objects.create_user("adapress")
    text = administrator.get("sees", q="press")
    assert f'href="?user={ada.pk}"' in text
    assert f'href="?group={group.pk}"' in text
    assert MARKER not in text
    assert "A member of press &lt;script&gt;" in administrator.get("sees", q="press <")
    # Without a query, the page offers the groups to choose from.
    assert f'href="?group={group.pk}"' in administrator.get("sees")
    for query in ({"group": "x"}, {"group": "0"}, {"group": "9" * 30}, {"group": MARKER}):
        assert " sees " not in administrator.get("sees", **query).partition("content-main")[2]


def test_all_missing_permissions_are_named_at_once(administrator: Administrator) -> None:
    ada = get_user_model().objects.create_user("ada")
    press, desk = Group.objects.create(name="press"), Group.objects.create(name="desk")
    administrator.get("changelist")
    row("alpha").groups.set([press, desk])
    ada.user_permissions.add(Permission.objects.get(codename="add_user"))
    text = administrator.get("sees", user=ada.pk)
    assert "ada sees 0 tools of 1" in text
    assert "Not in desk or press. Lacks “Can view group”." in text
    ada.groups.add(press)
    press.permissions.add(Permission.objects.get(codename="view_group"))
    assert "ada sees 1 tool of 1" in administrator.get("sees", user=ada.pk)
    text = administrator.get("sees", group=press.pk)
    assert "A member of press sees 0 tools of 1" in text
    assert "Lacks “Can add user”." in text
    assert "Requires login." in administrator.get("sees", nobody=1)


def test_custom_access_policy_is_a_reason(settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": "tests.admin.test_sees.Closed"}
    serve_tools(settings, alpha)
    administrator = Administrator()
    text = administrator.get("sees", user=administrator.user.pk)
    assert "Refused by the site's own policy (ACCESS_POLICY)." in text


FURTHER = "The site's own policy (ACCESS_POLICY) may refuse some."
ASKED = "The site's own policy (ACCESS_POLICY) applies to users"


def test_custom_access_policy_may_refuse_group_members(settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": "tests.admin.test_sees.Closed"}
    ToolSetting.objects.all().delete()
    serve_tools(settings, alpha)
    administrator, press = Administrator(), Group.objects.create(name="press")
    text = administrator.get("sees", group=press.pk)
    assert f"<td>{FURTHER}</td>" in text
    assert text.count(FURTHER) == 1
    assert ASKED in text.partition("mcp-answers")[0]
    # The policy can be asked about a user; and a disabled tool is disabled for everyone.
    text = administrator.get("sees", user=administrator.user.pk)
    assert (FURTHER in text, ASKED in text) == (False, False)
    administrator.act("switch_off", "alpha")
    assert FURTHER not in administrator.get("sees", group=press.pk)


def test_tool_rule_and_access_policy_may_refuse_members(settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": "tests.admin.test_sees.Closed"}
    server = RpcServer(register_system_procedures=False)
    server.register_procedure(mcp_tool(alpha), auth=lambda request: True)
    route(settings, path("admin/", admin.site.urls), path("rpc", server.view))
    press = Group.objects.create(name="press")
    own = "An access rule in code may refuse some."
    assert f"<td>{own} {FURTHER}</td>" in Administrator().get("sees", group=press.pk)


def test_default_access_policy_is_not_mentioned(
    administrator: Administrator,
) -> None:
    press = Group.objects.create(name="press")
    press.permissions.set(Permission.objects.filter(codename__in=["add_user", "view_group"]))
    text = administrator.get("sees", group=press.pk)
    assert "A member of press sees 1 tool of 1" in text
    assert "ACCESS_POLICY" not in text


CAN = {
    "Can add %(model)s": "Darf %(model)s hinzufügen",
    "Can change %(model)s": "Darf %(model)s ändern",
    "Can view %(model)s": "Darf %(model)s ansehen",
}


def test_django_permissions_are_named_in_the_readers_language(
    administrator: Administrator, tmp_path: Path
) -> None:
    """A custom name of a permission is not translated."""
    administrator.get("changelist")
    ada, tool = get_user_model().objects.create_user("ada"), row("alpha")
    pages: list[tuple[Any, ...]] = [("sees",), ("change", tool.pk), ("changelist",)]

    def texts() -> list[str]:
        return [
            administrator.get(*each, **({"user": ada.pk} if each == ("sees",) else {}))
            for each in pages
        ]

    for text in texts():
        assert "Can add user" in text
        assert "Can view group" in text
    Permission.objects.filter(codename="view_group").update(name="Read groups")
    with in_german(tmp_path, CAN):
        for text in texts():
            assert "Darf Benutzer hinzufügen" in text
            assert "Read groups" in text
            assert "Can add" not in text


def test_permission_to_decide_is_named_in_the_readers_language(
    administrator: Administrator, tmp_path: Path
) -> None:
    administrator.get("changelist")
    viewer = Administrator(VIEW, "view_pendingcall", username="viewer")
    calls = reverse("admin:mcp_bridge_pendingcall_changelist")
    for text in (viewer.get("changelist"), viewer.get("change", row("alpha").pk)):
        assert "(requires “Can change tool”)." in text
    told = "(requires “Can change pending call”)."
    assert told in viewer.browser.get(calls).content.decode()
    with in_german(tmp_path, CAN):
        assert "Darf Werkzeug ändern" in viewer.get("changelist")
        text = viewer.browser.get(calls).content.decode()
        assert "Darf wartender Aufruf ändern" in text


def test_removed_tools_are_not_listed(administrator: Administrator) -> None:
    ToolSetting.objects.create(name="was_here")
    assert "was_here" not in administrator.get("sees", user=administrator.user.pk)


def test_missing_permission_row_is_shown_as_its_codename(settings: Any) -> None:
    serve_tools(settings, alpha, permissions=["auth.nothing"])
    administrator = Administrator(VIEW, "view_user")
    text = administrator.get("sees", user=administrator.user.pk)
    assert "Lacks “auth.nothing”." in text


def test_many_tools_with_different_rules_take_few_queries(settings: Any) -> None:
    ToolSetting.objects.all().delete()
    wanted = Permission.objects.select_related("content_type")
    names = [f"{each.content_type.app_label}.{each.codename}" for each in wanted]
    server = RpcServer(register_system_procedures=False)
    for number in range(300):
        server.register_procedure(acting(f"tool_{number:03}", names[number % len(names)]))
    route(settings, path("admin/", admin.site.urls), path("rpc", server.view))
    administrator = Administrator(VIEW, "view_user")
    administrator.get("changelist")
    group = Group.objects.create(name="press")
    for each in ToolSetting.objects.all()[:150]:
        each.groups.add(group)
    ada = get_user_model().objects.create_user("ada")
    ada.groups.add(group)
    for query in ({"user": ada.pk}, {"group": group.pk}, {"nobody": 1}, {"q": "a"}):
        administrator.get("sees", **query)
        with CaptureQueriesContext(connection) as queries:
            administrator.get("sees", **query)
        assert len(queries) <= 15, [each["sql"] for each in queries]

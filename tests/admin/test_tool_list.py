"""The list of tools in the admin."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, path
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry.definitions import tokens_of
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import route
from tests.support.administrator import CHANGE, VIEW, Administrator, address, row, serve_tools
from tests.support.serving import served

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"


def alpha(word: str) -> str:
    """Say <script>alert(1)</script>."""
    return word


def beta(word: str) -> str:
    """Shout."""
    return word


def gamma() -> str:
    """Wipe everything."""
    return "wiped"


@pytest.fixture
def site(settings: Any) -> Any:
    ToolSetting.objects.all().delete()
    serve_tools(settings, alpha, beta, gamma, title=MARKER)
    return settings


@pytest.fixture
def administrator(site: Any) -> Administrator:
    return Administrator()


def cells(page: str, name: str) -> dict[str, str]:
    """The columns of a tool's row, as they are read."""
    (line,) = [part for part in page.split("<tr>") if f">{name}</a></th>" in part]
    found = re.findall(r'<t[dh] class="(?:field-|)([\w-]+)[^"]*">(.*?)</t[dh]>', line)
    return {column: re.sub(r"<[^>]*>", "", text) for column, text in found}


def logged() -> list[tuple[str, str]]:
    entries = LogEntry.objects.order_by("object_repr")
    return [(each.object_repr, each.get_change_message()) for each in entries]


def test_opening_the_list_writes_the_rows(administrator: Administrator) -> None:
    page = administrator.get("changelist")
    assert [each.name for each in ToolSetting.objects.all()] == ["alpha", "beta", "gamma"]
    found = cells(page, "alpha")
    title, source = found.pop("served_title").split("tests/", 1)
    assert title == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert source.startswith("admin/test_tool_list.py:")
    assert found.pop("action-checkbox") == ""
    assert found.pop("tokens") == str(tokens_of(served("alpha").definition(LATEST)))
    assert found == {
        "name": "alpha",
        "enabled": "",
        "status": "on",
        "who_can_see_it": "every user (1 user)",
        "last_called": "-",
        "calls_in_a_week": "0 calls",
        "hints": "-",
    }
    assert MARKER not in page
    assert 'aria-label="alpha is enabled"' in page
    assert "No tool waits for approval." in page
    assert "3 tools are in the code; 0 off, 0 no longer in the code." in page


def test_each_status_is_said_and_filtered(settings: Any) -> None:
    ToolSetting.objects.all().delete()
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled"}
    serve_tools(settings, alpha, beta, gamma, confirm=True, read_only=True)
    administrator = Administrator()
    administrator.get("changelist")
    administrator.post("approve", row("beta").pk, fingerprint=fingerprint_on(administrator, "beta"))
    administrator.post(
        "approve", row("gamma").pk, fingerprint=fingerprint_on(administrator, "gamma")
    )
    serve_tools(settings, alpha, beta, gamma, confirm=True, read_only=True)
    ToolSetting.objects.filter(name="beta").update(fingerprint="another")
    ToolSetting.objects.filter(name="gamma").update(enabled=False)
    ToolSetting.objects.create(name="was_here")
    page = administrator.get("changelist")
    assert '<a href="?status=waiting">2 tools wait for approval.</a>' in page
    assert {name: cells(page, name)["status"] for name in ("alpha", "beta", "gamma")} == {
        "alpha": "new, waits for approval",
        "beta": "changed, waits for approval",
        "gamma": "off",
    }
    assert cells(page, "was_here")["status"] == "no longer in the code"
    assert cells(page, "was_here")["who_can_see_it"] == "nobody"
    assert (
        cells(page, "gamma")["who_can_see_it"] == "nobody now; when it is on: every user (1 user)"
    )
    assert cells(page, "gamma")["hints"] == "read-only, asks first"
    for wanted, names in {
        "waiting": ["alpha", "beta"],
        "new": ["alpha"],
        "changed": ["beta"],
        "disabled": ["gamma"],
        "served": [],
        "gone": ["was_here"],
    }.items():
        administrator.get("changelist", status=wanted, _facets="True")
        assert [each.name for each in administrator.response.context["cl"].result_list] == names


def fingerprint_on(administrator: Administrator, name: str) -> str:
    page = administrator.get("change", row(name).pk)
    (found,) = re.findall(r'name="fingerprint" value="(\w+)"', page)
    return str(found)


@pytest.mark.parametrize(
    ("term", "names"),
    [
        ("SHOUT", ["beta"]),
        ("alert say", ["alpha"]),
        ("whisper", ["gamma"]),
        ("gam", ["gamma"]),
        ("wipe", []),
        ("shout wipe", []),
        (" ", ["alpha", "beta", "gamma"]),
    ],
)
def test_search_reads_what_models_read(
    administrator: Administrator, term: str, names: list[str]
) -> None:
    administrator.get("changelist")
    ToolSetting.objects.filter(name="gamma").update(description="Whisper.")
    administrator.get("changelist", q=term)
    assert [each.name for each in administrator.response.context["cl"].result_list] == names


def test_a_cleared_tick_switches_off_and_is_logged(administrator: Administrator) -> None:
    client = MCPClient(user=administrator.user)
    administrator.get("changelist")
    page = administrator.tick(alpha=False)
    assert "1 tool was changed successfully." in page
    assert [tool["name"] for tool in client.list_tools()] == ["beta", "gamma"]
    assert logged() == [("alpha", "Changed Enabled.")]
    assert cells(page, "alpha")["status"] == "off"
    administrator.tick(alpha=True)
    assert len(client.list_tools()) == 3


def test_several_are_switched_at_once(administrator: Administrator) -> None:
    administrator.get("changelist")
    page = administrator.act("switch_off", "alpha", "beta")
    assert "2 tools are switched off." in page
    assert logged() == [("alpha", "Changed Enabled."), ("beta", "Changed Enabled.")]
    assert "1 tool is switched off. 1 was so before." in administrator.act(
        "switch_off", "beta", "gamma"
    )
    assert "0 tools are switched on. 0" not in administrator.act(
        "switch_on", "alpha", "beta", "gamma"
    )
    assert not ToolSetting.objects.filter(enabled=False).exists()
    assert len(logged()) == 6
    offered = re.findall(r'<option value="(\w+)"', administrator.get("changelist"))
    assert offered == ["switch_on", "switch_off", "set_scopes"]


def test_who_may_only_look_changes_nothing(site: Any) -> None:
    Administrator(username="root").get("changelist")
    reader = Administrator(VIEW)
    page = reader.get("changelist")
    assert "switch_off" not in page
    assert 'type="checkbox"' not in page
    assert "clear its tick" not in page
    assert "What a user sees" not in page
    reader.post("changelist", _save="Save", expected=403)
    reader.act("switch_off", "alpha")
    reader.save("alpha", expected=403)
    assert row("alpha").enabled
    assert not LogEntry.objects.exists()


def test_others_are_refused_everywhere(site: Any) -> None:
    Administrator(username="root").get("changelist")
    key = row("alpha").pk
    outsider = Administrator("view_group")
    for page, args in {
        "changelist": (),
        "change": (key,),
        "history": (key,),
        "try": (key,),
        "sees": (),
    }.items():
        outsider.get(page, *args, expected=403)
    outsider.post("try", key, expected=403)
    outsider.post("approve", key, expected=403)
    outsider.browser.logout()
    for page, args in {"changelist": (), "try": (key,), "sees": ()}.items():
        assert outsider.browser.get(address(page, *args)).url.startswith("/admin/login/")


def test_nothing_is_added_and_only_what_is_gone_deleted(administrator: Administrator) -> None:
    administrator.get("changelist")
    with pytest.raises(NoReverseMatch):
        address("nothing")
    administrator.get("add", expected=403)
    administrator.get("delete", row("alpha").pk, expected=403)
    gone = ToolSetting.objects.create(name="was_here")
    assert "Delete" in administrator.get("change", gone.pk)
    administrator.post("delete", gone.pk, post="yes")
    assert not ToolSetting.objects.filter(name="was_here").exists()
    kept = ToolSetting.objects.create(name="was_here")
    Administrator(VIEW, CHANGE, username="other").get("delete", kept.pk, expected=403)


def test_the_list_costs_the_same_however_many_tools_there_are(settings: Any) -> None:
    # On a busy machine a page takes longer than what is known holds, which is a query more.
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 600}
    ToolSetting.objects.all().delete()
    administrator = Administrator()
    group = Group.objects.create(name="staff")

    def cost(count: int) -> int:
        server = RpcServer(register_system_procedures=False)
        for number, each in enumerate(Permission.objects.order_by("pk")[:count]):
            asked = f"{each.content_type.app_label}.{each.codename}"
            server.register_procedure(mcp_tool(permissions=asked)(named(f"tool_{number}")))
        route(settings, path("rpc", server.view), path("admin/", admin.site.urls))
        administrator.get("changelist")
        for each in ToolSetting.objects.all():
            each.groups.add(group)
        administrator.get("changelist")
        with CaptureQueriesContext(connection) as queries:
            administrator.get("changelist", status="served")
        assert administrator.response.context["cl"].result_count == count
        return len(queries)

    assert cost(2) == cost(40) <= 25


def named(name: str) -> Any:
    def function() -> str:
        """Do something."""
        return name

    function.__name__ = name
    return function

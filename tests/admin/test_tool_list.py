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
    """Return the columns of a tool's row as plain text."""
    (line,) = [
        part for part in page.split("<tr>") if re.search(rf">{name}(</span>)?</a></th>", part)
    ]
    found = re.findall(r'<t[dh] class="(?:field-|)([\w-]+)[^"]*">(.*?)</t[dh]>', line)
    return {column: re.sub(r"<[^>]*>", "", text) for column, text in found}


def logged() -> list[tuple[str, str]]:
    entries = LogEntry.objects.order_by("object_repr")
    return [(each.object_repr, each.get_change_message()) for each in entries]


def test_opening_the_list_writes_the_rows(administrator: Administrator) -> None:
    page = administrator.get("changelist")
    assert [each.name for each in ToolSetting.objects.all()] == ["alpha", "beta", "gamma"]
    found = cells(page, "alpha")
    about = found.pop("what_it_does")
    assert about == "unknown Say &lt;script&gt;alert(1)&lt;/script&gt;."
    assert found.pop("action-checkbox") == ""
    assert found.pop("tokens") == str(tokens_of(served("alpha").definition(LATEST)))
    assert found == {
        "tool": "&lt;script&gt;alert(1)&lt;/script&gt; alpha",
        "enabled": "",
        "status": "enabled",
        "who_can_use_it": "every user (1 person)"
        "Every user of the site can use it, and it may delete or overwrite.",
        "calls": "No calls",
    }
    assert MARKER not in page
    assert 'aria-label="alpha is enabled"' in page
    assert "No tools are pending approval." in page
    assert "The site has 3 tools. Disabled: 0. Removed: 0." in page


def test_status_is_shown_and_filtered(settings: Any) -> None:
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
    assert '<a href="?status=waiting">2 tools are pending approval.</a>' in page
    assert {name: cells(page, name)["status"] for name in ("alpha", "beta", "gamma")} == {
        "alpha": "new, pending approval",
        "beta": "changed, pending approval",
        "gamma": "disabled",
    }
    assert cells(page, "was_here")["status"] == "no longer exists"
    assert cells(page, "was_here")["who_can_use_it"] == "no one"
    off = "no one now; when enabled: every user (1 person)"
    assert cells(page, "gamma")["who_can_use_it"] == off
    assert cells(page, "gamma")["what_it_does"] == (
        "read-only requires confirmation Wipe everything."
    )
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
def test_search_covers_the_texts_sent_to_models(
    administrator: Administrator, term: str, names: list[str]
) -> None:
    administrator.get("changelist")
    ToolSetting.objects.filter(name="gamma").update(description="Whisper.")
    administrator.get("changelist", q=term)
    assert [each.name for each in administrator.response.context["cl"].result_list] == names


def test_cleared_checkbox_disables_and_is_logged(administrator: Administrator) -> None:
    client = MCPClient(user=administrator.user)
    administrator.get("changelist")
    page = administrator.tick(alpha=False)
    assert "1 tool was changed successfully." in page
    assert [tool["name"] for tool in client.list_tools()] == ["beta", "gamma"]
    assert "“alpha” is disabled." in page
    assert logged() == [("alpha", "Enabled: on → off")]
    assert cells(page, "alpha")["status"] == "disabled"
    administrator.tick(alpha=True)
    assert len(client.list_tools()) == 3


def test_several_tools_are_switched_at_once(administrator: Administrator) -> None:
    administrator.get("changelist")
    page = administrator.act("switch_off", "alpha", "beta")
    assert "2 tools were disabled." in page
    assert "“beta” is disabled." in page
    assert logged() == [("alpha", "Enabled: on → off"), ("beta", "Enabled: on → off")]
    assert "1 tool was disabled. 1 was unchanged." in administrator.act(
        "switch_off", "beta", "gamma"
    )
    assert "0 tools are switched on. 0" not in administrator.act(
        "switch_on", "alpha", "beta", "gamma"
    )
    assert not ToolSetting.objects.filter(enabled=False).exists()
    assert len(logged()) == 6
    offered = re.findall(r'<option value="(\w+)"', administrator.get("changelist"))
    assert offered == ["switch_on", "switch_off"]


def test_viewer_cannot_change_tools(site: Any) -> None:
    Administrator(username="root").get("changelist")
    reader = Administrator(VIEW)
    page = reader.get("changelist")
    assert "switch_off" not in page
    assert 'type="checkbox"' not in page
    assert "To disable a tool" not in page
    assert "Preview as a user" not in page
    reader.post("changelist", _save="Save", expected=403)
    reader.act("switch_off", "alpha")
    reader.save("alpha", expected=403)
    assert row("alpha").enabled
    assert not LogEntry.objects.exists()


def test_pages_are_refused_without_permissions(site: Any) -> None:
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


def test_only_removed_tools_can_be_deleted(administrator: Administrator) -> None:
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


def test_query_count_is_independent_of_tool_count(settings: Any) -> None:
    # On a busy machine the cached state would expire during a page, which costs another query.
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

    assert cost(2) == cost(40) <= 15


def named(name: str) -> Any:
    def function() -> str:
        """Do something."""
        return name

    function.__name__ = name
    return function


def switch(administrator: Administrator, name: str, on: bool, expected: int = 200) -> Any:
    """Return the JSON answer to a script that switches a tool."""
    data = {"enabled": "on"} if on else {}
    administrator.post("switch", row(name).pk, expected=expected, **data)
    return administrator.response.json() if expected == 200 else None  # type: ignore[attr-defined]


def test_switch_takes_effect_at_once_and_names_the_users(administrator: Administrator) -> None:
    client = MCPClient(user=administrator.user)
    page = administrator.get("changelist")
    assert f'data-mcp-switch="{row("alpha").pk}/switch/"' in page
    told = switch(administrator, "alpha", on=False)
    assert told["message"] == "“alpha” is disabled."
    assert told["cells"]["status"] == '<span class="mcp-status-disabled">disabled</span>'
    assert MARKER not in str(told)
    assert [tool["name"] for tool in client.list_tools()] == ["beta", "gamma"]
    assert switch(administrator, "alpha", on=False)["message"] == "“alpha” is disabled."
    assert logged() == [("alpha", "Enabled: on → off")]
    told = switch(administrator, "alpha", on=True)
    assert told["message"] == (
        "“alpha” is enabled for every user (1 person). "
        "Every user of the site can use it, and it may delete or overwrite."
    )
    assert len(client.list_tools()) == 3


def test_switch_warns_of_a_tool_without_users(administrator: Administrator) -> None:
    administrator.get("changelist")
    ToolSetting.objects.filter(name="alpha").update(restricted=True)
    told = switch(administrator, "alpha", on=True)
    sentence = "No one can use it: it is restricted to groups, but none is selected."
    assert told["message"] == f"“alpha” is enabled for 0 people. {sentence}"
    assert sentence in told["cells"]["who_can_use_it"]
    assert sentence in cells(administrator.get("changelist"), "alpha")["who_can_use_it"]
    ToolSetting.objects.create(name="was_here", enabled=False)
    told = switch(administrator, "was_here", on=True)
    assert told["message"] == "“was_here” is enabled, but not available: no longer exists."


def test_switching_requires_post_permission_and_csrf_token(site: Any) -> None:
    administrator = Administrator(username="root")
    administrator.get("changelist")
    key = row("alpha").pk
    administrator.get("switch", key, expected=405)
    administrator.post("switch", "nothing", expected=404)
    switch(Administrator(VIEW, username="reader"), "alpha", on=False, expected=403)
    switch(Administrator("view_group", username="other"), "alpha", on=False, expected=403)
    switch(Administrator(CHANGE, username="chief"), "alpha", on=False)
    administrator.browser.handler.enforce_csrf_checks = True
    switch(administrator, "alpha", on=True, expected=403)
    assert not row("alpha").enabled
    assert [entry.user.username for entry in LogEntry.objects.all()] == ["chief"]


def alpha_too() -> str:
    """Say it again."""
    return ""


def beta_too() -> str:
    """Shout as well."""
    return ""


def test_tools_are_grouped_unless_a_column_is_chosen(
    administrator: Administrator, settings: Any
) -> None:
    def groups(**query: Any) -> list[tuple[str, list[str]]]:
        administrator.get("changelist", **query)
        changelist = administrator.response.context["cl"]  # type: ignore[attr-defined]
        names = [each.name for each in changelist.result_list]
        found = []
        for group in changelist.row_groups:
            begin, _, end = group.part.partition(":")
            found.append((group.name, names[int(begin or 0) : int(end) if end else None]))
        return found

    ToolSetting.objects.create(name="a_was_here")
    flat = ["a_was_here", "alpha", "beta", "gamma"]
    rest = ("Without a tool", ["a_was_here"])
    assert groups(group="prefix") == [(name, [name]) for name in flat[1:]] + [rest]
    # Headings are omitted if each tool would be a group, or all are of the same app.
    assert groups() == groups(group="app") == [("", flat)]
    serve_tools(settings, alpha, alpha_too, beta, beta_too)
    ToolSetting.objects.filter(name="gamma").delete()
    prefixes = [("alpha", ["alpha", "alpha_too"]), ("beta", ["beta", "beta_too"]), rest]
    assert groups() == groups(group="nonsense") == prefixes
    assert groups(group="prefix", o="-1") == [(name, each[::-1]) for name, each in prefixes]
    assert groups(o="-1")[0][1][0] == "beta_too"
    assert groups(o="-1")[0][0] == ""
    page = administrator.get("changelist", _facets="True")
    assert "<summary>beta " in page
    assert page.count('<tr class="mcp-group">') == 3


def test_list_is_sorted_by_calls(administrator: Administrator) -> None:
    administrator.get("changelist")
    client = MCPClient(user=administrator.user)
    for name in ("beta", "beta", "alpha"):
        client.call_tool(name, {"word": "x"})
    page = administrator.get("changelist", o="-6")
    found = administrator.response.context["cl"].result_list  # type: ignore[attr-defined]
    assert [each.name for each in found] == ["beta", "alpha", "gamma"]
    assert cells(page, "beta")["calls"].replace("\xa0", " ") == "2 calls · 0 minutes ago"


def test_limits_set_in_the_admin_are_shown(administrator: Administrator) -> None:
    administrator.get("changelist")
    editors, authors = (Group.objects.create(name=name) for name in ("Editors", "Authors"))
    administrator.user.groups.add(editors)
    row("alpha").groups.set([editors, authors])
    values = {"rate": "5/min", "confirm": True, "scopes": "a:read", "description": "Said."}
    ToolSetting.objects.filter(name="alpha").update(**values)
    found = cells(administrator.get("changelist"), "alpha")
    assert found["who_can_use_it"] == (
        "Authors, Editors; 1 person"
        "only for: Authors, Editors; 5/min; requires confirmation; scopes: a:read; custom texts"
    )
    assert "requires confirmation" in found["what_it_does"]


@pytest.mark.parametrize(
    ("options", "badges"),
    [
        ({}, "unknown"),
        ({"read_only": True}, "read-only"),
        ({"read_only": False}, "writes"),
        ({"destructive": False}, "writes"),
        ({"destructive": True, "confirm": True}, "deletes requires confirmation"),
        ({"read_only": True, "public": True}, "read-only public"),
    ],
)
def test_badges_show_the_tools_hints(settings: Any, options: Any, badges: str) -> None:
    ToolSetting.objects.all().delete()
    serve_tools(settings, gamma, **options)
    page = Administrator().get("changelist")
    about = cells(page, "gamma")["what_it_does"]
    assert about == f"{badges} Wipe everything."


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"public": True}, "Everyone can use it, signed in or not, and it may change data."),
        ({"public": True, "read_only": True}, ""),
        ({"destructive": True}, "Every user of the site can use it, and it may delete"),
        ({"read_only": False}, "Every user of the site can use it, and it may delete"),
        ({}, "Every user of the site can use it, and it may delete"),
        ({"destructive": False}, ""),
        ({"read_only": True}, ""),
        (
            {"permissions": "auth.nothing", "superusers": False},
            "No one can use it: no active user has the required permissions.",
        ),
    ],
)
def test_tool_open_to_all_or_none_has_a_warning(
    settings: Any, options: dict[str, Any], sentence: str
) -> None:
    ToolSetting.objects.all().delete()
    superusers = options.pop("superusers", True)
    serve_tools(settings, gamma, **options)
    administrator = Administrator() if superusers else Administrator(VIEW, CHANGE)
    page = administrator.get("changelist")
    assert ('<div class="mcp-warning">' in page) == bool(sentence)
    assert sentence in page
    page = administrator.get("change", row("gamma").pk)
    assert ('<p class="mcp-warning">' in page) == bool(sentence)
    assert sentence in page

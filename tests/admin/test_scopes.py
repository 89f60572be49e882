"""Scopes in the admin: the tools that require them, and their descriptions."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.models import Generation, Scope, ToolSetting
from mcp_bridge.registry.fingerprints import canonical_definition
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import route
from mcp_bridge.tokens.models import Token
from tests.support.administrator import CHANGE, VIEW, Administrator, row, serve_tools
from tests.support.serving import served

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


def alpha() -> str:
    """Do the first thing."""
    return "alpha"


def beta() -> str:
    """Do the second thing."""
    return "beta"


@pytest.fixture
def administrator(settings: Any) -> Administrator:
    """An administrator of a site with two tools of scope "read" that require confirmation."""
    settings.MCP_BRIDGE = {"SCOPES": {"read": f"Read {MARKER}", "write": "Change"}}
    ToolSetting.objects.all().delete()
    serve_tools(settings, alpha, beta, scopes="read", confirm=True)
    administrator = Administrator()
    administrator.get("changelist")
    return administrator


def tools_of(user: Any, *scopes: str) -> list[str]:
    """Return the names of the tools listed for a token with these scopes."""
    _, secret = Token.objects.issue(user=user, name="Laptop", scopes=scopes)
    return [tool["name"] for tool in MCPClient(token=secret).list_tools()]


def in_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


# A tool's page.


def test_admin_scopes_are_added_to_code_scopes(administrator: Administrator) -> None:
    before = in_one_line(administrator.get("change", row("alpha").pk))
    assert "Scopes required of OAuth clients read Rate" in before
    generation = Generation.current()
    text = in_one_line(administrator.save("alpha", enabled="on", scopes="write"))
    assert "“alpha” is enabled for every user (1 person)." in text
    assert Generation.current() != generation
    text = in_one_line(administrator.get("change", row("alpha").pk))
    assert "Scopes required of OAuth clients read, write Rate" in text
    (entry,) = LogEntry.objects.all()
    assert entry.get_change_message() == "Scopes: none → “write”"
    assert tools_of(administrator.user, "read") == ["beta"]
    assert tools_of(administrator.user, "read", "write") == ["alpha", "beta"]


@pytest.mark.parametrize("scopes", ['a"b', "a  b", "a\\b", "é", MARKER.replace(">", '"')])
def test_invalid_scopes_are_refused(administrator: Administrator, scopes: str) -> None:
    text = administrator.save("alpha", enabled="on", scopes=scopes)
    assert "Write names with one space between them" in text
    assert row("alpha").scopes == ""


def test_admin_scopes_do_not_require_approval(administrator: Administrator) -> None:
    before = canonical_definition(served("alpha"))
    administrator.save("alpha", enabled="on", scopes="write")
    assert canonical_definition(served("alpha")) == before
    assert "No tools are pending approval." in administrator.get("changelist")


def test_admin_scopes_do_not_affect_the_preview(administrator: Administrator) -> None:
    administrator.save("alpha", enabled="on", scopes="write other")
    page = administrator.get("sees", user=administrator.user.pk)
    assert "administrator sees 2 tools" in page


def test_viewer_cannot_set_scopes(administrator: Administrator) -> None:
    reader = Administrator(VIEW, username="reader")
    reader.save("alpha", expected=403, scopes="write")
    assert row("alpha").scopes == ""
    editor = Administrator(VIEW, CHANGE, username="editor")
    editor.save("alpha", scopes="write")
    assert row("alpha").scopes == "write"


def test_tools_are_filtered_by_scope(administrator: Administrator) -> None:
    ToolSetting.objects.filter(name="beta").update(scopes="own", enabled=False)
    page = administrator.get("changelist")
    assert re.findall(r'href="\?scope=(\w+)"', page) == ["own", "read"]
    for scope, names in {"read": ["alpha", "beta"], "own": ["beta"], "write": []}.items():
        administrator.get("changelist", scope=scope)
        context: Any = administrator.response
        assert [each.name for each in context.context["cl"].result_list] == names


# The descriptions.


def at(page: str, *args: Any) -> str:
    return reverse(f"admin:mcp_bridge_scope_{page}", args=args)


def scope_rows(administrator: Administrator) -> dict[str, list[str]]:
    """Return the cells of the only table of scopes, by scope."""
    page = administrator.browser.get(at("changelist")).content.decode()
    assert MARKER not in page
    (table,) = re.findall(r"<tbody>(.*?)</tbody>", page[page.index('id="content-main"') :], re.S)
    lines = [
        [
            unescape(in_one_line(cell)).strip()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.S)
        ]
        for line in re.findall(r"<tr>(.*?)</tr>", table, re.S)
    ]
    return {name: cells for name, *cells in lines}


def test_one_table_has_each_scope_with_its_tools(administrator: Administrator) -> None:
    Scope.objects.create(name="write", description="Change things & more")
    ToolSetting.objects.filter(name="beta").update(scopes="own write", enabled=False)
    assert scope_rows(administrator) == {
        "own": [
            "none; users see its name",
            "From: admin",
            "Required by: 1 tool",
            "Allows: 0 tools",
        ],
        "read": [
            f"Read {MARKER}",
            "From: settings, the tool's code",
            "Required by: 2 tools",
            "Allows: 1 tool",
        ],
        "write": [
            "Change things & more",
            "From: settings, admin",
            "Required by: 1 tool",
            "Allows: 0 tools",
        ],
    }


def test_scope_allows_the_tools_of_included_scopes(
    administrator: Administrator, settings: Any
) -> None:
    included = {"description": "Everything", "includes": ["read"]}
    settings.MCP_BRIDGE = {"SCOPES": {"all": included}}
    assert scope_rows(administrator)["all"][1:] == [
        *("From: settings", "Required by: 0 tools", "Allows: 2 tools")
    ]


def test_numbers_lead_to_the_tools_that_require_a_scope(administrator: Administrator) -> None:
    page = administrator.browser.get(at("changelist")).content.decode()
    (address,) = re.findall(r'href="([^"]*toolsetting/\?scope=read)"', page)
    found = administrator.browser.get(address).context["cl"].result_list
    assert [each.name for each in found] == ["alpha", "beta"]
    reader = Administrator("view_scope", username="reader")
    page = reader.browser.get(at("changelist")).content.decode()
    assert ("toolsetting" in page, "2 tools" in page) == (False, True)


def test_scope_of_the_settings_is_described_from_the_list(administrator: Administrator) -> None:
    page = administrator.browser.get(at("changelist")).content.decode()
    (address,) = re.findall(r'href="([^"]*\?name=read[^"]*)"', page)
    form = administrator.browser.get(unescape(address)).content.decode()
    assert 'value="read"' in form
    assert f'value="Read {ESCAPED}"' in form
    scope = Scope.objects.create(name="read", description="Look")
    page = administrator.browser.get(at("changelist")).content.decode()
    assert ("?name=read" in page, at("change", scope.pk) in page) == (False, True)


def test_description_can_be_changed_but_not_the_name(administrator: Administrator) -> None:
    browser = administrator.browser
    form = browser.get(at("add"), {"name": "read", "description": "Look"}).content.decode()
    assert 'value="read"' in form
    browser.post(at("add"), {"name": "read", "description": "Look at articles"})
    scope = Scope.objects.get()
    page = browser.get(at("change", scope.pk)).content.decode()
    assert "alpha, beta" in page
    browser.post(at("change", scope.pk), {"name": "other", "description": "Look at them"})
    assert Scope.objects.values_list("name", "description").get() == ("read", "Look at them")
    messages = [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]
    assert messages == ["Added.", "Changed Description."]


@pytest.mark.parametrize("name", ["a b", 'a"', "é", "a\\"])
def test_scope_name_is_unique(administrator: Administrator, name: str) -> None:
    response = administrator.browser.post(at("add"), {"name": name, "description": "x"})
    assert "Write one name" in response.content.decode()
    assert not Scope.objects.exists()


def test_deleting_removes_only_the_description(administrator: Administrator) -> None:
    scope = Scope.objects.create(name="read", description="Look")
    idle = Scope.objects.create(name="idle", description="Nothing")
    page = in_one_line(administrator.browser.get(at("delete", scope.pk)).content.decode())
    assert "Only the description is deleted; the setting SCOPES or the name is used instead" in page
    assert "2 tools still require the scope: alpha, beta." in page
    page = administrator.browser.get(at("delete", idle.pk)).content.decode()
    assert "needing" not in page
    administrator.browser.post(at("delete", scope.pk), {"post": "yes"})
    assert tools_of(administrator.user) == []
    assert "delete_selected" not in administrator.browser.get(at("changelist")).content.decode()


def test_descriptions_require_scope_permissions(administrator: Administrator) -> None:
    scope = Scope.objects.create(name="read", description="Look")
    outsider = Administrator(VIEW, CHANGE, username="outsider")
    for address in (at("changelist"), at("add"), at("change", scope.pk), at("delete", scope.pk)):
        assert outsider.browser.get(address).status_code == 403
        assert outsider.browser.post(address, {"post": "yes"}).status_code == 403
    reader = Administrator("view_scope", username="reader")
    page = reader.browser.get(at("changelist")).content.decode()
    assert (at("change", scope.pk) in page, "?name=" in page) == (True, False)
    assert Scope.objects.get() == scope


def test_query_count_is_independent_of_scope_count(settings: Any) -> None:
    # On a busy machine the cached state would expire during a page, which costs another query.
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 600}
    ToolSetting.objects.all().delete()
    administrator = Administrator()

    def cost(count: int) -> tuple[int, ...]:
        server = RpcServer(register_system_procedures=False)
        for number in range(count):
            each = named(f"tool_{number}")
            server.register_procedure(mcp_tool(scopes=[f"scope_{number}", "all"])(each))
            Scope.objects.get_or_create(name=f"scope_{number}", defaults={"description": "x"})
        route(settings, path("rpc", server.view), path("admin/", admin.site.urls))
        administrator.get("changelist")
        costs = []
        tools = reverse("admin:mcp_bridge_toolsetting_changelist")
        for address in (at("changelist"), f"{tools}?scope=all"):
            with CaptureQueriesContext(connection) as queries:
                response = administrator.browser.get(address)
            found = response.context.get("scopes") or response.context["cl"].result_list
            # The scope of all tools is one more.
            assert len(found) == count + ("scope/" in address)
            costs.append(len(queries))
        return tuple(costs)

    few = cost(2)
    assert few == cost(40)
    assert max(few) <= 25


def named(name: str) -> Any:
    def function() -> str:
        """Do something."""
        return name

    function.__name__ = name
    return function


def test_tool_with_a_scope_is_not_open_to_everyone(settings: Any) -> None:
    ToolSetting.objects.all().delete()
    serve_tools(settings, alpha, public=True)
    administrator = Administrator()
    administrator.get("changelist")
    assert len(MCPClient().list_tools()) == 1
    administrator.save("alpha", enabled="on", scopes="read")
    assert "none; login is required" in administrator.get("change", row("alpha").pk)
    user = get_user_model().objects.create_user("bob")
    assert [tools_of(user), tools_of(user, "read")] == [[], ["alpha"]]

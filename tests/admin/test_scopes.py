"""Scopes in the admin: the tools that require them, and their descriptions."""

from __future__ import annotations

import re
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


def test_list_shows_each_scope_with_its_tools(
    administrator: Administrator,
) -> None:
    Scope.objects.create(name="write", description="Change things & more")
    ToolSetting.objects.filter(name="beta").update(scopes="own write", enabled=False)
    page = administrator.browser.get(at("changelist")).content.decode()
    named, others = page.split('id="mcp-others"')
    assert "write Change things &amp; more beta" in in_one_line(named)
    text = in_one_line(others)
    assert f"read Read {ESCAPED} alpha, beta Change the description of read" in text
    assert "own none; users see its name beta Change the description of own" in text
    assert "write" not in text
    assert MARKER not in page
    assert "?name=read&amp;description=Read%20%3Cscript%3Ealert%281%29%3C%2Fscript%3E" in others


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
    assert ("Other scopes of" in page, "Change the description of" in page) == (True, False)
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
        scopes = reverse("admin:mcp_bridge_scope_changelist")
        for address in (scopes, f"{reverse('admin:mcp_bridge_toolsetting_changelist')}?scope=all"):
            with CaptureQueriesContext(connection) as queries:
                response = administrator.browser.get(address)
            assert response.context["cl"].result_count == count
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

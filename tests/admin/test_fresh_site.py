"""The pages of a fresh site: each names the first step."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.urls import include, path

from mcp_bridge.models import ToolSetting
from tests.support.administrator import VIEW, Administrator, serve_tools

pytestmark = pytest.mark.django_db
FRONT = "/admin/mcp_bridge/"
TOOLS = "/admin/mcp_bridge/toolsetting/"
QUEUE = "/admin/mcp_bridge/pendingcall/"
SAID = {
    FRONT: ["Mark a function with @mcp_tool", 'href="#mcp-connect"', "/token/add/"],
    TOOLS: ["Mark a function with @mcp_tool", "from mcp_bridge import mcp_tool"],
    f"{TOOLS}sees/": [
        "Find a user or a group by name",
        "Shows for each tool whether it is visible, and why not",
    ],
    f"{TOOLS}waiting/": ["No tools are pending approval", f'href="{TOOLS}"'],
    f"{TOOLS}candidates/": ['MCP_BRIDGE = {"EXPOSE": "all"}', f'href="{TOOLS}"'],
    QUEUE: [
        "Calls of tools that require confirmation wait here",
        f'<a href="{TOOLS}">To require confirmation, open a tool',
    ],
    f"{QUEUE}decide/": ["No calls are pending that you can decide on", f'href="{QUEUE}"'],
    "/admin/mcp_bridge/toolcallrecord/": ["No calls yet. Connect a client", f"{FRONT}#mcp-connect"],
    "/admin/mcp_bridge/scope/": ["Set the scopes of a tool on its page"],
    "/admin/mcp_bridge_tokens/token/": ["No tokens yet", "token/add/"],
    "/mcp/tokens/": ["You do not have a token yet.", "Issue one and connect a client with it."],
}


@pytest.fixture
def fresh(settings: Any) -> Administrator:
    ToolSetting.objects.all().delete()
    serve_tools(settings)
    urls = settings.ROOT_URLCONF.urlpatterns
    urls.append(path("mcp/tokens/", include("mcp_bridge.tokens.urls")))
    return Administrator()


def read(reader: Administrator, address: str) -> str:
    response = reader.browser.get(address)
    assert response.status_code == 200, address
    return unescape(response.content.decode())


@pytest.mark.parametrize("address", SAID)
def test_empty_page_shows_the_first_step(fresh: Administrator, address: str) -> None:
    text = read(fresh, address)
    assert [each for each in SAID[address] if each not in text] == []


def test_list_without_tools_has_no_search_or_actions(fresh: Administrator) -> None:
    controls = ["changelist-search", 'name="action"', "mcp-fold"]
    assert [each for each in controls if each in read(fresh, TOOLS)] == []
    # A row without a tool is one to find and delete.
    ToolSetting.objects.create(name="was_here")
    assert [each for each in controls if each in read(fresh, TOOLS)] == controls


@pytest.mark.parametrize("address", [FRONT, "/admin/mcp_bridge/toolcallrecord/"])
def test_pages_name_the_setting_that_disables_the_log(
    fresh: Administrator, settings: Any, address: str
) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "AUDIT": None}
    text = read(fresh, address)
    assert "AUDIT" in text
    assert "Remove it from the settings to record calls." in text
    assert "No calls yet. Connect a client" not in text


def test_tools_are_not_linked_without_permission(fresh: Administrator) -> None:
    reader = Administrator("view_pendingcall", username="reader")
    assert "To require confirmation, open a tool" not in read(reader, QUEUE)
    assert "To require confirmation, open a tool" in read(
        Administrator("view_pendingcall", VIEW, username="b"), QUEUE
    )


def test_token_form_is_not_linked_without_permission(fresh: Administrator) -> None:
    reader = Administrator("view_token", username="reader")
    text = read(reader, "/admin/mcp_bridge_tokens/token/")
    assert "No tokens yet" in text
    assert "token/add/" not in text

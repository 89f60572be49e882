"""Toolsets in the admin: a filter of the list, and the tokens that each list takes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import override_settings

from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry import definitions
from mcp_bridge.registry.definitions import tokens_of
from tests.support.administrator import Administrator, row, serve_tools
from tests.support.serving import served, set_tool

pytestmark = pytest.mark.django_db


def order_list() -> str:
    """List orders."""
    return ""


def order_send() -> str:
    """Send an order."""
    return ""


def weather() -> str:
    """Say the weather."""
    return ""


@pytest.fixture
def administrator(settings: Any) -> Administrator:
    ToolSetting.objects.all().delete()
    settings.MCP_BRIDGE = {
        "TOOLSETS": {"orders": ["order_*"], "reading": {"tools": ["*"], "read_only": True}}
    }
    serve_tools(settings, order_list, order_send, weather)
    return Administrator()


def tokens(*names: str) -> int:
    return sum(tokens_of(served(name).definition(LATEST)) for name in names)


def lengths(page: str) -> list[str]:
    """Return the page's text on the size of each list."""
    text = re.sub(r"<[^>]*>", "", page)
    return re.findall(r"\S+: \d+ enabled, about \d+ tokens", text)


def test_list_shows_the_size_of_each_toolset(administrator: Administrator) -> None:
    set_tool("order_send", enabled=False)
    page = administrator.get("changelist")
    assert lengths(page) == [
        f"tools: 2 enabled, about {tokens('order_list', 'weather')} tokens",
        f"orders: 1 enabled, about {tokens('order_list')} tokens",
        "reading: 0 enabled, about 0 tokens",
    ]
    assert "Some clients reject so many tools, and models choose less well among them" not in page


def test_oversized_toolset_has_a_warning(
    administrator: Administrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "MOST_TOOLS", 2)
    assert (
        administrator.get("changelist").count(
            "Some clients reject so many tools, and models choose less well among them"
        )
        == 1
    )


def test_default_toolset_hides_the_size_of_all_tools(settings: Any) -> None:
    settings.MCP_BRIDGE = {"TOOLSETS": {"default": ["weather"]}}
    serve_tools(settings, order_list, weather)
    assert [text.partition(":")[0] for text in lengths(Administrator().get("changelist"))] == [
        "default"
    ]


def test_list_is_filtered_by_toolset(administrator: Administrator) -> None:
    page = administrator.get("changelist", toolset="orders")
    assert re.findall(r'/change/[^"]*">(\w+)</a></th>', page) == ["order_list", "order_send"]
    assert "By toolset" in page
    with override_settings(MCP_BRIDGE={}):
        assert "By toolset" not in administrator.get("changelist")


def test_tool_page_shows_its_size(administrator: Administrator) -> None:
    administrator.get("changelist")
    page = administrator.get("change", row("weather").pk)
    assert f"it uses about {tokens('weather')} tokens in each model request" in page

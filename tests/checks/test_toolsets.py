"""System checks of TOOLSETS."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import checks
from django.urls import path
from django.utils.translation import gettext_lazy
from modernrpc.server import RpcServer

from mcp_bridge.testing.serving import route
from mcp_bridge.urls import endpoint
from mcp_bridge.views import MCPView

PLACE = "MCP_BRIDGE['TOOLSETS']"


def found(settings: Any, toolsets: Any) -> list[tuple[str, str]]:
    settings.MCP_BRIDGE = {"TOOLSETS": toolsets}
    # A URLconf can be built from any value.
    assert endpoint(MCPView)
    return [(str(each.id).removeprefix("mcp_bridge."), each.msg) for each in messages()]


def messages() -> list[checks.CheckMessage]:
    return [each for each in checks.run_checks(tags=["mcp_bridge"]) if not each.is_silenced()]


def test_toolsets_of_every_form_are_accepted(settings: Any) -> None:
    title = gettext_lazy("Yes")
    toolsets = {
        "default": ["add"],
        "Read-1": {"tools": ("*",), "read_only": True, "title": title, "instructions": "Read."},
        "rpc": ["source:rpc"],
        "none": [],
    }
    assert found(settings, toolsets) == []


@pytest.mark.parametrize("name", ["my tools", "a/b", "", "é", "<x>", "n" * 65])
def test_name_illegal_in_an_address_is_refused(settings: Any, name: str) -> None:
    ((id, text),) = found(settings, {name: ["add"]})
    assert id == "E002"
    assert "it becomes part of a URL" in text


@pytest.mark.parametrize(
    ("toolsets", "text"),
    [
        (["add"], " must be a valid dictionary, not ['add']."),
        ({1: ["add"]}, "[1]['[key]'] must be a valid string, not 1."),
        ({"a": "add"}, "['a']['tools'] must be a list, not 'add'."),
        ({"a": [1]}, "['a']['tools'][0] must be a valid string, not 1."),
        ({"a": {"title": "A"}}, "['a']['tools'] is required."),
        ({"a": {"tools": [], "titel": "A"}}, "['a']['titel'] is not a valid option."),
        ({"a": {"tools": [], "title": 5}}, "['a']['title'] must be a valid string, not 5."),
    ],
)
def test_malformed_toolset_is_refused(settings: Any, toolsets: Any, text: str) -> None:
    assert found(settings, toolsets) == [("E002", PLACE + text)]


def test_unmatched_pattern_is_a_warning(settings: Any) -> None:
    toolsets = {"sums": ["add", "ad", "sum_*", "source:rcp", "source:rpc"]}
    assert found(settings, toolsets) == [
        ("W095", f"{PLACE}['sums'] contains {name!r}, which does not match any tool.")
        for name in ("ad", "sum_*", "source:rcp")
    ]
    hints = [message.hint for message in messages()]
    assert "Did you mean 'add'?" in str(hints[0])
    assert "Did you mean 'source:rpc'?" in str(hints[2])


def test_disabled_candidate_can_be_named(settings: Any) -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    server = RpcServer(register_system_procedures=False)
    server.register_procedure(double)
    route(settings, path("rpc", server.view))
    toolsets = {"sums": ["doub*", "source:rpc", "triple"]}
    settings.MCP_BRIDGE = {"EXPOSE": "all", "TOOLSETS": toolsets}
    warned = [message.msg for message in messages() if message.id == "mcp_bridge.W095"]
    assert [text for text in warned if "'triple'" not in text] == []
    assert len(warned) == 1

"""A definition is approved, and another one waits."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import OperationalError, connection
from django.utils.functional import lazystr

from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.fingerprints import Difference, canonical_definition, differences
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus, mark_approved, status_of, sync_tool_settings
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import served


@pytest.fixture
def root(db: None) -> Any:
    return get_user_model().objects.create_superuser("root")


def wipe(folder: str) -> str:
    """Wipe a folder."""
    return folder


def wipe_all(folder: str, everything: bool = True) -> str:
    """Wipe a folder."""
    return folder


def serve_as_wipe(settings: Any, function: Any, **options: Any) -> None:
    serve(settings, function, name="wipe", **options)


def is_served(user: Any) -> bool:
    client = CheckedClient(user=user)
    listed = "wipe" in [tool["name"] for tool in client.list_tools()]
    refusal = None
    try:
        client.call_tool("wipe", {"folder": "a"})
    except MCPError as refused:
        refusal = refused.error["message"]
    assert refusal == (None if listed else "Unknown tool: wipe")
    return listed


def approve() -> None:
    setting = ToolSetting.objects.get(name="wipe")
    mark_approved(setting, served("wipe"))
    setting.save()


CONFIRMED: dict[str, Any] = {"confirm": True, "destructive": True}
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "input schema": (wipe_all, CONFIRMED),
    "description": (wipe, {**CONFIRMED, "description": "Wipe it."}),
    "title": (wipe, {**CONFIRMED, "title": "Wipe"}),
    "hints": (wipe, {"confirm": True, "destructive": False}),
    "permissions": (wipe, {**CONFIRMED, "permissions": "auth.add_user"}),
    "meta": (wipe, {**CONFIRMED, "meta": {"a": 1}}),
    "confirm taken off": (wipe, {"destructive": True}),
}


@pytest.mark.parametrize(("function", "options"), CHANGES.values(), ids=CHANGES)
def test_changed_tool_is_withheld_until_approved(
    function: Any, options: dict[str, Any], settings: Any, root: Any
) -> None:
    serve_as_wipe(settings, wipe, **CONFIRMED)
    assert is_served(root)
    serve_as_wipe(settings, function, **options)
    assert not is_served(root)
    sync_tool_settings(registry.discovered)
    assert not is_served(root)
    approve()
    assert is_served(root)


def test_tool_changed_back_is_served_again(settings: Any, user: Any) -> None:
    serve_as_wipe(settings, wipe, **CONFIRMED)
    assert is_served(user)
    serve_as_wipe(settings, wipe_all, **CONFIRMED)
    assert not is_served(user)
    serve_as_wipe(settings, wipe, **CONFIRMED)
    assert is_served(user)


def test_tool_that_needs_no_approval_may_change(settings: Any, user: Any) -> None:
    for function in (wipe, wipe_all):
        serve_as_wipe(settings, function, destructive=True)
        sync_tool_settings(registry.discovered)
        assert is_served(user)
        setting = ToolSetting.objects.get(name="wipe")
        assert setting.approved == canonical_definition(served("wipe"))
        assert setting.approved_by is None


def test_destructive_tools_need_approval_under_approve_destructive(
    settings: Any, user: Any
) -> None:
    settings.MCP_BRIDGE = {"APPROVE_DESTRUCTIVE": True}
    serve_as_wipe(settings, wipe, destructive=True)
    assert is_served(user)
    serve_as_wipe(settings, wipe_all, destructive=True)
    assert not is_served(user)
    approve()
    assert is_served(user)


def test_new_tools_wait_for_approval_under_new_tools_disabled(settings: Any, user: Any) -> None:
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled"}
    serve_as_wipe(settings, wipe)
    assert not is_served(user)
    sync_tool_settings(registry.discovered)
    assert status_of(served("wipe"), ToolSetting.objects.get(name="wipe")) is ToolStatus.NEW
    assert not is_served(user)
    approve()
    assert is_served(user)


def test_changed_tool_is_served_with_a_warning_under_debug(
    settings: Any, user: Any, caplog: pytest.LogCaptureFixture
) -> None:
    serve_as_wipe(settings, wipe, **CONFIRMED)
    assert is_served(user)
    settings.DEBUG = True
    serve_as_wipe(settings, wipe_all, **CONFIRMED)
    caplog.clear()
    assert is_served(user)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "'wipe' has changed since it was approved" in record.getMessage()
    ToolSetting.objects.update(enabled=False)
    assert not is_served(user)


def test_tool_whose_definition_cannot_be_recorded_is_withheld(
    settings: Any, user: Any, caplog: pytest.LogCaptureFixture
) -> None:
    serve_as_wipe(settings, wipe, **CONFIRMED)

    def read_only(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE")):
            raise OperationalError("attempt to write a readonly database")
        return execute(sql, *rest)

    with connection.execute_wrapper(read_only):
        assert not is_served(user)
    assert "These tools are withheld: their rows cannot be written: wipe" in caplog.text
    assert not ToolSetting.objects.filter(name="wipe")


def test_new_tool_is_approved_by_its_first_request(settings: Any, user: Any) -> None:
    serve_as_wipe(settings, wipe, **CONFIRMED)
    assert is_served(user)
    setting = ToolSetting.objects.get(name="wipe")
    assert setting.guarded
    assert setting.approved == canonical_definition(served("wipe"))


def test_status_of_a_new_tool_predicts_the_next_request(settings: Any, user: Any) -> None:
    serve_as_wipe(settings, wipe, **CONFIRMED)
    for setting in (None, ToolSetting.objects.create(name="wipe")):
        assert status_of(served("wipe"), setting) is ToolStatus.SERVED
    assert is_served(user)
    assert status_of(served("wipe"), ToolSetting(name="wipe", enabled=False)) is ToolStatus.DISABLED
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled"}
    assert status_of(served("wipe"), None) is ToolStatus.NEW


def test_approved_definition_is_not_approved_again(settings: Any) -> None:
    serve_as_wipe(settings, wipe, **CONFIRMED)
    for _ in range(2):
        sync_tool_settings(registry.discovered)
    setting = ToolSetting.objects.get(name="wipe")
    sync_tool_settings([served("wipe")])
    assert ToolSetting.objects.get(name="wipe").approved_at == setting.approved_at


def test_definition_is_made_once_for_its_row(settings: Any) -> None:
    written = []

    class Text:
        def __str__(self) -> str:
            written.append(self)
            return "Wipe a folder."

    serve_as_wipe(settings, wipe, description=lazystr(Text()))
    tools = registry.discovered
    written.clear()
    sync_tool_settings(tools)
    assert len(written) == 1


def test_migrate_creates_a_row_for_each_tool(settings: Any) -> None:
    serve(settings, wipe, wipe_all)
    call_command("migrate", verbosity=0)
    assert {"wipe", "wipe_all"} <= {setting.name for setting in ToolSetting.objects.all()}


def test_differences_are_named_by_path() -> None:
    old = '{"description": "a", "inputSchema": {"required": ["x"], "properties": {"x": {"a": 1}}}}'
    new = '{"description": "b", "inputSchema": {"required": ["x"], "properties": {"y": {"a": 1}}}}'
    assert differences(old, new) == [
        Difference("description", "a", "b"),
        Difference("inputSchema.properties.x", {"a": 1}, None),
        Difference("inputSchema.properties.y", None, {"a": 1}),
    ]
    assert differences(old, old) == []
    assert differences("", '{"confirm": false}') == [Difference("confirm", None, False)]

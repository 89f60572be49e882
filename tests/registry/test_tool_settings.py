"""Tool settings of the administrators, seen by callers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core import serializers
from django.db import connections

from mcp_bridge.models import Generation, ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import set_tool


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ping() -> str:
    """Say pong."""
    return "pong"


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    serve(settings, add, ping)


def listed(client: CheckedClient) -> list[str]:
    return [tool["name"] for tool in client.list_tools()]


def test_disabled_tool_is_unknown_until_enabled(client: CheckedClient) -> None:
    setting = set_tool("add", enabled=False)
    assert listed(client) == ["ping"]
    with pytest.raises(MCPError, match="Unknown tool: add"):
        client.call_tool("add", {"a": 1, "b": 2})
    setting.enabled = True
    setting.save()
    assert listed(client) == ["add", "ping"]
    assert text_of(client.call_tool("add", {"a": 1, "b": 2})) == "3"


def test_tool_for_groups_is_unknown_to_others(user: Any) -> None:
    editors = Group.objects.create(name="editors")
    set_tool("add").groups.add(editors)
    superuser = get_user_model().objects.create_superuser("root")
    for outsider in (user, superuser):
        assert listed(CheckedClient(user=outsider)) == ["ping"]
    user.groups.add(editors)
    assert listed(CheckedClient(user=user)) == ["add", "ping"]


@pytest.mark.parametrize("emptied", ["deleted", "removed"])
def test_tool_whose_groups_are_gone_is_hidden(user: Any, emptied: str) -> None:
    editors = Group.objects.create(name="editors")
    user.groups.add(editors)
    setting = set_tool("add")
    editors.mcp_tools.add(setting)
    client = CheckedClient(user=user)
    assert listed(client) == ["add", "ping"]
    if emptied == "deleted":
        editors.delete()
    else:
        setting.groups.clear()
    assert listed(client) == ["ping"]


def test_public_tool_for_groups_is_not_public(settings: Any, user: Any) -> None:
    serve(settings, ping, public=True)
    assert listed(CheckedClient()) == ["ping"]
    set_tool("ping", restricted=True)
    anonymous = CheckedClient()
    with pytest.raises(MCPError):
        anonymous.list_tools()
    assert anonymous.response.status_code == 401
    assert listed(CheckedClient(user=user)) == []


def test_members_need_the_permissions_as_well(settings: Any, user: Any) -> None:
    serve(settings, ping, permissions="auth.add_user")
    group = Group.objects.create(name="g")
    user.groups.add(group)
    set_tool("ping").groups.add(group)
    assert listed(CheckedClient(user=user)) == []


def test_models_read_the_administrators_title_and_description(modern: CheckedClient) -> None:
    set_tool("add", title="Sum", description="Add up, <b>please</b>.")
    shown = modern.list_tools()[0]
    assert (shown["title"], shown["description"]) == ("Sum", "Add up, <b>please</b>.")
    assert modern.call_tool("add", {"a": 1, "b": 2})["structuredContent"] == {"result": 3}


def test_setting_without_a_tool_changes_nothing(modern: CheckedClient) -> None:
    set_tool("gone", enabled=False)
    assert listed(modern) == ["add", "ping"]


def by_save(setting: ToolSetting) -> None:
    setting.enabled = False
    setting.save(update_fields=["enabled"])


def by_update(setting: ToolSetting) -> None:
    ToolSetting.objects.filter(name="add").update(enabled=False)


def by_bulk_update(setting: ToolSetting) -> None:
    setting.enabled = False
    ToolSetting.objects.bulk_update([setting], ["enabled"])


def by_bulk_create(setting: ToolSetting) -> None:
    ToolSetting.objects.all().delete()
    ToolSetting.objects.bulk_create([ToolSetting(name="add", enabled=False)])


def by_fixture(setting: ToolSetting) -> None:
    setting.enabled = False
    for loaded in serializers.deserialize("json", serializers.serialize("json", [setting])):
        loaded.save()


def by_groups(setting: ToolSetting) -> None:
    setting.groups.set([Group.objects.create(name="nobody")])


@pytest.mark.parametrize(
    "change", [by_save, by_update, by_bulk_update, by_bulk_create, by_fixture, by_groups]
)
def test_every_way_of_writing_a_change_applies_at_once(change: Any, modern: CheckedClient) -> None:
    setting = set_tool("add")
    assert listed(modern) == ["add", "ping"]
    before = Generation.current()
    change(setting)
    assert Generation.current() != before
    assert listed(modern) == ["ping"]


class ReadsElsewhere:
    """A router that reads tool settings from a replica."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "replica" if model is ToolSetting else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "default"


@pytest.mark.parametrize("change", [by_update, by_bulk_update, by_bulk_create])
def test_many_rows_are_written_to_the_routers_database(
    change: Any,
    modern: CheckedClient,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    setting = set_tool("add")
    # A replica that cannot be reached, so that its use is an error.
    replica = {
        **connections.settings["default"],
        "NAME": tmp_path / "no" / "replica",
        "OPTIONS": {},
    }
    replica["ENGINE"] = "django.db.backends.sqlite3"
    monkeypatch.setitem(connections.settings, "replica", replica)
    settings.DATABASE_ROUTERS = [f"{__name__}.ReadsElsewhere"]
    before = Generation.current()
    change(setting)
    assert Generation.current() != before
    assert listed(modern) == ["ping"]


def test_deleting_a_setting_restores_the_defaults(modern: CheckedClient) -> None:
    setting = set_tool("add", enabled=False)
    assert listed(modern) == ["ping"]
    setting.delete()
    assert listed(modern) == ["add", "ping"]


def test_nothing_is_queried_within_state_max_age(
    settings: Any, django_assert_num_queries: Any
) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    # The generations, the settings, and the rows of mcp_bridge.remote.
    with django_assert_num_queries(4):
        snapshot = registry.snapshot
    with django_assert_num_queries(0):
        assert registry.snapshot is snapshot
    registry.forget()
    with django_assert_num_queries(1):
        assert registry.snapshot is snapshot
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 0}
    snapshot = registry.snapshot
    with django_assert_num_queries(2):
        assert registry.snapshot is registry.snapshot is snapshot

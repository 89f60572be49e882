"""Features of another kind than tools, with separate settings, pages, rules and toolsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mcp_bridge.access.policy import AccessPolicy, context_for, opened_by
from mcp_bridge.admin.entries import entries
from mcp_bridge.conf import DEFAULT_SOURCES
from mcp_bridge.features import AccessRule, Feature, Tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol import LATEST, Revision
from mcp_bridge.registry.linting import lint
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.sources.base import Source
from mcp_bridge.testing.checked import CheckedClient
from tests.sources.offers.own import tool

pytestmark = pytest.mark.django_db


@dataclass(frozen=True, kw_only=True, eq=False)
class Note(Feature):
    kind: ClassVar[str] = "note"

    def definition(self, revision: Revision) -> dict[str, Any]:
        return {"name": self.name, "description": str(self.description)}


class Notes(Source):
    """A source of two notes and a tool; one of the notes has the name of the tool."""

    def tools(self) -> Sequence[Feature]:
        rule = AccessRule(permissions=("auth.view_user",))
        return [
            tool("both", str, {}, {"readOnlyHint": True}),
            Note(name="both", description="Both."),
            Note(name="secret", description="Kept.", access=rule),
        ]


@pytest.fixture(autouse=True)
def notes(settings: Any) -> None:
    others = dict.fromkeys(DEFAULT_SOURCES)
    notes = {"BACKEND": f"{__name__}.Notes"}
    settings.MCP_BRIDGE = {"SOURCES": {**others, "notes": notes}}


def keys() -> list[tuple[str, str]]:
    return [each.key for each in registry.snapshot]


def test_two_kinds_may_share_a_name() -> None:
    assert keys() == [("note", "both"), ("note", "secret"), ("tool", "both")]
    assert [*registry.snapshot.tools] == ["both"]
    assert not registry.snapshot.messages


def test_each_kind_has_its_own_settings() -> None:
    registry.write_rows(using="default")
    written = ToolSetting.objects.filter(name__in=("both", "secret"))
    assert {*written.values_list("kind", "name")} == {*keys()}
    ToolSetting.objects.filter(kind="note", name="both").update(enabled=False, title="T")
    assert keys() == [("note", "secret"), ("tool", "both")]
    assert registry.statuses["note", "both"] is ToolStatus.DISABLED
    assert registry.statuses["tool", "both"] is ToolStatus.SERVED


def test_tools_are_listed_without_other_kinds(modern: CheckedClient) -> None:
    assert [each["name"] for each in modern.list_tools()] == ["both"]


def test_page_has_one_kind() -> None:
    rules = frozenset(each.access for each in registry.snapshot)
    page = registry.snapshot.page("note", rules, None, LATEST)
    assert page.array == (
        b'[{"name":"both","description":"Both."},{"name":"secret","description":"Kept."}]'
    )
    following = registry.snapshot.page("note", rules, "both", LATEST)
    assert [each.key for each in following.features] == [("note", "secret")]
    assert registry.snapshot.page("not", rules, None, LATEST).features == ()


def test_one_policy_decides_on_every_kind() -> None:
    user = get_user_model().objects.create_user("ann")
    allowed = AccessPolicy().filter(registry.snapshot, context_for(user))
    assert [each.key for each in allowed] == [("note", "both"), ("tool", "both")]


def test_credential_limited_to_tools_opens_no_other_kind() -> None:
    class Limited:
        allowed_tools = frozenset({"both"})

    assert [each.key for each in opened_by(Limited(), registry.snapshot)] == [("tool", "both")]


def test_read_only_credential_opens_every_reading_kind() -> None:
    class Reader:
        read_only = True

    opened = opened_by(Reader(), registry.snapshot)
    assert [each.key for each in opened] == [each.key for each in registry.snapshot]


def test_toolset_holds_every_kind(settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "TOOLSETS": {"few": {"tools": ["bo*"]}}}
    part = registry.snapshot.of("few")
    assert part is not None
    assert [each.key for each in part] == [("note", "both"), ("tool", "both")]


def test_another_kind_is_checked_for_its_own_members() -> None:
    assert lint(Note(name="fine", description="Fine.")) == []
    found = [message.id for message in lint(Note(name="not fine", description="Fine."))]
    assert found == ["mcp_bridge.W006"]


def test_admin_has_features_of_every_kind() -> None:
    assert sorted(entry.setting.key for entry in entries() if entry.tool) == keys()
    with CaptureQueriesContext(connection) as captured:
        entries()
    assert all(each["sql"].startswith("SELECT") for each in captured)


@pytest.mark.django_db(transaction=True)
def test_older_code_finds_only_the_settings_of_tools() -> None:
    for kind in ("tool", "note"):
        ToolSetting.objects.get_or_create(kind=kind, name="both")
    try:
        call_command("migrate", "mcp_bridge", "0008", verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM mcp_bridge_toolsetting WHERE name = 'both'")
            assert cursor.fetchall() == [("both",)]
    finally:
        for label in ("mcp_bridge", "mcp_bridge_tasks"):
            call_command("migrate", label, verbosity=0)


def test_feature_of_another_kind_is_not_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Odd(Tool):
        kind: str = "odd"  # type: ignore[misc]

    monkeypatch.setattr(Notes, "tools", lambda self: [Odd(name="odd", description="Odd.")])
    registry.reload()
    assert (keys(), dict(registry.snapshot.tools)) == ([("odd", "odd")], {})

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from django.core import checks
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from mcp_bridge.features.tools import Tool
from mcp_bridge.models import Generation
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry import fingerprints
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.sources.base import Source
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.checks.test_checks import OPEN_AT_RPC
from tests.sources.offers.own import count, tool
from tests.support.serving import giving, messages, set_tool, taking


def fingerprint_of(snapshot: Snapshot) -> str:
    definitions = b",".join(snapshot.written(each, LATEST) for each in snapshot)
    return fingerprints.fingerprint(definitions.decode())


def fingerprint(settings: Any, function: Any, **options: Any) -> str:
    serve(settings, function, **options)
    return fingerprint_of(registry.snapshot)


def test_equal_tools_have_equal_fingerprints(settings: Any) -> None:
    first, second = fingerprint(settings, taking(int)), fingerprint(settings, taking(int))
    registry.reload()
    assert first == second == fingerprint_of(registry.discovered)
    assert len(first) == 64


def documented(text: str) -> Any:
    function = taking(int)
    function.__doc__ = text
    return function


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (taking(str), {}),
        (documented("Take something else."), {}),
        (taking(int), {"title": "T"}),
        (taking(int), {"read_only": True}),
        (taking(int), {"name": "taken"}),
        (taking(int), {"meta": {"a": 1}}),
        (giving(int, 1), {}),
    ],
)
def test_changed_definition_changes_the_fingerprint(
    function: Any, options: dict[str, Any], settings: Any
) -> None:
    before = fingerprint(settings, taking(int))
    assert fingerprint(settings, function, **options) != before


@pytest.mark.parametrize("options", [{"permissions": "auth.add_user"}, {"public": True}])
def test_access_does_not_change_the_fingerprint(options: dict[str, Any], settings: Any) -> None:
    before = fingerprint(settings, taking(int))
    assert fingerprint(settings, taking(int), **options) == before


def test_snapshot_is_ordered_by_name(settings: Any) -> None:
    serve(settings, taking(int), giving(int, 1))
    snapshot = registry.snapshot
    assert [tool.name for tool in snapshot] == ["give", "take"]
    assert (len(snapshot), snapshot.tools.get("give") is not None, snapshot.tools.get("g")) == (
        2,
        True,
        None,
    )
    assert [tool.name for tool in snapshot.following("tool", "h")] == ["take"]
    assert registry.snapshot is snapshot


def test_reload_makes_a_new_snapshot(settings: Any) -> None:
    serve(settings, taking(int))
    snapshot = registry.snapshot
    registry.reload()
    assert registry.snapshot is not snapshot
    assert [tool.name for tool in snapshot] == ["take"]


def test_tools_are_reread_only_after_a_related_setting_changed(settings: Any) -> None:
    serve(settings, taking(int))
    take = registry.snapshot.tools.get("take")
    settings.MCP_BRIDGE = {"PAGE_SIZE": 5}
    assert registry.discovered.tools.get("take") is take
    settings.MCP_BRIDGE = {"TOOL_NAME_STYLE": "dotted"}
    assert registry.discovered.tools.get("take") is not take


class CountedSource(Source):
    """A source that reports how often its tools were read."""

    read = 0

    def tools(self) -> Sequence[Tool]:
        CountedSource.read += 1
        self.messages.append(checks.Info(str(self.read), hint="None.", id="tests.I001"))
        return []


def test_tools_are_read_once_by_checks_and_requests(settings: Any, modern: CheckedClient) -> None:
    own = {"BACKEND": f"{__name__}.CountedSource"}
    settings.MCP_BRIDGE = {"SOURCES": {"own": own, "rpc": None}}
    before = CountedSource.read
    for number in (1, 2):
        found = checks.run_checks(tags=["mcp_bridge"])
        (message,) = [each for each in found if each.id not in OPEN_AT_RPC]
        assert message.msg == str(before + number)
    assert modern.list_tools() == []
    assert CountedSource.read == before + 2


class MovingSource(CountedSource):
    """A source whose tools are rows, with its own generation as version."""

    rows = ["one"]

    def tools(self) -> Sequence[Tool]:
        super().tools()
        return [tool(name, count, {}, {}, True) for name in self.rows]

    def version(self, generations: Mapping[int, str]) -> object:
        return generations.get(Generation.SOURCES)


def test_source_is_read_again_when_its_version_changes(
    settings: Any, modern: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(settings, taking(int))
    backend = {"BACKEND": f"{__name__}.MovingSource"}
    settings.MCP_BRIDGE = {"SOURCES": {"own": backend}, "STATE_MAX_AGE": 0}
    assert [each["name"] for each in modern.list_tools()] == ["one", "take"]
    take, before = registry.discovered.tools["take"], CountedSource.read
    monkeypatch.setattr(MovingSource, "rows", ["one", "two"])
    set_tool("one", note="Another generation, of the settings.")
    assert [each["name"] for each in modern.list_tools()] == ["one", "take"]
    assert CountedSource.read == before
    Generation.renew("default", Generation.SOURCES)
    assert [each["name"] for each in modern.list_tools()] == ["one", "take", "two"]
    assert CountedSource.read == before + 1
    # The others are not read with it.
    assert registry.discovered.tools["take"] is take
    with CaptureQueriesContext(connection) as queries:
        assert len(registry.snapshot) == 3
    assert len(queries) == 1


class FailingSource(Source):
    """A source that cannot be read, for the reason in its options."""

    def tools(self) -> Sequence[Tool]:
        raise self.options["reason"]


@pytest.mark.parametrize(
    ("reason", "id", "told"),
    [
        (RuntimeError("no more\npaper"), "mcp_bridge.E011", "RuntimeError: no more."),
        (OperationalError("no such table: x"), "mcp_bridge.W018", "no such table: x."),
    ],
)
def test_failing_source_does_not_affect_others(
    reason: Exception, id: str, told: str, settings: Any, modern: CheckedClient
) -> None:
    serve(settings, taking(int))
    own = {"BACKEND": f"{__name__}.FailingSource", "OPTIONS": {"reason": reason}}
    settings.MCP_BRIDGE = {"SOURCES": {"own": own}}
    assert [tool["name"] for tool in modern.list_tools()] == ["take"]
    (message,) = messages(id)
    assert message.startswith("The tools of MCP_BRIDGE['SOURCES']['own'] c")
    assert message.endswith(told)

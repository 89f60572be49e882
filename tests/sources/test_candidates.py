"""Operations without a mark, which an administrator can enable."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from types import ModuleType
from typing import Any

import pytest
from django.core import checks
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from django.urls import path
from modernrpc import RpcRequestContext
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.features import Tool
from mcp_bridge.management.base import why_missing
from mcp_bridge.models import Generation, ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.sources.base import Source
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.sources.offers.own import count, tool
from tests.support.serving import messages, names, set_tool
from tests.test_docs_code import run

OWN = {"own": {"BACKEND": f"{__name__}.OwnSource"}}


@pytest.fixture(autouse=True)
def no_rows() -> None:
    ToolSetting.objects.all().delete()


def serve(settings: Any, *functions: Callable[..., Any], **values: Any) -> RpcServer:
    """Serve procedures as they are, and set MCP_BRIDGE."""
    server = RpcServer(register_system_procedures=False)
    for function in functions:
        server.register_procedure(function)
    settings.MCP_BRIDGE = {"EXPOSE": "all", "STATE_MAX_AGE": 0, **values}
    route(settings, path("rpc", server.view))
    return server


def candidates() -> list[str]:
    return list(registry.discovered.candidates)


def listed(client: CheckedClient) -> list[str]:
    return [each["name"] for each in client.list_tools()]


def double(number: int) -> int:
    """
    Double a number.

    At once.
    """
    return 2 * number


def triple(number: int) -> int:
    """Triple a number."""
    return 3 * number


# Which operations are candidates.


def test_procedures_are_candidates_only_if_enabled(settings: Any, modern: CheckedClient) -> None:
    serve(settings, double, mcp_tool(read_only=True)(_marked()), EXPOSE="marked")
    assert (candidates(), listed(modern)) == ([], ["marked"])


def test_option_enables_candidates_of_one_source(settings: Any) -> None:
    serve(settings, double, SOURCES={"rpc": {"OPTIONS": {"expose": "marked"}}})
    assert candidates() == []
    serve(settings, double, EXPOSE="marked", SOURCES={"rpc": {"OPTIONS": {"expose": "all"}}})
    assert candidates() == ["double"]
    serve(settings, double, SOURCES={"rpc": {"OPTIONS": {"expose": "some"}}})
    (message,) = messages("mcp_bridge.E003")
    assert "its option 'expose' is 'some', not 'marked' or 'all'" in message


def _marked() -> Callable[[], str]:
    def marked() -> str:
        """Say that it is marked."""
        return "marked"

    return marked


def test_candidate_is_described_without_being_built(settings: Any) -> None:
    serve(settings, double)
    (candidate,) = registry.discovered.candidates.values()
    assert (candidate.source_alias, candidate.name, candidate.is_marked) == ("rpc", "double", False)
    assert candidate.description == "Double a number."
    assert candidate.access.words == "authenticated users"
    assert candidate.function == f"{__name__}.double"
    assert candidate.source.startswith("tests/sources/test_candidates.py:")


@dataclass
class Pair:
    access: str
    refresh_token: str


@dataclass
class Outer:
    pairs: list[Pair]


def takes_password(user: str, password: str) -> bool: ...


def gives_token(user: str) -> Outer: ...


def login(user: str) -> bool: ...


def reset_token(user: str) -> str: ...


def pin_article(number: int) -> int: ...


def of_the_site(vat_number: str) -> str: ...


def with_context(number: int, *, rpc: RpcRequestContext) -> int: ...


def test_secret_hidden_or_deprecated_operations_are_not_candidates(settings: Any) -> None:
    server = serve(
        settings,
        *(takes_password, gives_token, login, reset_token, of_the_site, double, pin_article),
        mcp_tool(exposed=False)(_marked()),
        AUDIT={"SENSITIVE_NAMES": ["VAT-number"]},
    )
    old = _marked()
    vars(old).update(__deprecated__="no longer", __name__="old")
    server.register_procedure(name="old")(old)
    server.register_procedure(name="system.double")(double)
    server.register_procedure(context_target="rpc")(with_context)
    registry.reload()
    assert candidates() == ["double", "pin_article", "with_context"]


# Enabling and disabling.


@pytest.mark.parametrize("new_tools", ["enabled", "disabled"])
def test_candidate_is_disabled_until_enabled(
    settings: Any, modern: CheckedClient, new_tools: str
) -> None:
    serve(settings, double, triple, _marked(), NEW_TOOLS=new_tools)
    assert listed(modern) == []
    with pytest.raises(MCPError, match="Unknown tool"):
        modern.call_tool("double", {"number": 2})


def test_enabled_candidate_is_served_like_a_tool(settings: Any, modern: CheckedClient) -> None:
    serve(settings, double, triple)
    assert listed(modern) == []
    set_tool("double", chosen=True)
    assert listed(modern) == ["double"]
    assert text_of(modern.call_tool("double", {"number": 2})) == "4"
    assert modern.call_tool("double", {"number": "2"})["isError"]
    set_tool("double", enabled=False)
    assert listed(modern) == []
    # It is back among the candidates, and its settings are kept.
    assert (names(), candidates()) == ([], ["double", "triple"])


def test_enabled_candidate_joins_its_sources_toolset(settings: Any, modern: CheckedClient) -> None:
    serve(settings, double, _marked(), TOOLSETS={"own": ["source:rpc"], "rest": ["source:api"]})
    set_tool("double", chosen=True)
    assert listed(modern) == ["double"]
    modern.headers["X-MCP-Toolset"] = "own"
    assert listed(modern) == ["double"]
    modern.headers["X-MCP-Toolset"] = "rest"
    assert listed(modern) == []


def test_unmarked_tool_is_not_enabled_by_its_old_row(settings: Any, modern: CheckedClient) -> None:
    set_tool("double", enabled=True)
    serve(settings, double)
    assert listed(modern) == []


def test_tool_takes_precedence_over_a_candidate(settings: Any, modern: CheckedClient) -> None:
    server = serve(settings, double)
    server.register_procedure(name="twice")(mcp_tool(name="double")(_marked()))
    registry.reload()
    set_tool("double", chosen=True)
    assert text_of(modern.call_tool("double", {})) == "marked"
    (message,) = messages("mcp_bridge.W091")
    assert "The candidate 'double' (tests/sources/test_candidates.py:" in message
    server.register_procedure(name="a.b")(triple)
    server.register_procedure(name="a_b")(triple)
    registry.reload()
    assert candidates() == []
    assert "2 candidates have the name 'a_b', so none is used: " in messages("mcp_bridge.W091")[1]


# Building.


class OwnSource(Source):
    """A source whose two candidates count how often they are built."""

    built: list[str] = []
    raises: list[Exception] = []

    def tools(self) -> Sequence[Tool]:
        return [tool("marked", count, {}, {}, True), *self.unmarked()]

    def unmarked(self) -> Sequence[Tool]:
        return [
            Tool(name=each, description="", is_marked=False, build=partial(self.build, each))
            for each in ("one", "two")
        ]

    @classmethod
    def build(cls, name: str) -> Tool:
        cls.built.append(name)
        if cls.raises:
            raise cls.raises[0]
        return tool(name, count, {"number": {"type": "integer"}}, {}, True)


@pytest.fixture
def own(settings: Any) -> Iterator[type[OwnSource]]:
    route(settings)
    settings.MCP_BRIDGE = {"SOURCES": OWN, "STATE_MAX_AGE": 0}
    yield OwnSource
    OwnSource.built.clear()
    OwnSource.raises.clear()


class OfferingSource(OwnSource):
    """A source with only candidates."""

    def tools(self) -> Sequence[Tool]:
        return self.unmarked()


class EmptySource(OfferingSource):
    """An empty source."""

    def unmarked(self) -> Sequence[Tool]:
        return []


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        (["OwnSource"], 0),
        (["OfferingSource"], 0),
        (["EmptySource", "OfferingSource"], 0),
        (["OfferingSource", "EmptySource"], 0),
        (["EmptySource"], 1),
        ([], 1),
    ],
)
def test_default_sources_are_silent_beside_candidates(
    settings: Any, sources: list[str], told: int
) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {name: {"BACKEND": f"{__name__}.{name}"} for name in sources}}
    route(settings)
    assert len(messages("mcp_bridge.W012")) == told


def test_only_enabled_candidates_are_built_once(
    own: type[OwnSource], modern: CheckedClient
) -> None:
    set_tool("two", chosen=True)
    assert listed(modern) == ["marked", "two"]
    set_tool("marked", note="Another generation.")
    assert listed(modern) == ["marked", "two"]
    assert own.built == ["two"]
    assert registry.discovered is registry.discovered


@pytest.mark.parametrize("raised", [OperationalError("no such table: x"), KeyError("x")])
def test_unbuildable_candidate_is_a_warning_and_is_retried(
    own: type[OwnSource], modern: CheckedClient, raised: Exception
) -> None:
    own.raises.append(raised)
    set_tool("two", chosen=True)
    assert listed(modern) == ["marked"]
    (message,) = messages("mcp_bridge.W092")
    assert message.startswith(
        "The candidate 'two' is enabled, but not served, since it cannot be built"
    )
    assert not [each for each in registry.discovered.messages if each.level >= checks.ERROR]
    own.raises.clear()
    # Not immediately, because an attempt may take long.
    deadline = time.monotonic() + 5
    while listed(modern) != ["marked", "two"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert messages("mcp_bridge.W092") == []
    assert len(own.built) == 2


@pytest.mark.parametrize("is_foreign", [False, True])
def test_candidate_with_a_secret_schema_is_never_served(
    own: type[OwnSource], modern: CheckedClient, monkeypatch: pytest.MonkeyPatch, is_foreign: bool
) -> None:
    def build(self: OwnSource, name: str) -> Tool:
        nested = {"sent": {"type": "array", "items": {"properties": {"api_key": {}}}}}
        return replace(tool(name, count, nested, {}, True), is_foreign=is_foreign)

    monkeypatch.setattr(own, "build", build)
    for _ in range(2):
        # Each setting has the enabled ones built again.
        set_tool("one", chosen=True)
        assert listed(modern) == ["marked"]
    (message,) = messages("mcp_bridge.W092")
    assert "it takes or returns a secret, 'api_key': mark it to make it a tool" in message


def test_candidate_taking_a_secret_is_not_served(
    own: type[OwnSource], modern: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As pydantic writes a SecretStr.
    word = {"word": {"type": "string", "format": "password", "writeOnly": True}}
    monkeypatch.setattr(own, "build", lambda _, name: tool(name, count, word, {}, True))
    set_tool("one", chosen=True)
    assert listed(modern) == ["marked"]
    (message,) = messages("mcp_bridge.W092")
    assert "it takes or returns a secret, 'word'" in message


def test_missing_candidate_is_a_warning(own: type[OwnSource], modern: CheckedClient) -> None:
    set_tool("three", chosen=True)
    assert listed(modern) == ["marked"]
    (message,) = messages("mcp_bridge.W090")
    assert "'three'" in message


# The command.


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("mcp_tools", *arguments, stdout=out, stderr=out, no_color=True)
    return out.getvalue()


def test_command_prints_candidates_without_building_them(own: type[OwnSource]) -> None:
    assert printed("--candidates") == (
        "one\n    source: own\n    access: authenticated users\n"
        "two\n    source: own\n    access: authenticated users\n"
        "\n2 candidates, 0 of them enabled in the admin.\n"
    )
    assert own.built == []
    set_tool("two", chosen=True)
    text = printed("--candidates")
    assert "two\n    source: own\n    access: authenticated users\n    state:  enabled\n" in text
    assert "2 candidates, 1 of them enabled in the admin." in text


def test_command_prints_candidates_as_json(settings: Any) -> None:
    serve(settings, double)
    (described,) = json.loads(printed("--candidates", "--json"))
    assert described.pop("source").startswith("tests/sources/test_candidates.py:")
    assert described == {
        "name": "double",
        "summary": "Double a number.",
        "offered_by": "rpc",
        "app": "tests",
        "access": "authenticated users",
        "annotations": {},
        "status": "off",
    }


def test_explaining_a_missing_tool_mentions_candidates(own: type[OwnSource], user: Any) -> None:
    assert (why_missing("one", user) or "").startswith("It is a candidate, disabled until")
    own.raises.append(ValueError("It has no table."))
    set_tool("one", chosen=True)
    assert why_missing("one", user) == (
        "It is a candidate that cannot be built now: It has no table."
    )


def test_documented_source_yields_candidates(
    settings: Any, modern: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("mysite")
    vars(module).update(run("sources/candidates", "class ReportSource"))
    monkeypatch.setitem(sys.modules, "mysite", module)
    serve(settings, SOURCES={"reports": {"BACKEND": "mysite.ReportSource"}})
    assert candidates() == ["report_returns", "report_sales"]
    set_tool("report_sales", chosen=True)
    assert text_of(modern.call_tool("report_sales", {"year": 2026})) == "sales of 2026"
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "EXPOSE": "marked"}
    assert (candidates(), listed(modern)) == ([], [])


# Several processes, and missing databases.


def test_enabling_in_another_process_takes_effect(
    own: type[OwnSource], modern: CheckedClient
) -> None:
    assert listed(modern) == ["marked"]
    # Bypasses this process's signals, as a write by another process would.
    rows = QuerySet(ToolSetting)
    rows.bulk_create([ToolSetting(name="one", chosen=True)])
    QuerySet(Generation).filter(pk=1).update(value="another")
    assert listed(modern) == ["marked", "one"]
    rows.filter(name="one").update(enabled=False)
    QuerySet(Generation).filter(pk=1).update(value="a third")
    assert listed(modern) == ["marked"]


@pytest.mark.django_db(transaction=True)
def test_checks_without_the_tables_warn_and_do_not_fail(own: type[OwnSource]) -> None:
    def rename(old: str, new: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")

    table = ToolSetting._meta.db_table
    rename(table, "elsewhere")
    try:
        registry.forget()
        assert names() == ["marked"]
        (message,) = messages("mcp_bridge.W094")
        assert message.startswith("The enabled candidates cannot be read: ")
        assert table in message
    finally:
        rename("elsewhere", table)


def test_sites_without_candidates_send_no_extra_queries(
    settings: Any, modern: CheckedClient
) -> None:
    serve(settings, mcp_tool(_marked()), EXPOSE="marked")
    modern.list_tools()
    with CaptureQueriesContext(connection) as queries:
        _ = registry.discovered
    assert len(queries) == 0

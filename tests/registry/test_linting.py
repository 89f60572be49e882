"""The linter finds definitions that strict clients refuse: as checks and as a command."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Annotated, Any

import pytest
from django.core import checks
from django.core.management import CommandError, call_command
from django.test import override_settings
from pydantic import Field

from mcp_bridge.features.tools import Tool
from mcp_bridge.registry.definitions import tokens_of
from mcp_bridge.registry.linting import RULES, budget, lint, lint_list
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing.serving import serve
from testproject import settings as newsroom
from tests.support.serving import giving, served, taking

DEEP: dict[str, Any] = {"type": "string"}
for _ in range(20):
    DEEP = {"type": "array", "items": DEEP, "examples": []}
for _ in range(20):
    DEEP = {"anyOf": [DEEP]}


def tool(**changes: Any) -> Tool:
    """A tool without an error, changed."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "An a."}}}
    correct = Tool(
        name="find",
        description="Find.",
        input_schema=schema,
        check=dict,
        invoke=repr,
        encode=repr,  # type: ignore[arg-type]
    )
    return replace(correct, **changes)


def holding(member: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"description": "An a.", **member}}}


def found(checked: Tool) -> list[str]:
    return [str(finding.id).removeprefix("mcp_bridge.") for finding in lint(checked)]


def test_a_correct_tool_gives_no_findings() -> None:
    assert lint(tool()) == []


ERRORS = {
    "anyOf": ({"input_schema": {**tool().input_schema, "anyOf": [{}]}}, "W003"),
    "oneOf": ({"input_schema": {**tool().input_schema, "oneOf": [{}]}}, "W003"),
    "allOf": ({"input_schema": {**tool().input_schema, "allOf": [{}]}}, "W003"),
    "not": ({"input_schema": {**tool().input_schema, "not": {"required": ["b"]}}}, "W003"),
    "if": ({"input_schema": {**tool().input_schema, "if": {}}}, "W003"),
    "unresolved": ({"input_schema": holding({"$ref": "#/$defs/gone"})}, "W004"),
    "external": ({"input_schema": holding({"$ref": "https://example.com/a"})}, "W004"),
    "output": ({"output_schema": holding({"items": {"$ref": "other.json"}})}, "W004"),
    "array root": ({"output_schema": {"type": "array"}}, "W005"),
    "no root": ({"input_schema": {}}, "W005"),
    "dotted name": ({"name": "books.list"}, "W006"),
    "long name": ({"name": "n" * 65}, "W006"),
    "hints": ({"annotations": {"readOnlyHint": True, "destructiveHint": True}}, "W007"),
    "default": ({"input_schema": holding({"type": "integer", "default": "1"})}, "W008"),
    "default by format": ({"input_schema": holding({"format": "date", "default": "x"})}, "W008"),
    "deep": ({"output_schema": holding(DEEP)}, "W009"),
    "large": ({"input_schema": holding({"enum": ["x" * 70_000]})}, "W010"),
    "list of types": ({"input_schema": holding({"type": ["string", "null"]})}, "W014"),
    "null in enum": ({"input_schema": holding({"type": "string", "enum": ["", None]})}, "W014"),
    "null among items": ({"output_schema": holding({"items": {"type": ["null"]}})}, "W014"),
    "large for a model": ({"description": "x" * 10_000}, "I003"),
    "undescribed": ({"input_schema": {**holding({"description": " "})}}, "I001"),
}


@pytest.mark.parametrize(("changes", "rule"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_found_by_one_rule(changes: dict[str, Any], rule: str) -> None:
    assert found(tool(**changes)) == [rule]
    (finding,) = lint(tool(**changes))
    assert finding.msg.startswith(tool(**changes).name)
    assert len(finding.msg) < 400


def test_every_rule_has_an_error_here() -> None:
    assert {f"mcp_bridge.{rule}" for _, rule in ERRORS.values()} == {rule.id for rule in RULES}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "n" * 64},
        {"annotations": {"readOnlyHint": True, "destructiveHint": False}},
        {"output_schema": {"type": "object", "anyOf": [{"required": ["a"]}]}},
        {"input_schema": holding({"anyOf": [{"type": "null"}, {"type": "string"}]})},
        {"input_schema": holding({"enum": ["a", 1, None]})},
        {"input_schema": holding({"$ref": "#/$defs/n"}) | {"$defs": {"n": {"default": 1}}}},
        {"input_schema": holding({"type": "string", "pattern": "(?=x)", "default": "y"})},
        {"input_schema": holding({"type": "object", "examples": [{"$ref": "urn:x"}]})},
    ],
)
def test_an_allowed_definition_has_no_findings(changes: dict[str, Any]) -> None:
    assert lint(tool(**changes)) == []


def test_default_without_a_time_zone_is_left_to_the_hint() -> None:
    member = {"type": "string", "format": "date-time", "default": "2026-01-01T00:00:00"}
    assert lint(tool(input_schema=holding(member))) == []


@pytest.mark.parametrize("schema", [{"properties": []}, {"allOf": 5}, {"default": {1}}])
def test_a_value_that_is_no_schema_is_a_finding_and_stops_nothing(schema: dict[str, Any]) -> None:
    broken = tool(input_schema={"type": "object", **schema})
    assert any("cannot be read" in finding.msg for finding in lint(broken))


def test_default_is_held_to_what_its_schema_refers_to() -> None:
    member = {"$ref": "#/$defs/n", "default": "x", "title": "A"}
    schema = {**holding(member), "$defs": {"n": {"type": "integer"}}}
    (finding,) = lint(tool(input_schema=schema))
    assert "the default 'x' of 'A' does not match its schema" in finding.msg


NEWSROOM = {"ROOT_URLCONF": "testproject.urls", "MCP_BRIDGE": newsroom.MCP_BRIDGE}


@pytest.mark.parametrize("site", [{}, NEWSROOM], ids=["tests", "newsroom"])
def test_the_sites_of_this_project_have_no_warnings(site: dict[str, Any]) -> None:
    with override_settings(**site):
        minor = [finding for each in registry.discovered for finding in lint(each)]
    assert all(finding.level == checks.INFO for finding in minor)
    assert bool(minor) is (site is not NEWSROOM)


def messages() -> list[str]:
    return [str(each.id) for each in checks.run_checks(tags=["mcp_bridge"])]


def test_finding_is_a_system_check_with_the_place_and_a_hint(settings: Any) -> None:
    serve(settings, taking(Annotated[int, Field(le=5)]), input_schema=holding({"minimum": 1}))
    assert messages() == []
    broken = {**holding({"maximum": 1, "default": 2}), "required": []}
    serve(settings, taking(int), input_schema=broken)
    (message,) = checks.run_checks(tags=["mcp_bridge"])
    assert (message.id, message.level) == ("mcp_bridge.W008", checks.WARNING)
    assert message.msg.startswith("take (tests/support/serving.py:")
    assert message.hint


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("mcp_tools", "--lint", *arguments, stdout=out, no_color=True)
    return out.getvalue()


@override_settings(**NEWSROOM)
def test_lint_of_the_newsroom_is_clean_and_tells_what_the_tools_cost() -> None:
    lines = run("--fail-level", "INFO").splitlines()
    total = sum(budget(each) for each in registry.discovered)
    assert len(lines) == len(registry.discovered) + 1
    count = len(registry.discovered)
    assert lines[-1] == f"All tools: {count} enabled, about {total:,} tokens (bytes / 4)."


def test_lint_shows_the_largest_definition_first(settings: Any) -> None:
    serve(settings, giving(int, 1), taking(Annotated[int, Field(description="x" * 400)]))
    largest, other, _ = run().splitlines()
    assert largest.split() == [str(budget(served("take"))), "tokens", "take"]
    assert other.endswith("  give")


def test_lint_fails_from_the_level_that_was_asked_for(settings: Any) -> None:
    serve(settings, taking(int))
    assert "INFO mcp_bridge.I001: take (tests/support/serving.py:" in run()
    with pytest.raises(CommandError, match="1 of 1 findings must be fixed"):
        run("--fail-level", "INFO")
    serve(settings, taking(int), input_schema=holding({"default": 1, "type": "string"}))
    with pytest.raises(CommandError, match="1 of 1 findings"):
        run()
    assert "WARNING mcp_bridge.W008" in run("--fail-level", "ERROR")


def test_lint_tells_what_was_left_out_too(settings: Any) -> None:
    serve(settings, taking(int), input_schema={"type": "array"})
    with pytest.raises(CommandError, match="1 of 1 findings"):
        run("--fail-level", "ERROR")


def test_lint_is_silent_on_what_the_site_silenced(settings: Any) -> None:
    settings.SILENCED_SYSTEM_CHECKS = ["mcp_bridge.I001"]
    serve(settings, taking(int))
    assert "I001" not in run("--fail-level", "INFO")


@pytest.mark.parametrize(("text", "about"), [("", 2), ("a", 3), ("é", 3), ("x" * 88, 24)])
def test_tokens_are_bytes_by_four(text: str, about: int) -> None:
    assert tokens_of({"a": text}) == about


def test_a_list_is_too_long_by_its_tools_or_by_its_tokens() -> None:
    assert lint_list("All tools", 128, 25_000) == []
    for too_long in ((129, 1), (1, 25_001)):
        (message,) = lint_list("All tools", *too_long)
        assert (message.id, message.level) == ("mcp_bridge.I002", checks.INFO)
    assert message.msg.startswith("All tools: 1 tools take about 25,001 tokens")


def test_lint_names_each_list_that_is_too_long(settings: Any) -> None:
    toolsets = {"some": ["give_1", "give_2"], "most": ["give_*"]}
    settings.MCP_BRIDGE = {"TOOLSETS": toolsets}
    functions = [giving(int, 1) for _ in range(130)]
    for number, function in enumerate(functions):
        function.__name__ = f"give_{number}"
    serve(settings, *functions)
    assert [line[:40] for line in run().splitlines() if "I002" in line] == [
        "INFO mcp_bridge.I002: All tools: 130 too",
        "INFO mcp_bridge.I002: Toolset most: 130 ",
    ]
    assert "I002" not in run("--toolset", "some")

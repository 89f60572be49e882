"""
The rules of MCP for servers, by page of the specification, and the tests that cover them.

``python -m tests.requirements`` prints the counts by page; with a part of an id or of a page's
path, the rules that have it, and the tests of each.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
# Tests in these folders run by separate targets, not each time.
SLOW = ("browser", "faults", "fuzz", "pages", "processes")
# The tables of a page in the file, and their names in the specification.
KEPT = {"must": "MUST", "must_not": "MUST NOT", "should": "SHOULD"}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of the specification; ``reason`` says why it is not kept or does not apply."""

    id: str
    level: str
    text: str
    page: str
    revision: str
    applies: bool = True
    reason: str = ""


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules in the order of the file."""
    found = []
    for page in tomllib.loads((TESTS / "requirements.toml").read_text("utf-8"))["page"]:
        place = {"page": page.pop("path"), "revision": page.pop("revision")}
        for table, members in page.items():
            for name, value in members.items():
                level, text, reason = (KEPT[table], value, "") if isinstance(value, str) else value
                applies = table != "elsewhere"
                found.append(
                    Rule(id=name, level=level, text=text, reason=reason, applies=applies, **place)
                )
    return tuple(found)


@cache
def carried() -> dict[str, tuple[str, ...]]:
    """
    Return the tests of each id, from the sources: a test may not be part of this run.

    Raises ValueError for a mark that is not on a test, or whose ids are not written out.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        folders = path.relative_to(TESTS).parts
        text = path.read_text("utf-8")
        if folders[0] in SLOW or "requirement(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                place = f"{path.relative_to(TESTS.parent)}::{node.name}"
                for name in _ids(node.decorator_list, place):
                    found.setdefault(name, []).append(place)
    return {name: tuple(places) for name, places in found.items()}


def _ids(decorators: Iterable[ast.expr], place: str) -> list[str]:
    found = []
    for each in decorators:
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.requirement":
            values = [arg.value for arg in each.args if isinstance(arg, ast.Constant)]
            names = [value for value in values if isinstance(value, str)]
            if len(names) != len(each.args) or "::test_" not in place:
                raise ValueError(f"{place}: a requirement is an id, written out, on a test")
            found += names
    return found


def counts() -> str:
    """Return a table of Markdown: how many rules of each level a page has."""
    columns = [*KEPT.values(), "departed from", "not applicable"]
    by_page: dict[str, Counter[str]] = {}
    for rule in rules():
        column = rule.level if not rule.reason else columns[3 if rule.applies else 4]
        by_page.setdefault(f"{rule.page} | {rule.revision}", Counter())[column] += 1
    lines = [f"| page | revision | {' | '.join(columns)} |", "|---|---|" + "---:|" * len(columns)]
    for title, numbers in [*by_page.items(), ("all | ", sum(by_page.values(), Counter()))]:
        cells = (str(numbers[column] or "") for column in columns)
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def described(part: str) -> str:
    """Return the rules whose id or page has a text in it, each with its tests."""
    blocks = []
    for rule in rules():
        if part in rule.id or part in rule.page:
            tests = [f"    {place}" for place in carried().get(rule.id, ())]
            reason = [f"    {rule.reason}"] if rule.reason else []
            title = f"{rule.id}  {rule.level}  ({rule.page}, {rule.revision})"
            blocks.append("\n".join([title, f"    {rule.text}", *reason, *tests]))
    return "\n".join(blocks) or f"no rule has {part!r} in its id or page"


if __name__ == "__main__":
    print("\n".join(map(described, sys.argv[1:])) if sys.argv[1:] else counts())

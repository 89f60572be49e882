"""The checkable rules of docs/project/architecture.md."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bridge.conf import Conf

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(
    path
    for folder in ("mcp_bridge", "testproject", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if "migrations" not in path.parts and "node_modules" not in path.parts
)
PACKAGE = [path for path in SOURCES if path.is_relative_to(ROOT / "mcp_bridge")]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def test_files_have_at_most_600_lines() -> None:
    assert [path for path in SOURCES if len(path.read_text().splitlines()) > 600] == []


def test_functions_have_at_most_80_lines() -> None:
    assert [
        f"{path}:{function.lineno} {function.name}"
        for path in SOURCES
        for function in functions(path)
        if length(function) > 80
    ] == []


def test_modules_have_no_vague_names() -> None:
    vague = {"utils", "helpers", "managers", "handlers", "constants", "types"}
    assert [path for path in PACKAGE if path.stem in vague] == []


@pytest.mark.alone
def test_importing_the_package_imports_no_frameworks() -> None:
    code = (
        "import sys, mcp_bridge; print([name for name in ('django', 'modernrpc', 'pydantic') "
        "if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert found.stdout.strip() == "[]", found.stderr


def test_modules_have_docstrings() -> None:
    roles = {"apps.py", "admin.py"}
    assert [
        path
        for path in PACKAGE
        if path.name not in roles and "commands" not in path.parts
        if (text := path.read_text()).strip() and not ast.get_docstring(ast.parse(text))
    ] == []


def test_settings_are_documented() -> None:
    text = (ROOT / "docs" / "reference" / "settings.md").read_text()
    keys = inspect.get_annotations(Conf)
    assert [key for key in keys if f"### `{key}`" not in text] == []


@pytest.mark.parametrize(
    "words", [r"\bTODO\b", r"\bFIXME\b", r"\bXXX\b", "pragma: no cover", "noqa: F401"]
)
def test_code_has_no_todo_comments(words: str) -> None:
    assert [path for path in PACKAGE if re.search(words, path.read_text())] == []

"""What docs/architecture.md asks for, where a machine can tell."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcp_bridge
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


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_has_at_most_300_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_have_at_most_40_lines(path: Path) -> None:
    for function in functions(path):
        lines = (function.end_lineno or 0) - function.lineno + 1
        assert lines <= 40, f"{path}:{function.lineno} {function.name}"


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_called_after_what_it_is_not_about(path: Path) -> None:
    assert path.stem not in {"utils", "helpers", "managers", "handlers", "constants", "types"}


def test_public_names_are_pinned() -> None:
    assert mcp_bridge.__all__ == ["Context", "ToolError", "mcp_tool"]


def test_importing_the_package_imports_no_framework() -> None:
    code = (
        "import sys, mcp_bridge; print([name for name in ('django', 'modernrpc', 'pydantic') "
        "if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    roles = {"apps.py", "admin.py"}
    if text.strip() and path.name not in roles and "commands" not in path.parts:
        assert ast.get_docstring(ast.parse(text)), path


def test_check_ids_are_unique_and_listed() -> None:
    used: list[str] = []
    for path in PACKAGE:
        used += re.findall(r'id="mcp_bridge\.([EW]\d{3})"', path.read_text())
    listed = re.findall(
        r"\b([EW]\d{3})\b", importlib.import_module("mcp_bridge.checks").__doc__ or ""
    )
    assert sorted(used) == sorted(listed)


@pytest.mark.parametrize("key", Conf.keys())
def test_setting_is_documented(key: str) -> None:
    assert f"### `{key}`" in (ROOT / "docs" / "settings.md").read_text()


@pytest.mark.parametrize(
    "words", [r"\bTODO\b", r"\bFIXME\b", r"\bXXX\b", "pragma: no cover", "noqa: F401"]
)
def test_nothing_is_left_for_later(words: str) -> None:
    for path in PACKAGE:
        assert not re.search(words, path.read_text()), path

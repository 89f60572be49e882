"""The gate's count of function calls: constant for the same code, red if it rises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quick import report

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ("--only", "unrecorded")
FIGURE = "add, AUDIT = None"


def quick(kept: Path, *arguments: str, site: str = "") -> subprocess.CompletedProcess[str]:
    """Run the count with a separate file of figures; ``site`` is a URLconf to count instead."""
    own = {"BENCHMARK_URLCONF": site} if site else {}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.quick", "--figures", str(kept), *SCRIPT, *arguments],
        cwd=ROOT,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def change(kept: Path, factor: float) -> None:
    """Multiply the kept figure, as if the code had cost so much before."""
    pairs: dict[str, Any] = json.loads(kept.read_text())
    (pair,) = pairs.values()
    pair["figures"][FIGURE] = round(pair["figures"][FIGURE] * factor)
    kept.write_text(json.dumps(pairs))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the figures that a run keeps."""
    kept = tmp_path_factory.mktemp("quick") / "quick.json"
    done = quick(kept, "--write")
    assert done.returncode == 0, done.stderr
    return kept.read_text()


@pytest.fixture
def kept(written: str, tmp_path: Path) -> Path:
    path = tmp_path / "quick.json"
    path.write_text(written)
    return path


def test_figures_are_repeatable_and_small_rises_are_accepted(written: str, kept: Path) -> None:
    change(kept, 0.97)
    done = quick(kept)
    assert done.returncode == 0, done.stderr
    (pair,) = json.loads(written).values()
    assert f"{pair['figures'][FIGURE]:>9,}  {FIGURE}\n" in done.stdout
    assert f"Changed, and accepted:\n  {FIGURE}: " in done.stdout
    assert "(+3." in done.stdout


def test_slower_endpoint_is_red_and_named(kept: Path) -> None:
    pairs = json.loads(kept.read_text())
    (pair,) = pairs.values()
    pair["packages"]["pydantic"] = "2.0"
    kept.write_text(json.dumps(pairs))
    done = quick(kept, site="tests.support.slower")
    assert done.returncode == 1
    assert "Function calls rose by more than 5%:" in done.stderr
    assert f"{FIGURE}: {pair['figures'][FIGURE]:,} → " in done.stderr
    assert "Since then changed: pydantic 2.0 → " in done.stderr
    assert "make bench-quick ARGS=--write" in done.stderr


def test_lower_figure_is_reported_and_green(written: str, capsys: Any) -> None:
    ((own, pair),) = json.loads(written).items()
    halved = {FIGURE: pair["figures"][FIGURE] // 2}
    assert report(own, pair, halved, pair["packages"]) == 0
    assert "(-50." in capsys.readouterr().out


def test_pair_without_figures_is_red_and_explains_writing_them(tmp_path: Path) -> None:
    kept = tmp_path / "quick.json"
    kept.write_text('{"Python 2.7, Django 1.11": {"packages": {}, "figures": {}}}')
    done = quick(kept)
    assert done.returncode == 1
    assert "(there are: Python 2.7, Django 1.11)" in done.stderr
    assert "make bench-quick ARGS=--write" in done.stderr


def test_script_without_a_figure_is_red(written: str, capsys: Any) -> None:
    ((own, pair),) = json.loads(written).items()
    assert report(own, pair, {"another": 1}, pair["packages"]) == 1
    said = capsys.readouterr().err
    assert "another: 1" in said
    assert "nothing can be compared" in said

"""
``python -m benchmarks.quick``: count the function calls of fixed scripts, and compare them.

A figure that rose by more than 5 % is an error. Figures are kept in quick.json by the minor
versions of Python and Django, since each pair has its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks.contestants import BRIDGE, RECORDS_OFF
from benchmarks.counting import SCRIPTS, Figures
from benchmarks.databases import Databases, databases
from benchmarks.servers import ROOT, ServerFailedError

FIGURES: Final = Path(__file__).with_name("quick.json")
TOLERANCE: Final = 0.05
# Above it a figure has changed, if not for the worse.
NOTICED: Final = 0.02
PACKAGES: Final = ("Django", "djangorestframework", "django-modern-rpc", "pydantic", "jsonschema")
ACCEPT: Final = "make bench-quick ARGS=--write"
# What is read anew every second would be read in some runs of a script and not in others.
STEADY: Final = {"STATE_MAX_AGE": 3600}


@dataclass(frozen=True, slots=True)
class Site:
    """What a script runs on: a mode, and so many tools; on the direct lane or under WSGI."""

    mode: str
    tools: int
    recorded: bool = True
    name: str = BRIDGE.site
    options: tuple[tuple[str, str], ...] = ()


SITES: Final = {
    "start": Site("anonymous", 10),
    "building": Site("anonymous", 100),
    "calls": Site("anonymous", 10),
    "unrecorded": Site("anonymous", 10, recorded=False),
    "token": Site("token", 10),
    "permissions": Site("permissions", 1000),
    "lane": Site("anonymous", 10, name="lane"),
    "lane_async": Site("anonymous", 10, name="lane", options=(("ASYNC", "1"),)),
}


def pair() -> str:
    """The pair of Python and Django, by whose minor versions figures are kept."""
    django = ".".join(version("Django").split(".")[:2])
    return f"Python {sys.version_info[0]}.{sys.version_info[1]}, Django {django}"


def measure(name: str, made: Databases) -> Figures:
    """Run a script in a process of its own."""
    site = SITES[name]
    bridge = {**STEADY, **({} if site.recorded else RECORDS_OFF)}
    options = {**BRIDGE.options, **dict(site.options)}
    contestant = replace(BRIDGE, site=site.name, bridge=bridge, options=options)
    variables, token = made.environment(contestant, site.mode, site.tools)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.counting", name],
        # Sets are read in an order that depends on it.
        env=variables | {"BENCHMARK_TOKEN": token, "PYTHONHASHSEED": "0"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ServerFailedError(f"The script {name} failed.\n{done.stderr[-3000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def compare(kept: Figures, found: Figures) -> tuple[list[str], list[str]]:
    """What rose too far, and what else is to be said, a line each."""
    risen, said = [], []
    for name, figure in found.items():
        if name not in kept:
            risen.append(f"{name}: {figure:,}, with which nothing can be compared")
            continue
        change = figure / kept[name] - 1
        line = f"{name}: {kept[name]:,} → {figure:,} ({change:+.1%})"
        if change > TOLERANCE:
            risen.append(line)
        elif abs(change) > NOTICED:
            said.append(line)
    return risen, said


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quick", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the figures that are found")
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    parser.add_argument("--figures", type=Path, default=FIGURES, help="where they are kept")
    return parser.parse_args()


def main() -> int:
    options = parse()
    text = options.figures.read_text("utf-8") if options.figures.exists() else "{}"
    pairs: dict[str, dict[str, Any]] = json.loads(text)
    try:
        with databases() as made:
            found = {k: v for name in options.only for k, v in measure(name, made).items()}
    except ServerFailedError as error:
        print(error, file=sys.stderr)
        return 1
    for name, figure in found.items():
        print(f"{figure:>9,}  {name}")
    own, here = pair(), {name: version(name) for name in PACKAGES}
    if options.write:
        before = pairs.get(own, {"figures": {}})["figures"] if options.only != [*SCRIPTS] else {}
        pairs[own] = {"packages": here, "figures": {**before, **found}}
        text = json.dumps(dict(sorted(pairs.items())), indent=2) + "\n"
        options.figures.write_text(text, "utf-8")
        print(f"Kept for {own} in {options.figures.name}.")
        return 0
    if own not in pairs:
        have = "; ".join(pairs) or "none"
        print(
            f"There are no figures for {own} (there are: {have}), so that nothing is compared. "
            f"Keep these: {ACCEPT}",
            file=sys.stderr,
        )
        return 1
    return report(own, pairs[own], found, here)


def report(own: str, kept: dict[str, Any], found: Figures, here: dict[str, str]) -> int:
    risen, said = compare(kept["figures"], found)
    print(f"Compared with the figures for {own}.")
    if said:
        print("Changed, and accepted:", *said, sep="\n  ")
    if not risen:
        return 0
    print(f"Function calls rose by more than {TOLERANCE:.0%}:", *risen, sep="\n  ", file=sys.stderr)
    others = [
        f"{name} {kept['packages'].get(name)} → {here[name]}"
        for name in PACKAGES
        if kept["packages"].get(name) != here[name]
    ]
    if others:
        print("Since then changed:", ", ".join(others), file=sys.stderr)
    print(f"If that is what it costs, keep the new figures: {ACCEPT}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

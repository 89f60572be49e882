"""``python -m benchmarks``: measure, print the tables, and keep them in results.md and .json."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import building, recording, starting, views
from benchmarks.contestants import GROUPS, Contestant, Group
from benchmarks.databases import Databases, databases, durability
from benchmarks.figures import head, rows
from benchmarks.report import markdown
from benchmarks.rounds import run
from benchmarks.scenarios import Scenario, scenarios
from benchmarks.servers import Cores, ServerFailedError, pin
from benchmarks.wire import UnexpectedAnswerError, WrongAnswerError

RESULTS = Path(__file__).with_name("results.md")
# What needs no server, by the word that asks for it.
ALONE = {each.WORD: each.measure for each in (building, recording, views)}
SCENARIOS = [each for group in GROUPS for each in scenarios(group)]
NAMES = {each.name: each for group in GROUPS for each in group.contestants}
NAMES |= {each.name: each for each in starting.CONTESTANTS}
# Words of one kind are alternatives.
KINDS = [{getattr(each, kind) for each in SCENARIOS} for kind in ("group", "mode", "operation")]
KINDS.append({str(each.tools) for each in SCENARIOS})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, help="windows for each")
    parser.add_argument("--seconds", type=float, default=0.3, help="the length of a window")
    words = [*sorted({word for kind in KINDS for word in kind}), starting.WORD, *ALONE]
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        choices=words,
        metavar="WORD",
        help=f"only these groups, modes, operations and counts of tools: {', '.join(words)}",
    )
    parser.add_argument("--contestants", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument(
        "--output",
        type=Path,
        help="where the tables are kept, and the figures beside them as .json "
        f"(default for a complete run: {RESULTS.name})",
    )
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return options


def is_wanted(scenario: Scenario, words: set[str]) -> bool:
    own = {scenario.group, scenario.mode, scenario.operation, str(scenario.tools)}
    return all(own & words & kind for kind in KINDS if words & kind)


def chosen(words: set[str]) -> list[tuple[Group, list[Scenario]]]:
    """The groups with those of their scenarios that the words ask for."""
    if words and words <= {starting.WORD, *ALONE}:
        return []
    found = [(group, [s for s in scenarios(group) if is_wanted(s, words)]) for group in GROUPS]
    return [(group, wanted) for group, wanted in found if wanted]


def measure(options: argparse.Namespace, made: Databases, cores: Cores) -> dict[str, Any]:
    """Measure all that was asked for, and can be measured here."""
    left_out: dict[str, None] = {}

    def present(contestants: tuple[Contestant, ...]) -> tuple[Contestant, ...]:
        found = []
        for each in contestants:
            lacking = each.lacking() or (made.found[1] if each.database == "postgresql" else "")
            if lacking and each.name in options.contestants:
                left_out[f"{each.title}. {lacking}"] = None
            elif each.name in options.contestants:
                found.append(each)
        return tuple(found)

    words = set(options.only)
    groups = [
        (replace(group, contestants=present(group.contestants)), wanted)
        for group, wanted in chosen(words)
    ]
    found = head(cores, options.rounds, options.seconds, durability(made.found[0]))
    results = run(groups, made, cores, options.rounds, options.seconds)
    start: list[dict[str, Any]] = []
    if not words or starting.WORD in words:
        wanted = list(present(starting.CONTESTANTS))
        start = starting.measure(wanted, made, cores, max(1, options.rounds // 2))
    return {
        "head": found,
        "left_out": list(left_out),
        "series": rows(results),
        "start": start,
    }


def main() -> int:
    options = parse()
    cores, begun = Cores.choose(), time.monotonic()
    pin(0, cores.client)
    try:
        with databases() as made:
            found = measure(options, made, cores)
    except (ServerFailedError, UnexpectedAnswerError, WrongAnswerError, OSError) as error:
        lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]
        print(*lines, sep="\n", file=sys.stderr)
        return 1
    words = set(options.only)
    found["texts"] = [ALONE[word]() for word in ALONE if not words or word in words]
    text = markdown(found)
    print(text)
    complete = not words and options.contestants == list(NAMES)
    output = options.output or (RESULTS if complete else None)
    if output is not None:
        output.write_text(text, encoding="utf-8")
        output.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(f"Measured in {time.monotonic() - begun:.0f} s.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

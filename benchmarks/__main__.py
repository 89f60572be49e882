"""``python -m benchmarks``: measure, print the tables, and keep them in results.md."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks import building, recording
from benchmarks.report import markdown
from benchmarks.rounds import run
from benchmarks.scenarios import SCENARIOS, WrongAnswerError
from benchmarks.servers import CONTESTANTS, Cores, ServerFailedError
from benchmarks.wire import UnexpectedAnswerError

RESULTS = Path(__file__).with_name("results.md")
# What needs no server, by the word that asks for it.
ALONE = {building.WORD: building.measure, recording.WORD: recording.measure}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=14, help="windows for each")
    parser.add_argument("--seconds", type=float, default=0.35, help="the length of a window")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORD",
        help="only scenarios with all of these words, of: "
        + ", ".join(sorted({word for each in SCENARIOS for word in str(each).split()}))
        + f"; or {' or '.join(ALONE)}, for what needs no server",
    )
    parser.add_argument(
        "--contestants",
        nargs="+",
        choices=[each.name for each in CONTESTANTS],
        default=[each.name for each in CONTESTANTS],
    )
    parser.add_argument(
        "--output",
        type=Path,
        help=f"where the tables are kept (default for a complete run: {RESULTS.name})",
    )
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return options


def main() -> int:
    options = parse()
    if options.only and set(options.only) <= set(ALONE):
        for word in options.only:
            print(ALONE[word]())
        return 0
    scenarios = [each for each in SCENARIOS if set(options.only) <= set(str(each).split())]
    contestants = [each for each in CONTESTANTS if each.name in options.contestants]
    if not scenarios:
        print(f"No scenario has all of these words: {' '.join(options.only)}", file=sys.stderr)
        return 2
    cores, start = Cores.choose(), time.monotonic()
    try:
        results = run(scenarios, contestants, cores, options.rounds, options.seconds)
    except (ServerFailedError, UnexpectedAnswerError, WrongAnswerError, OSError) as error:
        lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]
        print(*lines, sep="\n", file=sys.stderr)
        return 1
    text = markdown(results, cores, options.rounds, options.seconds)
    complete = len(scenarios) == len(SCENARIOS) and len(contestants) == len(CONTESTANTS)
    if complete:
        text = "\n".join([text, *(measure() for measure in ALONE.values())])
    print(text)
    output = options.output or (RESULTS if complete else None)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    print(f"Measured in {time.monotonic() - start:.0f} s.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

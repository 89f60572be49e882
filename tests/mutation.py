"""
Change code in every small way that mutmut knows, and see whether a test fails: ``make mutants``.

mutmut writes every mutant of a function beside it, and a variable says which one is called. So one
process, in a copy of the checkout, collects the tests and makes the database, and is then forked:
first to note which functions each test calls, then once for each mutant, to run the tests that call
its function, the quickest first, until one fails. This module is that process's plugin as well.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import gc
import json
import mmap
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import hypothesis
import pytest
from mutmut.mutation import trampoline
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import (
    get_mutant_name,
    mangled_name_from_mutant_name,
    orig_function_and_class_names_from_key,
)

COPY = Path("mutants")
# In the copy: the mutants to try, and their results.
TRIED, RESULTS = "tried.json", "results.json"
# Survivors that have been reviewed.
KNOWN = Path("tests/mutants.txt")
PROCESSES = 2
LEAST_KILLED = 90
# Python ignores the type in a cast.
CAST = re.compile(r"""\bcast\((None|"[^"]*")""")
# Tests that may fail without a mutant, and are left out.
MOST_FAILED = 3
MEMORY = 4 << 30
# The status of a process that was forked.
ENOUGH = 3
RESULT = {0: "survived", 1: "killed", ENOUGH: "survived so long"}
SURVIVED = {"survived", "survived so long", "no test"}
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-s",
    "-p",
    "tests.mutation",
    "-p",
    "no:cacheprovider",
]
# Explaining a failed assertion takes longer than most tests.
PYTEST += ["--assert=plain", "--tb=short"]

calls: set[str] = set()
# In a forked process: the number of the test that runs, for the process that waits for it.
running: mmap.mmap | None = None


def written(path: Path) -> dict[str, str]:
    """Write a file with its mutants into the copy; returns what each mutant changes."""
    made = mutate_file_contents(str(path), path.read_text("utf-8"))
    (COPY / path).write_text(made.code, "utf-8")
    lines = made.code.splitlines()

    def text_of(name: str) -> list[str]:
        span = made.line_span_by_function_name[name]
        return [line.replace(name, "").strip() for line in lines[span.start - 1 : span.end]]

    changes = {}
    for name in made.mutant_names:
        unchanged = text_of(mangled_name_from_mutant_name(name) + "__mutmut_orig")
        diff = list(difflib.unified_diff(unchanged, text_of(name), n=0))[2:]
        before, after = (" ".join(x[1:] for x in diff if x[0] == sign) for sign in "-+")
        if CAST.sub("", before) != CAST.sub("", after):
            changes[get_mutant_name(path, name)] = f"{before[:100]} → {after[:100]}"
    return changes


def copied() -> dict[str, str]:
    """Copy the checkout with all mutants in it; returns what each mutant changes."""
    shutil.rmtree(COPY, ignore_errors=True)
    left_out = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "build", str(COPY))
    shutil.copytree(".", COPY, ignore=left_out)
    with Pool(PROCESSES) as pool:
        files = pool.map(written, sorted(walk_mutatable_files()))
    return {name: change for each in files for name, change in each.items()}


def room_of(mutant: str) -> str:
    """Return the room of the package in which a mutant is."""
    return mutant.split(".")[1]


def readable(mutant: str) -> str:
    """Return the dotted name of a mutant's function."""
    name, class_name = orig_function_and_class_names_from_key(mutant)
    return ".".join(filter(None, (mutant.rpartition(".")[0], class_name, name)))


class Killed(Exception):
    """A test has failed in a process that was forked."""


def forked(run: Any) -> tuple[int, mmap.mmap]:
    """Call a function in a forked process, which ends with 1 if it raises anything."""
    global running
    current = mmap.mmap(-1, 4)
    sys.stdout.flush()
    if pid := os.fork():
        return pid, current
    running = current
    try:
        run()
    except BaseException as error:
        if not isinstance(error, Killed):
            print(repr(error))
        sys.stdout.flush()
        os._exit(1)
    os._exit(0)


def run_test(
    items: list[pytest.Item], number: int, following: int | None = None, seconds: float = 600
) -> None:
    """Run a test, for so long at most; fixtures that the following one has as well are kept."""
    signal.alarm(round(seconds))
    item = items[number]
    after = item.session if following is None else items[following]
    item.ihook.pytest_runtest_protocol(item=item, nextitem=after)


def forget() -> None:
    """Empty what the package keeps, so that a test calls all that it would call alone."""
    for name, module in sys.modules.copy().items():
        # The checks that are registered stay the same ones.
        if name.startswith("mcp_bridge.") and name != "mcp_bridge.apps":
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def mixed(items: list[pytest.Item]) -> list[int]:
    """Return the order of tests: one of all the parameters of each, by file, then the others."""
    seen = Counter[Any]()
    keys = []
    for number, item in enumerate(items):
        test = item.path, getattr(item, "originalname", None)
        seen[test] += 1
        keys.append((seen[test] > 1, item.path, number))
    return [number for _, _, number in sorted(keys)]


def note(items: list[pytest.Item]) -> None:
    """
    Write down which functions each test calls, how long it takes, and whether by threads.

    A test that fails here is left out: it is about the stack, in which a mutated function has three
    frames, or it fails in another order than its own.
    """
    found: list[Any] = [None] * len(items)
    order = mixed(items)
    for number, following in zip(order, [*order[1:], None], strict=True):
        forget()
        calls.clear()
        begun, threads = time.monotonic(), set(threading.enumerate())
        try:
            run_test(items, number, following)
            fails = False
        except Killed:
            fails = True
            items[number].session._setupstate.teardown_exact(items[number].session)
        names = [] if fails else sorted(calls)
        seconds = time.monotonic() - begun
        alone = threading.active_count() == 1 or set(threading.enumerate()) <= threads
        # Its thread serves the rest of the session.
        alone = alone and "live_server" not in items[number].fixturenames  # type: ignore[attr-defined]
        found[number] = {"seconds": seconds, "calls": names, "alone": alone, "fails": fails}
    Path(RESULTS).write_text(json.dumps(found), "utf-8")


def warm_up(items: list[pytest.Item], noted: list[Any]) -> None:
    """Run the quickest test of each file here, for what is done once in a process; no threads."""
    quickest: dict[Path, int] = {}
    for number in sorted(range(len(items)), key=lambda x: noted[x]["seconds"]):
        if noted[number]["alone"] and noted[number]["calls"]:
            quickest.setdefault(items[number].path, number)
    for number in quickest.values():
        run_test(items, number)
    signal.alarm(0)
    forget()
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, "a process with threads cannot be forked"


def attempt(mutant: str, tests: list[int], items: list[pytest.Item], seconds: list[float]) -> None:
    """Run tests with a mutant, each for a time in which it would have ended by far without."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    trampoline.set_mutant_under_test(mutant)
    most = time.process_time() + float(os.environ["MUTANTS_SECONDS"])
    for number, following in zip(tests, [*tests[1:], None], strict=True):
        running[:] = number.to_bytes(4, "big")  # type: ignore[index]
        run_test(items, number, following, 15 + 10 * seconds[number])
        if time.process_time() > most:
            os._exit(ENOUGH)


def in_order(items: list[pytest.Item], noted: list[Any]) -> dict[str, list[int]]:
    """Return the tests that call each function: those of its module first, then the quickest."""
    tests: dict[str, list[int]] = defaultdict(list)
    for number, each in enumerate(noted):
        for function in each["calls"]:
            tests[function].append(number)
    for function, numbers in tests.items():
        own = f"test_{function.split('.')[-2]}"
        numbers.sort(
            key=lambda number: (
                not items[number].path.stem.startswith(own),
                noted[number]["seconds"],
            )
        )
    return tests


def try_all(mutants: list[str], items: list[pytest.Item], noted: list[Any]) -> dict[str, Any]:
    """Try each mutant with the tests that call its function, those that killed others first."""
    seconds = [each["seconds"] for each in noted]
    tests = in_order(items, noted)
    waiting, children, results = mutants[::-1], {}, {}
    end = time.monotonic() + 60 * float(os.environ["MUTANTS_MINUTES"])
    while waiting or children:
        if time.monotonic() > end:
            waiting.clear()
        while waiting and len(children) < PROCESSES:
            mutant = waiting.pop()
            order = list(tests.get(mangled_name_from_mutant_name(mutant), ()))
            pid, current = forked(lambda: attempt(mutant, order, items, seconds))  # noqa: B023
            children[pid] = mutant, current
        pid, status, used = os.wait3(0)
        mutant, current = children.pop(pid)
        function, code = mangled_name_from_mutant_name(mutant), os.waitstatus_to_exitcode(status)
        number = int.from_bytes(current[:], "big")
        result = RESULT[code] if code >= 0 else signal.Signals(-code).name
        if function not in tests:
            result = "no test"
        results[mutant] = {"result": result, "test": None, "seconds": used.ru_utime + used.ru_stime}
        if result not in SURVIVED:
            results[mutant]["test"] = items[number].nodeid
            tests[function].remove(number)
            tests[function].insert(0, number)
        if len(results) % 50 == 0:
            kinds = Counter(each["result"] for each in results.values())
            print(f"{len(results)} of {len(mutants)}: {dict(kinds)}", flush=True)
            Path(RESULTS).write_text(json.dumps(results), "utf-8")
    return results


def pytest_configure() -> None:
    """Note the functions that are called while modules are imported and tests collected."""
    hypothesis.settings.register_profile(
        "mutants",
        database=None,
        deadline=None,
        derandomize=True,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    )
    hypothesis.settings.load_profile("mutants")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and running is not None:
        print(report.nodeid, report.longreprtext)
        raise Killed


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Try all mutants instead of running the tests, unless a mutant is already active."""
    if "MUTANT_UNDER_TEST" in os.environ:
        return None
    imported = sorted(calls)
    run_test(session.items, 0)
    pid, _ = forked(lambda: note(session.items))
    if os.waitpid(pid, 0)[1]:
        raise session.Failed("the tests end their process")
    noted = json.loads(Path(RESULTS).read_text("utf-8"))
    failed = [item.nodeid for item, each in zip(session.items, noted, strict=True) if each["fails"]]
    if len(failed) > MOST_FAILED:
        raise session.Failed(f"these fail without a mutant: {', '.join(failed)}")
    warm_up(session.items, noted)
    print()
    results = try_all(json.loads(Path(TRIED).read_text("utf-8")), session.items, noted)
    for mutant, result in results.items():
        result["imported"] = mangled_name_from_mutant_name(mutant) in imported
    Path(RESULTS).write_text(json.dumps(results), "utf-8")
    # The first test may be one that is left out.
    session.testsfailed = 0
    return True


def killed_at_import(mutant: str, selection: list[str]) -> bool:
    """Return whether a test or the collection fails if a mutant is active from the start."""
    environment = {**os.environ, "MUTANT_UNDER_TEST": mutant}
    command = [*PYTEST, "-x", *selection]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, cwd=COPY, env=environment, timeout=900, **quiet).returncode != 0


def judged(results: dict[str, Any], changes: dict[str, str], whole: bool) -> int:
    """Print the figures of each room, and the survivors that are not known; returns the status."""
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = set()
    for mutant, each in results.items():
        survived = each["result"] in SURVIVED
        room = rooms[room_of(mutant)]
        room.update({"mutants": 1, "killed": not survived, "by time": each["result"] == "SIGALRM"})
        if survived:
            survivors.add(f"{readable(mutant)}: {changes[mutant]}")
    print("| room | mutants | killed | % | of these by time |\n|---|---|---|---|---|")
    for name, room in rooms.items():
        share = 100 * room["killed"] / room["mutants"]
        print(
            f"| {name} | {room['mutants']} | {room['killed']} | {share:.1f} | {room['by time']} |"
        )
    (COPY / "survivors.txt").write_text("\n".join(sorted(survivors)) + "\n", "utf-8")
    # The file exists once all mutants have been tried and their survivors reviewed.
    known = set(KNOWN.read_text("utf-8").splitlines()) if KNOWN.exists() else survivors
    if new := sorted(survivors - known):
        print(f"\n{len(new)} survivors that {KNOWN} does not list:", *new, sep="\n")
    gone = {line for line in known - survivors if line.startswith("mcp_bridge.")} if whole else ()
    if gone:
        print(f"\n{len(gone)} lines of {KNOWN} that are no longer true:", *sorted(gone), sep="\n")
    few = any(100 * room["killed"] < LEAST_KILLED * room["mutants"] for room in rooms.values())
    return bool(new or gone or few)


def main() -> NoReturn:
    """Make the mutants, try those that are asked for, and judge what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="patterns of mutants' names; all without any")
    parser.add_argument("--tests", nargs="+", required=True, metavar="PATH")
    parser.add_argument(
        "--again",
        action="store_true",
        help="only what the last run did not kill",
    )
    parser.add_argument("--seconds", type=float, default=60, help="CPU time for a mutant")
    parser.add_argument("--minutes", type=float, default=600, help="begin no mutant after that")
    options = parser.parse_args()
    names = options.names
    before = json.loads((COPY / RESULTS).read_text("utf-8")) if options.again else {}
    changes = copied()
    # A mutant has the same name as long as nothing before it in its function has changed.
    before = {x: each for x, each in before.items() if changes.get(x) == each["change"]}
    killed = [name for name, each in before.items() if each["result"] not in SURVIVED]
    tried = [x for x in changes if not names or any(fnmatchcase(x, y) for y in names)]
    tried = sorted({*tried}.difference(killed))
    # A run that ends before all are tried has tried a sample, with as many of each room.
    Random(1).shuffle(tried)
    turn = Counter[str]()
    turns = []
    for name in tried:
        turn[room_of(name)] += 1
        turns.append((turn[room_of(name)], name))
    tried = [name for _, name in sorted(turns)]
    (COPY / TRIED).write_text(json.dumps(tried), "utf-8")
    print(f"{len(tried)} of {len(changes)} mutants", flush=True)
    limits = {"MUTANTS_SECONDS": str(options.seconds), "MUTANTS_MINUTES": str(options.minutes)}
    environment = {**os.environ, **limits}
    subprocess.run([*PYTEST, *options.tests], cwd=COPY, env=environment, check=True)
    results = json.loads((COPY / RESULTS).read_text("utf-8"))
    for name, each in results.items():
        each["change"] = changes[name]
    again = [name for name, x in results.items() if x["imported"] and x["result"] in SURVIVED]
    print(
        f"{len(again)} survivors of functions that are called while modules are imported",
        flush=True,
    )
    with ThreadPoolExecutor(PROCESSES) as pool:
        for name, killed in zip(
            again, pool.map(lambda x: killed_at_import(x, options.tests), again), strict=True
        ):
            results[name]["result"] = "killed" if killed else results[name]["result"]
    results = before | results
    (COPY / RESULTS).write_text(json.dumps(results, indent=1), "utf-8")
    sys.exit(judged(results, changes, whole=len(results) == len(changes)))


if __name__ == "__main__":
    main()
elif "MUTANT_UNDER_TEST" not in os.environ:
    # Kept from the variable, which processes of tests would read as well.
    trampoline.record_trampoline_hit = lambda name, caller=None: calls.add(name)
    trampoline._mutant_under_test = "stats"

"""
Have real clients and strict schema converters judge the server: ``make clients``.

ARGS="converters", "results", "logins", "tasks" or names of clients run some of them; ARGS=--write
writes the outcomes to ``results.json`` and the table of docs/clients/README.md. The first run
installs the clients into ``.clients/``. Exits with 1 if any fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.clients import programs, table
from tests.clients.converters.judge import CONVERTERS, Converter, judge
from tests.clients.environments import ROOT, SERVERS, install
from tests.clients.environments import programs as programs_of
from tests.clients.judging import judged
from tests.clients.logins import WAYS, serving_logins
from tests.clients.model import Model, scripted
from tests.clients.programs import Seat
from tests.clients.roster import CLIENTS, Client
from tests.clients.serving import Failure, Server, serving, worker

SHOWN = 8
ANYTHING = "no validation keyword at all"


def main(arguments: list[str]) -> int:
    """Run all, each regardless of earlier failures; return the exit status."""
    # Without it, a terminated run would leave its children behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = {each for each in arguments if each != "--write"}
    known = {client.name for client in CLIENTS} | {"converters", "results", "logins", "tasks"}
    if names - known:
        print(f"No such client: {', '.join(names - known)}; there are {', '.join(sorted(known))}.")
        return 2
    install()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clients-") as folder:
        passed = [*converters(Path(folder))] if not names or "converters" in names else []
        if not names or "results" in names:
            passed += results(Path(folder))
        chosen = [client for client in CLIENTS if not names or client.name in names]
        rows: dict[str, dict[str, Any]] = {}
        for server in ("gunicorn", "uvicorn"):
            if chosen:
                passed += clients(server, chosen, Path(folder), rows)
            if not names or "logins" in names:
                passed += logins(server, Path(folder))
            if not names or "tasks" in names:
                passed.append(tasks(server, Path(folder)))
    print(f"{sum(passed)} of {len(passed)} passed in {time.monotonic() - started:.0f} s")
    if "--write" in arguments:
        table.write(rows)
    return 0 if all(passed) else 1


def converters(folder: Path) -> list[bool]:
    """Judge every converter by every schema."""
    plain, google = folder / "schemas.json", folder / "google.json"
    python = programs_of(SERVERS) / "python"
    command = [python, "-m", "tests.clients.schemas", plain, google]
    subprocess.run(command, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    with ThreadPoolExecutor(2) as pool:
        passed = [
            *pool.map(lambda each: converter(each, google if each.google else plain), CONVERTERS)
        ]
    return [*passed, *strict(folder)]


def converter(each: Converter, schemas: Path) -> bool:
    """Print the verdict on a converter, and its first failures."""
    try:
        verdict = judge(each, schemas)
    except Failure as failure:
        return line(False, each.title, str(failure))
    said = str(verdict)
    for name, wrong in list(verdict.failures.items())[:SHOWN]:
        said += f"\n       {name}: {'; '.join(wrong)[:200]}"
    if unneeded := each.limits.keys() - verdict.needed:
        said += f"\n       no longer met, so take it out of the limits: {', '.join(unneeded)}"
    return line(not verdict.failures, each.title, said)


def strict(folder: Path) -> list[bool]:
    """Have MCP Inspector's --strict judge the newsroom, and the tests' kinds."""
    passed = []
    for site, urls in (("newsroom", ""), ("kinds", "tests.clients.kinds")):
        with serving("gunicorn", ["strict"], folder / f"strict-{site}", urls) as server:
            home = folder / f"home-{site}"
            home.mkdir()
            try:
                found = programs.strict_warnings(Seat(server, "strict", Model(), home))
            except Failure as failure:
                passed.append(line(False, f"inspector --strict {site}", str(failure)))
                continue
        # A hint such as Any has nothing to say; the served schema says so too.
        wrong = [each for each in found if ANYTHING not in each[2]]
        said = (
            f"{len(wrong)} findings, {len(found) - len(wrong)} more of schemas that take anything"
        )
        said += "".join(
            f"\n       {tool}: {path}: {issue[:90]}" for tool, path, issue in wrong[:SHOWN]
        )
        passed.append(line(not wrong, f"inspector --strict {site}", said))
    return passed


def results(folder: Path) -> list[bool]:
    """Have the official client for TypeScript validate the results that the tests know."""
    passed = []
    with serving("gunicorn", ["results"], folder / "results", "tests.clients.results") as server:
        for name in ("official", "official_1"):
            seat = Seat(server, "results", Model(), folder)
            title = f"results, {name}"
            try:
                called, wrong = programs.refused_results(seat, name)
            except Failure as failure:
                passed.append(line(False, title, str(failure)))
                continue
            said = f"{len(wrong)} of {called} refused"
            said += "".join(f"\n       {tool}: {why[:200]}" for tool, why in wrong[:SHOWN])
            passed.append(line(not wrong, title, said))
    return passed


def logins(name: str, folder: Path) -> list[bool]:
    """Have clients log in to a server of which they know only the address."""
    passed = []
    with serving_logins(name, folder / f"login-{name}") as server:
        for way, wrong_of in WAYS.items():
            try:
                wrong = wrong_of(server)
            except Failure as failure:
                wrong = [str(failure)]
            passed.append(line(not wrong, f"login, {way} ({name})", "; ".join(wrong)))
    return passed


def tasks(name: str, folder: Path) -> bool:
    """Have FastMCP's client follow tasks that a worker runs."""
    with serving(name, ["tasks"], folder / f"tasks-{name}") as server, worker(server):
        command = [programs_of("following") / "python", "-m", "tests.clients.drivers.following"]
        command += [server.url, server.seats["tasks"]["token"]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    told = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return line(done.returncode == 0, f"fastmcp_tasks ({name})", told[-1] if told else "")


def clients(
    name: str, chosen: list[Client], folder: Path, rows: dict[str, dict[str, Any]]
) -> list[bool]:
    """Run the clients against one server; keep the outcomes in ``rows``."""
    with (
        serving(name, [each.name for each in chosen], folder / name) as server,
        worker(server),
        scripted() as model,
        ThreadPoolExecutor(os.cpu_count() or 2) as pool,
    ):
        return [*pool.map(lambda each: client(each, server, model, rows), chosen)]


def client(each: Client, server: Server, model: Model, rows: dict[str, dict[str, Any]]) -> bool:
    """Run a client, and print the verdict on it."""
    started = time.monotonic()
    home = server.folder / "homes" / each.name
    home.mkdir(parents=True)
    seat = Seat(server, each.name, model, home)
    try:
        row, wrong = judged(each, seat, each.drive(seat))
    except (Failure, subprocess.TimeoutExpired) as failure:
        row, wrong = {}, [str(failure)]
    else:
        kept = rows.setdefault(each.name, {**row, "servers": []})
        kept["servers"] += [] if wrong else [server.name]
    seconds = time.monotonic() - started
    said = "; ".join(wrong) or f"{row['revision']}, {row['wait']['how']}"
    return line(not wrong, f"{each.name} ({server.name})", f"{seconds:4.1f} s  {said}")


def line(passed: bool, name: str, said: str) -> bool:
    """Print one verdict."""
    print(f"{'ok  ' if passed else 'FAIL'} {name:<38} {said}", flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

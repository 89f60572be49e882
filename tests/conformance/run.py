"""
Have independent programs judge the server: ``make conformance``.

The official conformance suite runs at two revisions against the site of this folder, and so do its
scenarios of skills and, with three workers, of tasks. Its scenarios for authorization servers run
against the newsroom, as do MCP Inspector's command line, in its three eras, the TypeScript client
and mcpcheck. Two processes of gunicorn serve the sites, and for the suite and the client uvicorn as
well, on files of SQLite; the suite runs on PostgreSQL too if MCP_BRIDGE_TEST_DATABASE_URL is set.
The first run installs the programs into ``.conformance/``; ``--install`` does no more. Exits with 1
if any leg fails.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from runner import authorization, inspector, mcpcheck, official, sites, typescript
from runner.toolbox import Failure, Toolbox

REVISIONS = ("2026-07-28", "2025-11-25")
SERVERS = ("gunicorn", "uvicorn")
NEWSROOM = "tests.conformance.newsroom_settings"
WORKERS = 3

Group: TypeAlias = Callable[[Toolbox], list[bool]]


def main() -> int:
    """Run all legs, each regardless of earlier failures; return the exit status."""
    # Without it, a terminated run would leave its children behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    toolbox = Toolbox()
    try:
        toolbox.install()
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    if "--install" in sys.argv:
        return 0
    started = time.monotonic()
    groups: list[Group] = [partial(run, it) for it in SERVERS for run in (suite, newsroom)]
    if sites.POSTGRESQL in os.environ:
        groups.append(partial(suite, "gunicorn", on="postgresql"))
    passed = [one for group in groups for one in legs(group, toolbox)]
    print(f"{sum(passed)} of {len(passed)} legs passed in {time.monotonic() - started:.0f} s")
    return 0 if all(passed) else 1


def legs(group: Group, toolbox: Toolbox) -> list[bool]:
    """Run the legs that share a site; without the site they count as one that failed."""
    try:
        return group(toolbox)
    except Failure as failure:
        name = getattr(group, "func", group).__name__
        print(f"FAIL {name}: {failure}", flush=True)
        return [False]


def suite(server: str, toolbox: Toolbox, on: str = "") -> list[bool]:
    """Run the official suite against the site of this folder, on SQLite or PostgreSQL."""
    place = f"{server} {on}".strip()
    logs = [toolbox.results / f"{name}-{place}.log" for name in ("site", "workers")]
    with (
        sites.running("tests.conformance.settings", server, log=logs[0], on=on) as site,
        sites.workers(site, WORKERS, logs[1]),
    ):
        return [
            *(
                leg(f"suite {revision} {place}", official.run, toolbox, site.url, revision)
                for revision in REVISIONS
            ),
            *(
                leg(f"{name} {place}", official.extension, toolbox, site.url, name)
                for name in official.EXTENSIONS
            ),
        ]


def newsroom(server: str, toolbox: Toolbox) -> list[bool]:
    """Run the TypeScript client, and under gunicorn the other programs, against the newsroom."""
    log = toolbox.results / f"newsroom-{server}.log"
    with sites.running(NEWSROOM, server, "seed_newsroom", log=log) as site:
        typed = [
            leg(f"typescript {server} {mode}", typescript.run, toolbox, site, "http", mode)
            for mode in typescript.REVISIONS
        ]
        if server != "gunicorn":
            return typed
        eras = [
            leg(f"inspector {era}", inspector.run, toolbox, site, era) for era in inspector.ERAS
        ]
        logins = [
            leg(f"login {revision}", authorization.run, toolbox, site, revision)
            for revision in REVISIONS
        ]
        stdio = [
            leg(f"inspector stdio {era}", inspector.run, toolbox, site, era, "stdio")
            for era in ("legacy", "modern")
        ]
        local = [
            leg(f"typescript stdio {mode}", typescript.run, toolbox, site, "stdio", mode)
            for mode in typescript.REVISIONS
        ]
        verified = leg("inspector skills", inspector.verify, toolbox, site)
        return [
            *typed,
            verified,
            *eras,
            *stdio,
            *local,
            leg("mcpcheck", mcpcheck.run, toolbox, site),
            *logins,
        ]


def leg(name: str, judge: Callable[..., object], *arguments: object) -> bool:
    """Run one leg and print the outcome."""
    started = time.monotonic()
    try:
        verdict, passed = judge(*arguments), True
    except Failure as failure:
        verdict, passed = failure, False
    mark = "ok  " if passed else "FAIL"
    print(f"{mark} {name:<22} {time.monotonic() - started:4.1f} s  {verdict}", flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main())

"""
Send hostile requests to sites on several servers, and judge each answer: ``make hostile``.

Two sites, the newsroom and one of fault tools, are served by gunicorn, by uvicorn, and by the
direct application on uvicorn and on granian; each is called anonymously and with a token. Prints a
line for each of these, and the findings; exits with 1 if there are any, or if a log has an error
that no fault tool caused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.hostile import more
from tests.hostile.cases import Case
from tests.hostile.connection import Answer, NoAnswerError, exchange
from tests.hostile.drafts import CAPABILITIES, MODERN, Draft, call, meta, params
from tests.hostile.serving import COMMANDS, SITES, Server, Site, prepare, serving
from tests.hostile.themes import THEMES
from tests.hostile.wanted import ECHOED, Sent, Wanted

CALLERS: Final = {"anonymous": "", "token": "token"}
# Log records of failing tools: expected on the site of fault tools.
OF_FAULT_TOOLS: Final = re.compile(
    r"Tool '(raises|araises|boom|typeerr|nan|inf|unser|bytes|surrogate|hugeint|deep|circle|recur|"
    r"exit|none|wrong|big|broken|sleep|asleep)' (failed|returned|could not)"
)


@dataclass
class Count:
    """Outcome of the inputs that were sent to one server by one caller."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)

    def add(self, other: Count) -> None:
        self.passed += other.passed
        self.failed += other.failed

    def note(self, name: str, problems: list[str]) -> None:
        if problems:
            self.failed.append(f"{name}: {'; '.join(problems)}"[:600])
        else:
            self.passed += 1


def inputs(
    site: str, caller: str, server: str = "", only: str = ""
) -> Iterator[tuple[str, Case, str, Wanted]]:
    """Return the cases for a site, a caller and a server, in each of their eras."""
    for theme in THEMES:
        for case in theme.cases:
            asked = ((site, case.sites), (caller, case.callers), (server, case.servers))
            if all(one in of or not (one and of) for one, of in asked):
                for era, wanted in case.inputs():
                    name = f"{theme.name}: {case.title[:90]} ({era})"
                    if re.search(only, name):
                        yield name, case, era, wanted


def send(server: Server, caller: str, case: Case, era: str, wanted: Wanted) -> list[str]:
    """Send one input, then a good call; return the findings on the answers."""
    draft = Draft(era, server.port, server.secrets, server.secrets.get(caller, ""))
    draft.ask_state = partial(ask_state, server)
    for change in case.changes:
        change(draft)
    before = server.ran()
    try:
        answer = exchange(server.port, *draft.parts(), then_close=draft.then_close)
    except NoAnswerError as why:
        problems = [str(why)]
    else:
        sent = Sent(era, *readable(draft), ran=server.ran() - before)
        problems = list(wanted.problems(answer, sent))
    return [*problems, *(f"the next good call: {each}" for each in good_call(server))]


def readable(draft: Draft) -> tuple[str, Any]:
    """Return the method and the id of a message; "" and None if it cannot be read."""
    try:
        message = json.loads(draft.content())
        return str(message.get("method")), message.get("id")
    except (ValueError, AttributeError, RecursionError):
        return "", None


def good_call(server: Server) -> list[str]:
    try:
        answer = exchange(server.port, *Draft(MODERN, server.port, {}).parts())
    except (NoAnswerError, OSError) as why:
        return [str(why)]
    return list(ECHOED.problems(answer, Sent(MODERN, "tools/call", 1, ran=ECHOED.runs)))


def ask_state(server: Server, tool: str, arguments: dict[str, Any], *, use: int = 0) -> str:
    """Ask the server whether a tool may run; ``use`` is how many questions to accept at once."""
    draft = Draft(MODERN, server.port, {}, server.secrets["token"])
    call(tool, **arguments)(draft)
    meta(CAPABILITIES, {"elicitation": {}})(draft)
    state = str(result_of(exchange(server.port, *draft.parts()))["requestState"])
    for _ in range(use):
        yes = {"confirm": {"action": "accept", "content": {"confirm": True}}}
        params(requestState=state, inputResponses=yes)(draft)
        result_of(exchange(server.port, *draft.parts()))
    return state


def result_of(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)["result"]
    return found


def unexpected(server: Server) -> list[str]:
    """Return the logged errors that no fault tool caused."""
    return [
        f"{each['logger']}: {each['message'][:300]}"
        for each in server.errors()
        if not (server.site == "faults" and OF_FAULT_TOOLS.match(each["message"]))
    ]


def judge(server: Server, only: str) -> Count:
    """Send everything to one server; print a line for each caller, and the findings."""
    whole = Count()
    # The first call builds the tools, which on a busy machine takes longer than an answer may.
    any(not good_call(server) for _ in range(8))
    for caller in CALLERS:
        count, begun = Count(), time.monotonic()
        for name, case, era, wanted in inputs(server.site, caller, server.name, only):
            count.note(name, send(server, caller, case, era, wanted))
        took = time.monotonic() - begun
        said = f"{count.passed:>5} ok {len(count.failed):>4} not ok in {took:3.0f} s"
        also = None if only else more.run(server, caller)
        if also is not None:
            said += f"; of another set {also.ok:>3} ok {len(also.others):>3} not ok"
            count.passed += also.ok
            count.failed += [f"of another set: {each}" for each in also.others]
        told = [f"    NOT OK {each}" for each in count.failed]
        print(f"{server.name:<18} {server.site:<9} {caller:<10}{said}", *told, sep="\n", flush=True)
        whole.add(count)
    for each in dict.fromkeys(unexpected(server)):
        whole.note(f"{server.name} {server.site}, an error in the log", [each])
        print(f"    NOT OK {whole.failed[-1]}", flush=True)
    return whole


def main() -> int:
    """Judge all servers; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--server", action="append", choices=list(COMMANDS))
    parser.add_argument("--site", action="append", choices=list(SITES))
    parser.add_argument("--only", default="", help="a pattern for the names of inputs")
    parser.add_argument("--debug", action="store_true", help="with DEBUG = True")
    asked = parser.parse_args()
    distinct = {case for site in SITES for by in CALLERS for case in names(site, by)}
    print(f"{len(distinct)} inputs in {len(THEMES)} themes; {more.found()}", flush=True)
    whole = Count()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        chosen = asked.site or list(SITES)
        sites = list(pool.map(lambda name: prepare(name, Path(folder, name)), chosen))
        legs = [(site, server) for server in asked.server or COMMANDS for site in sites]
        # Two at once, since a client waits for its server.
        for count in pool.map(lambda leg: judged(*leg, Path(folder), asked), legs):
            whole.add(count)
    print(f"{whole.passed} passed, {len(whole.failed)} failed")
    return 1 if whole.failed else 0


def judged(site: Site, name: str, folder: Path, asked: argparse.Namespace) -> Count:
    debug = {"HOSTILE_DEBUG": "1"} if asked.debug else {}
    with serving(site, name, folder / f"{site.name} on {name}", **debug) as server:
        return judge(server, asked.only)


def names(site: str, caller: str) -> set[str]:
    return {name for name, *_ in inputs(site, caller)}


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())

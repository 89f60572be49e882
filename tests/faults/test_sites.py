"""Sites that are set up wrongly, or whose surroundings change while they are served."""

from __future__ import annotations

import json
import re
import time
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests.faults.databases import SQLite
from tests.faults.serving import (
    REQUESTS,
    Answer,
    Site,
    all_good,
    new_name,
    prepare,
    serving,
)
from tests.support.confirming import YES

SERVERS = pytest.mark.parametrize("kind", ["gunicorn", "uvicorn", "direct lane"])


@SERVERS
def test_a_site_that_is_not_migrated_says_so_until_it_is(kind: str, tmp_path: Path) -> None:
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db.sqlite3")}
    with serving(kind, database, "mcp_none", tmp_path, is_good=False) as site:
        for name, ask in REQUESTS.items():
            assert ask(site).is_unavailable, name
        site.token = prepare(database)
        all_good(site)


@SERVERS
@pytest.mark.parametrize("logging", ["full disk", "handler that raises"])
def test_logs_that_cannot_be_written_change_no_answer(
    kind: str, logging: str, sqlite: SQLite, tmp_path: Path
) -> None:
    known = {"FAULTS_LOGGING": logging}
    with serving(kind, sqlite.settings, sqlite.token, tmp_path, **known) as site:
        all_good(site)
        assert site.call("go_wrong", how="raises").is_error
        with sqlite.without("mcp_bridge_toolcallrecord"):
            all_good(site)
        all_good(site)


def same(answer: Answer) -> tuple[int, str]:
    """An answer without what is new in each: its id, references and signed states."""
    body = json.dumps({**answer.body, "id": None})
    body = re.sub(r'"requestState": "[^"]+"', '"requestState": ""', body)
    return answer.status, re.sub(r"(reference|group) \w+", r"\1 X", body)


@pytest.mark.parametrize("kind", ["gunicorn", "direct lane"])
def test_with_debug_a_site_answers_the_same(kind: str, sqlite: SQLite, tmp_path: Path) -> None:
    answers: list[list[tuple[int, str]]] = []
    for debug in ({}, {"FAULTS_DEBUG": "1"}):
        place = tmp_path / f"debug{len(debug)}"
        place.mkdir()
        sqlite.query("DELETE FROM auth_group")
        with serving(kind, sqlite.settings, sqlite.token, place, **debug) as site:
            found = [ask(site) for ask in REQUESTS.values()]
            found += [site.call("go_wrong", how=how) for how in ("raises", "SystemExit", "NaN")]
            found.append(site.call("act", name="x" * 1000))
            with sqlite.without("auth_group"):
                found.append(site.call("act", name=new_name()))
            with sqlite.locked():
                # The registry asks the database again by then, or it would be a matter of time.
                time.sleep(1)
                found.append(site.call("act", name=new_name()))
            answers.append([same(each) for each in found])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", ["uvicorn", "direct lane"])
def test_a_clock_that_jumps_changes_no_answer(kind: str, sqlite: SQLite, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0")
    known = changed_clock(clock)
    with serving(kind, sqlite.settings, sqlite.token, tmp_path, ends_by=SIGKILL, **known) as site:
        for jump in ("+2h", "-2h", "+30s", "+0"):
            clock.write_text(jump)
            all_good(site)
    durations = sqlite.query("SELECT duration_ms FROM mcp_bridge_toolcallrecord")
    assert all(duration is None or 0 <= duration < 60_000 for (duration,) in durations)


def changed_clock(clock: Path) -> dict[str, str]:
    """The environment of a process whose clock goes by a file, and which cannot sleep by itself."""
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


CALL: dict[str, Any] = {"name": "wipe", "arguments": {"name": "all"}}


def test_servers_whose_clocks_differ_take_each_others_questions(
    sqlite: SQLite, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        sites: dict[str, Site] = {}
        for skew in ("+0", "+60s", "-60s", "+2h"):
            place = tmp_path / skew
            place.mkdir()
            (place / "clock").write_text(skew)
            known = changed_clock(place / "clock")
            sites[skew] = stack.enter_context(
                serving("uvicorn", sqlite.settings, sqlite.token, place, ends_by=SIGKILL, **known)
            )

        def agree(asked: Site, answered: Site) -> Answer:
            known = {"token": sqlite.token, "capabilities": {"elicitation": {}}}
            state = asked.post("tools/call", **CALL, **known).result["requestState"]
            yes = {"requestState": state, "inputResponses": YES}
            return answered.post("tools/call", **CALL, **known, **yes)

        for skew in ("+60s", "-60s"):
            assert agree(sites["+0"], sites[skew]).is_good
            assert agree(sites[skew], sites["+0"]).is_good
        # Its age is that of the clock which looks at it.
        late = agree(sites["+0"], sites["+2h"])
        assert late.body["error"]["code"] == -32602
        assert "it has expired" in late.body["error"]["message"]
        all_good(sites["+2h"])


def resident(site: Site) -> int:
    """The memory of the server's one worker, in MiB."""
    (worker,) = site.workers()
    status = Path(f"/proc/{worker}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def test_ten_thousand_tools_are_listed_in_pages(tmp_path: Path) -> None:
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db.sqlite3")}
    token = prepare(database)
    few, many = tmp_path / "few", tmp_path / "many"
    few.mkdir()
    many.mkdir()
    with serving("gunicorn", database, token, few) as site:
        before = resident(site)
    options = {
        "SOURCES": {
            "functions": {
                "BACKEND": "mcp_bridge.sources.functions.FunctionSource",
                "OPTIONS": {"modules": ["tests.faults.tools"]},
            },
            "many": {"BACKEND": "tests.faults.many.ManySource"},
        }
    }
    known = {"FAULTS_OPTIONS": json.dumps(options)}
    with serving("gunicorn", database, token, many, **known) as site:
        names: list[str] = []
        cursor: dict[str, str] = {}
        pages = 0
        while True:
            result = site.post("tools/list", **cursor).result
            names += [tool["name"] for tool in result["tools"]]
            pages += 1
            if "nextCursor" not in result:
                break
            cursor = {"cursor": result["nextCursor"]}
        assert len(names) == len(set(names)) >= 10_000
        assert names == sorted(names)
        assert pages > 1
        assert site.call("tool_09999").text == "9999"
        all_good(site)
        assert resident(site) - before <= 100

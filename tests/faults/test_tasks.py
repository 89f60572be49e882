"""Tasks whose database goes away while a worker runs them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge.protocol.tasks import TASKS
from tests.faults.databases import Database, Fault
from tests.faults.servers import wait_for
from tests.faults.serving import Site, new_name, serving, variables
from tests.support.processes import ROOT

SEEN = {"extensions": {TASKS: {}}}
# Seconds that the tool goes on after its write.
WORK = 3
ON = pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)


@pytest.fixture(scope="module")
def site(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp("site")
    with serving("gunicorn", database.settings, database.token, place) as site:
        yield site


@pytest.fixture
def worker(database: Database, tmp_path: Path) -> Iterator[Path]:
    """A worker that is started again if it ends, as by a process manager; its log."""
    log = tmp_path / "log"
    command = f"{sys.executable} -m django db_worker --queue-name mcp --no-startup-delay"
    script = f"while true; do {command} --interval 0.1; sleep 0.2; done"
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "bash", "-c", script],
            cwd=ROOT,
            env=variables(database.settings),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    yield log
    subprocess.run(["pkill", "-KILL", "--session", str(process.pid)], check=True)
    process.wait(30)


def groups(database: Database, name: str) -> int:
    [(found,)] = database.query(f"SELECT count(*) FROM auth_group WHERE name = '{name}'")
    return int(found)


@ON
@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(Database.down, id="down"),
        pytest.param(Database.killed, id="killed connections"),
        pytest.param(Database.hung, id="hung"),
    ],
)
def test_task_survives_a_database_that_goes_away(
    begin: Fault, database: Database, site: Site, worker: Path
) -> None:
    name, known = new_name(), {"token": site.token, "capabilities": SEEN}
    sent: dict[str, Any] = {"name": "act_and_wait", "arguments": {"name": name, "seconds": WORK}}
    key = site.post("tools/call", **known, **sent).result["taskId"]
    wait_for(lambda: groups(database, name) == 1)
    with begin(database):
        # The tool returns meanwhile, and its end cannot be saved at first.
        time.sleep(WORK + 1)
    task: dict[str, Any] = {}

    def is_over() -> bool:
        task.update(site.post("tasks/get", **known, taskId=key).result)
        return task.get("status") != "working"

    wait_for(is_over)
    assert task["status"] == "completed", (task, worker.read_text())
    assert task["result"]["structuredContent"] == {"result": name}
    assert groups(database, name) == 1

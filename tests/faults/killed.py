"""
Kill a process at each point at which a call of a tool uses the database.

    python -m tests.faults.killed

Prints the points in JSON, each with the traces of its process and the outcome of the next call. A
point is before or after a statement, or a commit. A task is accepted, run and read by one process;
what remains of it is read again after all time limits.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.contrib.auth.models import Group  # noqa: E402
from django.db import connection, connections  # noqa: E402
from django.db.backends.base.base import BaseDatabaseWrapper  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402
from django.utils import timezone  # noqa: E402
from django_tasks_db.models import DBTaskResult  # noqa: E402

from mcp_bridge.models import ToolCallRecord  # noqa: E402
from mcp_bridge.protocol.tasks import TASKS  # noqa: E402
from mcp_bridge.tasks.models import DEAD, McpTask  # noqa: E402
from mcp_bridge.testing import MCPClient  # noqa: E402
from tests.support.confirming import YES  # noqa: E402
from tests.tasks.world import run_queue  # noqa: E402


class Points:
    """Counts the points of a call, and kills the process at one of them (0: at none)."""

    def __init__(self, last: int) -> None:
        self.last, self.passed = last, 0
        self.names: list[str] = []

    def pass_one(self, name: str) -> None:
        self.passed += 1
        self.names.append(name)
        if self.passed == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def statement(self, execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        what = " ".join(sql.split()[:3])
        self.pass_one(f"before {what}")
        result = execute(sql, *args)
        self.pass_one(f"after {what}")
        return result

    def install(self) -> None:
        """Count the process's commits as well, which no wrapper of statements sees."""
        commit = BaseDatabaseWrapper._commit

        def pass_and_commit(wrapper: BaseDatabaseWrapper) -> None:
            self.pass_one("before COMMIT")
            commit(wrapper)
            self.pass_one("after COMMIT")

        BaseDatabaseWrapper._commit = pass_and_commit  # type: ignore[method-assign]


def act(client: MCPClient) -> bool:
    return not client.call_tool("act", {"name": "written"})["isError"]


def confirmed(client: MCPClient) -> bool:
    call = {"name": "confirmed_act", "arguments": {"name": "written"}}
    state = client.post("tools/call", **call)["requestState"]
    result = client.post("tools/call", **call, requestState=state, inputResponses=YES)
    return not result["isError"]


def as_task(client: MCPClient) -> bool:
    key = client.call_tool("act_as_task", {"name": "written"})["taskId"]
    run_queue()
    return client.post("tasks/get", taskId=key)["status"] == "completed"


def recovered() -> str:
    """Return the status of the task that is left, once all time limits are over, or ""."""
    task = McpTask.objects.first()
    if task is None:
        return ""
    past = timezone.now() - timedelta(seconds=DEAD + 1)
    seen = past if task.started_at else None
    McpTask.objects.update(updated_at=past, queued_at=past, seen_at=seen)
    client = new_client()
    for _ in range(2):
        status: str = client.post("tasks/get", taskId=task.pk)["status"]
        run_queue()
    return status


def new_client() -> MCPClient:
    capabilities = {"elicitation": {}, "extensions": {TASKS: {}}}
    return MCPClient(user=get_user_model().objects.get(), capabilities=capabilities)


def call(kind: Callable[[MCPClient], bool], last: int | None = None) -> Any:
    """Call the tool; return whether it has succeeded, or the points that it has passed."""
    client = new_client()
    if last is None:
        return kind(client)
    points = Points(last)
    points.install()
    with connection.execute_wrapper(points.statement):
        assert kind(client)
    return points.names


def in_child(work: Callable[[], Any]) -> Any:
    """Run a function in a child process; return its result, or None if the process was killed."""
    connections.close_all()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.write(writing, json.dumps(work()).encode())
        connections.close_all()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else None


def left() -> dict[str, Any]:
    """Return the traces of the calls, and delete them."""
    records = ToolCallRecord.objects.order_by("pk")
    found = {
        "groups": Group.objects.count(),
        "outcomes": [*records.values_list("outcome", flat=True)],
    }
    for rows in (Group.objects, records, McpTask.objects, DBTaskResult.objects):
        rows.all().delete()
    return found


def main() -> None:
    setup_test_environment()
    found: dict[str, list[dict[str, Any]]] = {}
    for kind in (act, confirmed, as_task):
        # Here, so that no child has to import the modules of a first call; it approves the tools.
        assert call(kind)
        left()
        names = in_child(partial(call, kind, 0))
        left()
        points = found[kind.__name__] = []
        for number, name in enumerate(names, 1):
            survived = in_child(partial(call, kind, number)) is not None
            status = in_child(recovered) if kind is as_task else None
            points.append({"name": name, "survived": survived, "status": status, **left()})
            points[-1]["next"] = {"good": in_child(partial(call, kind)), **left()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()

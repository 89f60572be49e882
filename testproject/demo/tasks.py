"""A worker of the queue, and a client that follows tasks."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection

from mcp_bridge.confirmation.decisions import approve
from mcp_bridge.models import PendingCall
from mcp_bridge.protocol.requests import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcp_bridge.protocol.tasks import TASKS
from testproject.newsroom.models import Article

REVISION = "2026-07-28"
# Seconds, on a busy machine.
PATIENCE = 120


@contextmanager
def worker() -> Iterator[None]:
    """A worker that takes the tasks of the newsroom, in a process of its own."""
    command = [sys.executable, "manage.py", "db_worker", "--queue-name", "mcp"]
    command += ["--interval", "0.2", "--no-startup-delay", "--verbosity", "0"]
    env = {**os.environ, "NEWSROOM_DATABASE": str(settings.DATABASES["default"]["NAME"])}
    process = subprocess.Popen(
        command, cwd=settings.BASE_DIR, env=env, stdout=subprocess.DEVNULL, process_group=0
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Follower:
    """A client of MCP 2026-07-28 that has declared the extension Tasks."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._ids = itertools.count(1)

    def post(self, method: str, **params: Any) -> Any:
        """Return the result of a request."""
        params["_meta"] = {
            PROTOCOL_VERSION: REVISION,
            CLIENT_INFO: {"name": "follower", "version": "1"},
            CLIENT_CAPABILITIES: {"extensions": {TASKS: {}}},
        }
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": REVISION,
            "Mcp-Method": method,
            "Mcp-Name": params.get("taskId") or params["name"],
        }
        with urlopen(Request(self._url, json.dumps(message).encode(), headers)) as response:
            return json.load(response)["result"]

    def begin(self, tool: str, **arguments: Any) -> str:
        """Call a tool, and return the id of its task."""
        key: str = self.post("tools/call", name=tool, arguments=arguments)["taskId"]
        return key

    def until(self, key: str, wanted: Callable[[Any], bool]) -> Any:
        """Return a task once it is as wanted."""
        latest = time.monotonic() + PATIENCE
        while not wanted(task := self.post("tasks/get", taskId=key)):
            if time.monotonic() > latest:
                raise TimeoutError(f"The task is still {task}.")
            time.sleep(0.2)
        return task


def is_over(task: Any) -> bool:
    return task["status"] not in ("working", "input_required")


def copies() -> int:
    """Return how many of 200 copies of the agency have been imported."""
    return Article.objects.filter(title__endswith=" of 200").count()


def settled(count: Callable[[], int]) -> int:
    """Return a number once it does not change any more: a worker looks once a second."""
    before = -1
    while (now := count()) != before:
        before = now
        time.sleep(1.5)
    return now


def first_copy() -> str:
    """Return the slug of one of the copies."""
    return Article.objects.filter(title__endswith=" of 200").earliest("pk").slug


def approve_held() -> None:
    """Approve the call that waits last, as an administrator does."""
    administrator = get_user_model().objects.get(username="admin")
    approve(PendingCall.objects.latest("pk"), administrator)
    connection.close()

"""
``python -m benchmarks.tasks``: what it costs to accept a call as a task, and to look at it.

A call that is accepted is compared with the same call refused for its arguments, and ``tasks/get``
with ``ping``, in turns. On PostgreSQL under ``.ci/services``, otherwise on an SQLite file.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.remote import begin, rounds

CALLS = 40


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "db.sqlite3"
        if url := os.environ.get("MCP_BRIDGE_TEST_DATABASE_URL"):
            import dj_database_url

            begin({}, dj_database_url.parse(url))
        else:
            begin({}, database)
        measure()


def measure() -> None:
    """Print how long the requests take, and how many queries ``tasks/get`` has."""
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection
    from django.test.utils import CaptureQueriesContext, override_settings

    from mcp_bridge.protocol.tasks import TASKS
    from mcp_bridge.tasks import accepting
    from mcp_bridge.testing import MCPClient

    # The benchmark accepts more than one user may have.
    accepting.MOST_OPEN = 10**9  # type: ignore[misc]
    call_command("seed_newsroom", verbosity=0)
    user = get_user_model().objects.get(username="editor")
    with override_settings(ALLOWED_HOSTS=["*"]):
        client = MCPClient(user=user, capabilities={"extensions": {TASKS: {}}})
        legacy = MCPClient(user=user, revision="2025-11-25")
        key = client.call_tool("wire_import", {"copies": 1})["taskId"]

        def call(copies: Any) -> None:
            client.call_tool("wire_import", {"copies": copies})

        took = rounds(
            {
                "refused": lambda: call("x"),
                "accepted": lambda: call(1),
                "ping": lambda: legacy.post("ping"),
                "tasks/get": lambda: client.post("tasks/get", taskId=key),
            },
            CALLS,
        )
        print(f"On {connection.vendor}, medians in ms:")
        medians = {title: statistics.median(each) for title, each in took.items()}
        for title, each in medians.items():
            print(f"| {title} | {each:.2f} |")
        print(f"accepted: {medians['accepted'] - medians['refused']:+.2f} ms")
        counts = []
        for ask in (lambda: legacy.post("ping"), lambda: client.post("tasks/get", taskId=key)):
            with CaptureQueriesContext(connection) as queries:
                ask()
            counts.append(len(queries))
        print(f"queries: ping {counts[0]}, tasks/get {counts[1]}")


if __name__ == "__main__":
    main()

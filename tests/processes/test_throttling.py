"""
Several processes count in one Redis as exactly as one.

Run as a program, this module is one of them: from a common moment it makes a given number of
requests, and prints how many were allowed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROCESSES, TIMES, RATE = 3, 200, "250/day"


@pytest.mark.skipif("MCP_BRIDGE_TEST_CACHE_URL" not in os.environ, reason="make services runs it")
def test_processes_count_exactly() -> None:
    caller, begin = uuid.uuid4().hex, str(time.time() + 3)
    command = [sys.executable, "-m", __name__, caller, begin]
    known = {**os.environ, "DJANGO_SETTINGS_MODULE": "testproject.settings"}
    processes = [
        subprocess.Popen(command, cwd=ROOT, env=known, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    said = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(said) == 250


def main(caller: str, begin: str) -> None:
    import django

    django.setup()
    from django.conf import settings

    from mcp_bridge.access.throttling import ToolRateThrottle
    from mcp_bridge.features import Context, Tool

    settings.MCP_BRIDGE = {"THROTTLE_RATES": {"tools": RATE}}
    user = type("User", (), {"is_authenticated": True, "pk": caller})()
    context: Any = type("Request", (Context,), {})(user=user, request=None, revision=None)
    tool = Tool(
        name="tool",
        description="",
        input_schema={},
        check=dict,
        invoke=print,
        encode=print,  # type: ignore[arg-type]
    )

    time.sleep(max(0, float(begin) - time.time()))
    print(sum(bool(ToolRateThrottle().allow_call(tool, context)) for _ in range(TIMES)))


if __name__ == "__main__":
    main(*sys.argv[1:])

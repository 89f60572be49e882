"""
Several processes count in one Redis, as exactly as one.

Run as a program, this module is one of them: it asks its class as often as it is told, from a
moment that all wait for, and says how often it was allowed.
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
@pytest.mark.parametrize(
    "path",
    ["mcp_bridge.access.throttling.ToolRateThrottle", "rest_framework.throttling.UserRateThrottle"],
)
def test_processes_count_exactly(path: str) -> None:
    caller, begin = uuid.uuid4().hex, str(time.time() + 3)
    command = [sys.executable, "-m", __name__, path, caller, begin]
    known = {**os.environ, "DJANGO_SETTINGS_MODULE": "testproject.settings"}
    processes = [
        subprocess.Popen(command, cwd=ROOT, env=known, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    said = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(said) == 250


def main(path: str, caller: str, begin: str) -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.utils.module_loading import import_string

    from mcp_bridge.access.throttling import ToolRateThrottle, make_throttle
    from mcp_bridge.features.tools import Context, Tool

    settings.MCP_BRIDGE = {"THROTTLE_RATES": {"user": RATE, "tools": RATE}}
    kind: Any = import_string(path)
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

    def is_allowed() -> bool:
        if issubclass(kind, ToolRateThrottle):
            return bool(kind().allow_call(tool, context))
        throttle = make_throttle(kind)
        return throttle.allow_request(context, None)

    time.sleep(max(0, float(begin) - time.time()))
    print(sum(is_allowed() for _ in range(TIMES)))


if __name__ == "__main__":
    main(*sys.argv[1:])

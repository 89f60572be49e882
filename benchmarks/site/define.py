"""Print the result of a complete ``tools/list`` of the bridge, all pages as one."""

from __future__ import annotations

import json
import os

import django


def main() -> None:
    os.environ["BENCHMARK_SITE"] = "bridge"
    django.setup()
    from django.core.management import call_command

    from mcp_bridge.testing import MCPClient

    call_command("migrate", verbosity=0)
    result = {"tools": MCPClient().list_tools(), "resultType": "complete"}
    print(json.dumps({**result, "ttlMs": 300_000, "cacheScope": "private"}))


if __name__ == "__main__":
    main()

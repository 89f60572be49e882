"""
Print the cost of so many tools, as a table in Markdown.

Run by ``manage.py shell`` inside the site. Seconds are those of the CPU. Redis and PostgreSQL are
not in them.
"""

from __future__ import annotations

import json
import sys
from statistics import median
from time import process_time

from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import override_settings

from mcp_bridge.protocol import LATEST
from mcp_bridge.registry.definitions import tokens_of
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.sources.in_process.routes import routes
from mcp_bridge.testing import MCPClient

ROWS: list[tuple[str, str]] = []
PLAN = json.load(sys.stdin)


def timed(function, *arguments):
    started = process_time()
    answer = function(*arguments)
    return answer, process_time() - started


def sizes(snapshot: Snapshot) -> str:
    written = [snapshot.written(tool, LATEST) for tool in snapshot]
    tokens = [tokens_of(each) for each in written]
    return (
        f"{sum(map(len, written)) / 1e6:.1f} MB, {sum(tokens):,} tokens; a tool has "
        f"{median(tokens):,.0f} at the median and {max(tokens):,} at most"
    )


def listings(name: str, path: str | None = None) -> str:
    user = get_user_model()._default_manager.get_by_natural_key(name)
    client = MCPClient(user=user, path=path)
    tools, first = timed(client.list_tools)
    later = median(timed(client.list_tools)[1] for _ in range(5))
    return f"{len(tools):,} tools; {first:.2f} s, then {later:.2f} s"


def main() -> None:
    found, seconds = timed(lambda: list(routes(None)))
    ROWS.append(("import all views", f"{len(found):,} addresses in {seconds:.1f} s"))
    tools, seconds = timed(lambda: registry.discovered)
    ROWS.append(("make all tools", f"{len(tools):,} in {seconds:.1f} s"))
    ROWS.append(("all definitions", sizes(tools)))
    for user, who in PLAN["users"].items():
        ROWS.append((f"`tools/list` by {who}", listings(user)))
    toolset = registry.snapshot.of("inventory")
    ROWS.append(("`inventory`, a toolset", f"{len(toolset)} tools; {sizes(toolset)}"))
    ROWS.append(("its `tools/list` by a superuser", listings("admin", "/mcp/inventory")))
    source = {**settings.MCP_BRIDGE["SOURCES"]["drf"], "OPTIONS": {"expose": "all"}}
    offered = {**settings.MCP_BRIDGE, "SOURCES": {"drf": source}, "TOOLSETS": {}}
    with override_settings(MCP_BRIDGE=offered):
        registry.reload()
        candidates, seconds = timed(lambda: registry.discovered.candidates)
        row = f"{len(candidates):,} in {seconds:.1f} s, none of them made"
        ROWS.append(('list the candidates of `"expose": "all"`', row))
    for title, text in ROWS:
        print(f"| {title} | {text} |")


main()

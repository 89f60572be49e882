"""The official TypeScript client, over HTTP and over stdio, in both eras."""

from __future__ import annotations

import json
import sys
from typing import Any

from runner.sites import Site
from runner.toolbox import HERE, Failure, Toolbox

REVISIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
TOOL = "wire_import"


def run(toolbox: Toolbox, site: Site, way: str, mode: str) -> str:
    """Call a tool that reports progress; return a line on the outcome. Raises Failure."""
    told: dict[str, Any] = {"mode": mode, "name": TOOL, "given": {"copies": 3}}
    if way == "http":
        told |= {"url": site.url, "headers": {"Authorization": f"Bearer {site.token}"}}
    else:
        told |= command(site)
    script = toolbox.packages / "client.mjs"
    script.write_text((HERE / "node" / "client.mjs").read_text())
    ended = toolbox.run("node", script, json.dumps(told), timeout=60)
    if ended.status:
        raise Failure(f"TypeScript, {way}, {mode}: {ended.output[-2000:]}")
    found = json.loads(ended.stdout.splitlines()[-1])
    if found["progress"] != [1, 2, 3] or found["result"].get("isError"):
        raise Failure(f"TypeScript, {way}, {mode}: {json.dumps(found)[:2000]}")
    if found["revision"] not in (None, REVISIONS[mode]):
        raise Failure(f"TypeScript, {way}, {mode}: revision {found['revision']}")
    return f"{found['tools']} tools listed, {TOOL} called, 3 reports of progress"


def command(site: Site) -> dict[str, Any]:
    """Return how a client starts the site as a command."""
    return {
        "command": sys.executable,
        "args": ["-m", "django", "mcp_stdio", "--token-env", "TOKEN"],
        "env": {**site.environment, "TOKEN": site.token},
    }

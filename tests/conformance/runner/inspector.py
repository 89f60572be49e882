"""MCP Inspector's command line, in each of its protocol eras."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from runner.sites import Site
from runner.toolbox import Failure, Finished, Toolbox
from runner.typescript import command

# The facts that each era must agree on with a server that speaks both.
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28", "modern": "2026-07-28"}
TOOL = "articles_list"


def run(toolbox: Toolbox, site: Site, era: str, way: str = "http") -> str:
    """
    Connect, list the tools and call one; return a line on the outcome.

    Raises Failure for an answer that Inspector, or its check of the schemas for strict clients,
    does not accept.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "inspector.json"
        config.write_text(json.dumps(configuration(site, era, way)))
        agreed = ask(toolbox, config, "initialize")["protocolVersion"]
        tools = [tool["name"] for tool in ask(toolbox, config, "tools/list", "--strict")["tools"]]
        if agreed != ERAS[era] or TOOL not in tools:
            raise Failure(f"Inspector, {era}: revision {agreed}, tools {', '.join(tools)}")
        result = ask(toolbox, config, "tools/call", "--tool-name", TOOL)
    if result.get("isError") or not result.get("structuredContent"):
        raise Failure(f"Inspector, {era}: {TOOL} answered {json.dumps(result)[:2000]}")
    return f"revision {agreed}, {len(tools)} tools listed, {TOOL} called"


def verify(toolbox: Toolbox, site: Site) -> str:
    """Have Inspector check each skill and the digests of its files. Raises Failure."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "inspector.json"
        config.write_text(json.dumps(configuration(site, "modern", "http")))
        options = ("--method", "skills/list", "--verify", "--require-digests")
        ended = start(toolbox, config, *options)
    reports = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    if ended.status or not reports:
        raise Failure(f"Inspector, skills: exit status {ended.status}\n{ended.output}")
    return f"{len(reports)} skills verified"


def configuration(site: Site, era: str, way: str) -> dict[str, Any]:
    if way == "stdio":
        return {"mcpServers": {"site": {"type": "stdio", "protocolEra": era, **command(site)}}}
    server = {
        "type": "streamable-http",
        "url": site.url,
        "protocolEra": era,
        "headers": {"Authorization": f"Bearer {site.token}"},
    }
    return {"mcpServers": {"site": server}}


def ask(toolbox: Toolbox, config: Path, method: str, *options: str) -> dict[str, Any]:
    """Have Inspector send one request, and return the result it shows."""
    ended = start(toolbox, config, "--format", "json", "--method", method, *options)
    # Schemas that a strict client may refuse are warnings to it, with the status of success.
    if ended.status or "\nWarning: tool " in ended.output:
        raise Failure(f"Inspector, {method}: exit status {ended.status}\n{ended.output}")
    result: dict[str, Any] = json.loads(ended.stdout)["result"]
    return result


def start(toolbox: Toolbox, config: Path, *options: str) -> Finished:
    """Run Inspector's command line against the site of a configuration."""
    return toolbox.run(
        *(toolbox.package("mcp-inspector"), "--cli", "--config", config, "--server", "site"),
        *("--stored-auth-only", *options),
        # SensitiveFields kept in memory, and a separate HOME: otherwise it looks for a keychain.
        env={"MCP_INSPECTOR_SECRET_STORE": "memory", "HOME": str(config.parent)},
        timeout=60,
    )

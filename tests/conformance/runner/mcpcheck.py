"""mcpcheck: a second opinion, which calls every tool with arguments that its schema forbids."""

from __future__ import annotations

import json
from typing import Any

from runner.sites import Site
from runner.toolbox import Failure, Toolbox

# Above the number of tools, so that none is left out.
MAX_TOOLS = "500"


def run(toolbox: Toolbox, site: Site) -> str:
    """
    Run all checks, those of both eras among them; return a line on how they ended.

    Raises Failure for a check that fails or comes to no conclusion. Warnings are shown.
    """
    ended = toolbox.run(
        *(toolbox.programs / "mcpcheck", site.url, "--probe", "all", "--legacy-probes"),
        *("--max-tools", MAX_TOOLS, "--json"),
        env={"MCPCHECK_TOKEN": site.token},
        timeout=180,
    )
    try:
        report: dict[str, Any] = json.loads(ended.stdout)
    except ValueError as error:
        raise Failure(f"mcpcheck: exit status {ended.status}\n{ended.output}") from error
    (toolbox.results / "mcpcheck.json").write_text(ended.stdout)
    verdict = "\n".join([summary(report), *findings(report)])
    if ended.status or any(check["status"] not in ("pass", "warn") for check in report["checks"]):
        raise Failure(verdict)
    return verdict


def summary(report: dict[str, Any]) -> str:
    """Return the checks by how they ended."""
    ended: dict[str, list[str]] = {}
    for check in report["checks"]:
        ended.setdefault(check["status"], []).append(check["name"])
    return "; ".join(
        f"{len(names)} {status}: {', '.join(names)}" for status, names in ended.items()
    )


def findings(report: dict[str, Any]) -> list[str]:
    """Return the objections of the checks, a line each."""
    return [
        f"  {check['name']}: {found['code']} {found['subject']}: {found['message']}"
        for check in report["checks"]
        for found in (*check["failures"], *check["warnings"])
    ]

"""The official conformance suite, at one revision."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.toolbox import HERE, Failure, Toolbox

# The scenarios of each revision, all of which are green.
SCENARIOS = {"2026-07-28": 40, "2025-11-25": 33}
# The checks of each scenario of an extension, all of which succeed; the suite skips that of 0.
EXTENSIONS: dict[str, dict[str, int]] = {
    "skills": {
        "sep-2640-skills-enumeration": 32,
        "sep-2640-skills-manifest": 6,
        "sep-2640-skills-directory": 7,
    },
    "tasks": {
        "tasks-lifecycle": 9,
        "tasks-capability-negotiation": 5,
        "tasks-wire-fields": 4,
        "tasks-request-state-removal": 3,
        "tasks-mrtr-input": 4,
        "tasks-request-headers": 5,
        "tasks-dispatch-and-envelope": 9,
        "tasks-required-task-error": 3,
        "tasks-mrtr-composition": 2,
        "tasks-status-notifications": 0,
    },
}
MANIFEST = HERE.parent / "requirements.toml"
Checks = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Outcome of the suite at a revision: the checks of each scenario."""

    scenarios: dict[str, Checks]

    @property
    def green(self) -> int:
        """
        Return the scenarios without a failed check, which are those that the suite itself ticks.
        """
        return sum("FAILURE" not in statuses(checks) for checks in self.scenarios.values())

    def objections(self, explained: Container[str]) -> dict[str, str]:
        """
        Return the suite's texts of failed checks and of warnings by ``scenario:check``.

        Warnings that are explained are left out.
        """
        return {
            name: check.get("errorMessage") or check["description"]
            for scenario, checks in self.scenarios.items()
            for check in checks
            if (name := f"{scenario}:{check['id']}")
            if check["status"] == "FAILURE"
            or (check["status"] == "WARNING" and name not in explained)
        }

    def __str__(self) -> str:
        spotless = sum(
            not {"FAILURE", "WARNING"} & statuses(checks).keys()
            for checks in self.scenarios.values()
        )
        total = sum(map(statuses, self.scenarios.values()), Counter())
        return (
            f"{self.green} of {len(self.scenarios)} scenarios green ({spotless} without a "
            f"warning); checks: {total['SUCCESS']} passed, {total['FAILURE']} failed, "
            f"{total['WARNING']} warnings"
        )


def statuses(checks: Checks) -> Counter[str]:
    return Counter(check["status"] for check in checks)


def run(toolbox: Toolbox, url: str, revision: str) -> Verdict:
    """
    Run all scenarios of a revision against a server.

    Raises Failure unless all are green, for another number of them, and for a warning without a
    reason in the requirements' manifest.
    """
    results = toolbox.results / revision
    shutil.rmtree(results, ignore_errors=True)
    ended = toolbox.run(
        *(toolbox.package("conformance"), "server", "--url", url, "--suite", "all"),
        *("--spec-version", revision, "--output-dir", results),
    )
    verdict = read(results, expected=announced(ended.output))
    explained = tomllib.loads(MANIFEST.read_text("utf-8"))["warnings"]
    lines = [f"  {name}: {text}" for name, text in verdict.objections(explained).items()]
    if lines or ended.status or verdict.green != SCENARIOS[revision]:
        text = f"{SCENARIOS[revision]} scenarios are to be green"
        raise Failure("\n".join([f"{verdict}; {text}", *(lines or [ended.output])]))
    return verdict


def extension(toolbox: Toolbox, url: str, name: str) -> str:
    """
    Run the scenarios of an extension; return a line on the outcome.

    Raises Failure for checks that do not succeed, and for another number of them.
    """
    results = toolbox.results / name
    shutil.rmtree(results, ignore_errors=True)
    for scenario, expected in EXTENSIONS[name].items():
        program = toolbox.package("conformance")
        ended = toolbox.run(
            *(program, "server", "--url", url, "--scenario", scenario),
            *("--spec-version", "2026-07-28", "--force", "--output-dir", results),
        )
        (checks,) = read(results, expected=1).scenarios.values()
        shutil.rmtree(results)
        found = statuses(checks)
        if ended.status or found != ({"SUCCESS": expected} if expected else {"SKIPPED": 1}):
            text = f"{scenario}: {dict(found)}; {expected} checks are to succeed"
            raise Failure(f"{text}\n{ended.output}")
    counts = EXTENSIONS[name].values()
    return f"{sum(map(bool, counts))} scenarios of {name}, {sum(counts)} checks passed"


def announced(output: str) -> int:
    """Return how many scenarios the suite announced."""
    found = re.search(r"Running .* \((\d+) scenarios\)", output)
    if found is None:
        raise Failure(f"The conformance suite did not start:\n{output}")
    return int(found[1])


def read(results: Path, *, expected: int) -> Verdict:
    """Read the suite's output, a folder for each scenario."""
    scenarios = {
        re.sub(r"^server-|-\d{4}-\d{2}-\d{2}T.*$", "", file.parent.name): json.loads(
            file.read_text()
        )
        for file in sorted(results.glob("*/checks.json"))
    }
    if len(scenarios) != expected:
        raise Failure(f"{len(scenarios)} of {expected} scenarios left a result in {results}.")
    return Verdict(scenarios=scenarios)

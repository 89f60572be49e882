"""The official conformance suite, at one revision."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.toolbox import HERE, Failure, Toolbox

FLOORS = HERE / "floors.json"
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

    @property
    def objections(self) -> dict[str, str]:
        """
        Return failed checks and warnings by their names in the baseline, each with the suite's
        text.
        """
        return {
            f"{scenario}:{check['id']}": check.get("errorMessage") or check["description"]
            for scenario, checks in self.scenarios.items()
            for check in checks
            if check["status"] in ("FAILURE", "WARNING")
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

    Raises Failure for a failure or warning that the baseline does not list, an entry of the
    baseline that nothing fails by, and a number of green scenarios that is not the floor.
    """
    results = toolbox.results / revision
    baseline = HERE / f"expected-failures.{revision}.yml"
    shutil.rmtree(results, ignore_errors=True)
    ended = toolbox.run(
        *(toolbox.package("conformance"), "server", "--url", url, "--suite", "all"),
        *("--spec-version", revision, "--output-dir", results),
        *("--expected-failures", baseline),
    )
    verdict = read(results, expected=announced(ended.output))
    compare(verdict, baseline)
    if ended.status:
        raise Failure(f"{verdict}; the suite disagrees with that:\n{ended.output}")
    hold(verdict, json.loads(FLOORS.read_text())[revision])
    return verdict


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


def compare(verdict: Verdict, baseline: Path) -> None:
    """
    Require exactly the failures of the baseline.

    The suite compares too, but accepts an entry whose check has ceased to exist.
    """
    listed = set(re.findall(r"^ *- (\S+)", baseline.read_text(), re.MULTILINE))
    found = verdict.objections
    lines = [f"  unexpected  {name}: {found[name]}" for name in sorted(found.keys() - listed)]
    lines += [f"  to remove from {baseline.name}  {name}" for name in sorted(listed - found.keys())]
    if lines:
        raise Failure("\n".join([str(verdict), *lines]))


def hold(verdict: Verdict, floor: int) -> None:
    """Require the recorded number of green scenarios; a higher one must be recorded too."""
    if verdict.green < floor:
        raise Failure(f"{verdict}: fewer green scenarios than the {floor} of {FLOORS.name}.")
    if verdict.green > floor:
        raise Failure(f"{verdict}: so raise the floor in {FLOORS.name} to {verdict.green}.")

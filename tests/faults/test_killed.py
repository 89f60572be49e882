"""A process that is killed at any point of a call: the tool's writes and its record agree."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.faults.databases import Database
from tests.faults.serving import run, variables


@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_writes_of_a_killed_process_agree_with_its_record(database: Database) -> None:
    printed = run("-m", "tests.faults.killed", **variables(database.settings))
    found: dict[str, list[dict[str, Any]]] = json.loads(printed)
    tasks = found.pop("as_task")
    for kind, points in found.items():
        seen = set()
        for point in points:
            assert not point["survived"]
            # A question is on record as well.
            outcomes = [each for each in point["outcomes"] if each != "refused"]
            seen.add((point["groups"], *outcomes))
            after = point["next"]
            assert after["good"] is True, (kind, point)
            assert after["groups"] == 1
        # Before its record; while it ran; and when all was committed at once.
        assert seen == {(0,), (0, "started"), (1, "succeeded")}, (kind, points)
    ends = Counter((point["groups"], point["status"]) for point in tasks)
    # Not accepted; run once, by another worker if need be; and killed around the tool's own write.
    assert ends.keys() == {(0, ""), (1, "completed"), (0, "failed"), (1, "failed")}, tasks
    for point in tasks:
        assert not point["survived"]
        assert point["next"]["good"] is True, point
        assert point["next"]["groups"] == 1
        assert point["outcomes"].count("succeeded") <= point["groups"], point

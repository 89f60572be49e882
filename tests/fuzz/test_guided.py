"""Input that a coverage guide makes, for every reader of foreign input."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from tests.fuzz.guided import MOST
from tests.fuzz.targets import TARGETS

# For all targets together.
SECONDS = int(os.environ.get("FUZZ_SECONDS", "60"))
SEED = os.environ.get("FUZZ_SEED", "1")


@pytest.mark.parametrize("name", TARGETS)
def test_guided_input_is_taken(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    each = max(SECONDS // len(TARGETS), 2)
    command = [sys.executable, "-m", "tests.fuzz.guided", name, str(each), str(tmp_path), SEED]
    # The order of a set is that of the hashes of its texts.
    same = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=each * 2 + 600, env=same)
    crashes = [path.read_bytes() for path in tmp_path.glob("*-*") if path.name[:5] != "slow-"]
    assert (done.returncode, crashes) == (0, []), done.stdout + done.stderr[-5000:]
    ran = re.search(r"Done (\d+) runs", done.stderr)
    covered = re.findall(r" cov: (\d+) ", done.stderr)
    assert ran is not None, done.stderr[-2000:]
    # Without instruments it would not have been guided.
    assert covered
    assert int(covered[-1]) > 5
    slow = {path.name: least(name, path.read_bytes()) for path in tmp_path.glob("slow-*")}
    assert {path: taken for path, taken in slow.items() if taken > MOST} == {}
    record_property(f"{name}: {ran[1]} inputs in {each} s", f"{covered[-1]} edges")


def least(name: str, data: bytes) -> float:
    """Return the least CPU time of three runs, without instruments."""
    found = []
    for _ in range(3):
        before = process_time()
        TARGETS[name].run(data)
        found.append(process_time() - before)
    return min(found)

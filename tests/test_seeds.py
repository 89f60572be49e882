"""The initial inputs of the coverage-guided runs, and those that they have found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import CORPUS, TARGETS, seeds

SEEDS = [each for name in TARGETS for each in seeds(name)]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.parent.name}/{seed.name}")
def test_seed_is_accepted(seed: Path) -> None:
    TARGETS[seed.parent.name].run(seed.read_bytes())


def test_each_seed_folder_belongs_to_a_target() -> None:
    assert {each.name for each in CORPUS.iterdir()} == TARGETS.keys()

"""The inputs with which the coverage-guided runs begin, and those that they have found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import CORPUS, TARGETS, seeds

SEEDS = [each for name in TARGETS for each in seeds(name)]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.parent.name}/{seed.name}")
def test_a_seed_is_taken(seed: Path) -> None:
    TARGETS[seed.parent.name].run(seed.read_bytes())


def test_each_folder_of_seeds_is_that_of_a_target() -> None:
    assert {each.name for each in CORPUS.iterdir()} == TARGETS.keys()

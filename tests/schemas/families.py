"""Generated dataclasses, in families whose members contain themselves and each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

LEAVES: list[Any] = [int, str, bool, float, Literal["a", "b"], int | None, list[str]]
# Ways to contain a class that terminate: each has a value without it.
HELD: list[Callable[[Any], Any]] = [
    lambda kind: kind | None,
    lambda kind: list[kind],
    lambda kind: dict[str, kind],
    lambda kind: tuple[kind, ...],
    lambda kind: kind | int,
    lambda kind: list[kind | None],
    lambda kind: dict[str, list[kind]] | None,
    lambda kind: list[kind] | str,
]


def families(seed: int) -> Iterator[type]:
    """Yield dataclasses endlessly, the same ones for a seed."""
    random = Random(seed)
    while True:
        yield from _family(random)


def _family(random: Random) -> list[type]:
    family = [type(f"Kind{number}", (), {}) for number in range(random.randint(1, 4))]
    for number, kind in enumerate(family):
        hints = [_hint(random, family, number) for _ in range(random.randint(1, 5))]
        kind.__annotations__ = {f"m{index}": hint for index, hint in enumerate(hints)}
        if random.random() < 0.5:
            kind.__annotations__["last"] = kind | None
            kind.last = None  # type: ignore[attr-defined]
        if random.random() < 0.3:
            kind.__annotations__["rest"] = list[family[0]]  # type: ignore[valid-type]
            kind.rest = field(default_factory=list)  # type: ignore[attr-defined]
        dataclass(kind)
    return family


def _hint(random: Random, family: list[type], number: int) -> Any:
    """Return the hint of a member; only a later class is contained without an alternative."""
    if random.random() < 0.5:
        return random.choice(LEAVES)
    after = family[number + 1 :]
    if after and random.random() < 0.3:
        return random.choice(after)
    return random.choice(HELD)(random.choice(family))

"""A case: a title, the changes that make a bad request, and the result that is required."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.hostile.drafts import LEGACY, MODERN, Change
from tests.hostile.wanted import Wanted

BOTH: Final = (MODERN, LEGACY)


@dataclass(frozen=True)
class Case:
    """
    One row of a theme: ``wanted`` by era if the eras differ, else for both of them.

    ``sites``, ``servers`` and ``callers`` restrict who sends it and to which; empty is all.
    """

    title: str
    changes: tuple[Change, ...]
    wanted: Wanted | Mapping[str, Wanted]
    eras: tuple[str, ...] = BOTH
    sites: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()

    def inputs(self) -> Iterator[tuple[str, Wanted]]:
        """Return the eras in which it is sent, with the wanted answer in each."""
        if isinstance(self.wanted, Wanted):
            for era in self.eras:
                yield era, self.wanted
        else:
            yield from self.wanted.items()


@dataclass
class Theme:
    """Cases of one kind, in the order in which they are sent."""

    name: str
    cases: list[Case] = field(default_factory=list)

    def add(
        self,
        wanted: Wanted | Mapping[str, Wanted],
        rows: Mapping[str, Change | tuple[Change, ...]],
        *also: Change,
        eras: tuple[str, ...] = BOTH,
        sites: tuple[str, ...] = (),
        callers: tuple[str, ...] = (),
        servers: tuple[str, ...] = (),
    ) -> None:
        """
        Add a case for each row: its title, and its changes, which follow the changes of all rows.
        """
        for title, changes in rows.items():
            own = changes if isinstance(changes, tuple) else (changes,)
            every = (*also, *own)
            self.cases.append(Case(title, every, wanted, eras, sites, callers, servers))

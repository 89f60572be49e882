"""The candidates of all sources, and the tools made of those that are shown or switched on."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import Final, NamedTuple

from django.core import checks

from mcp_bridge.conf import conf
from mcp_bridge.features import Candidate, Tool
from mcp_bridge.features.secrets import deals_with_secrets
from mcp_bridge.sources.base import NotYet, first_line
from mcp_bridge.sources.secrets import secret_among, secret_member

# Trying again to make what cannot be made yet takes no more than this part of time.
EFFORT: Final = 1 / 20


class NoTool(Exception):
    """Why a candidate can be no tool now, as the beginning of a sentence."""


class Offered(NamedTuple):
    """A candidate, and the name in SOURCES of the source that offers it."""

    candidate: Candidate
    alias: str


class Chosen(NamedTuple):
    """The tools of candidates that are switched on, and messages on those that are none."""

    tools: tuple[Tool, ...] = ()
    messages: tuple[checks.CheckMessage, ...] = ()


class Candidates(Mapping[str, Offered]):
    """
    The candidates by name; ``errors`` are the reasons why some could not be built when last tried.

    A tool is built once, and again after a failure.
    """

    def __init__(self, offered: Mapping[str, Offered], taken: Iterable[str] = ()) -> None:
        # The names of tools of the code, which an administrator may have switched on before.
        self._taken = frozenset(taken)
        self._offered = {name: offered[name] for name in sorted(offered)}
        self.errors: dict[str, str] = {}
        self._built: dict[str, Tool] = {}
        # Taken again by the same thread where a view that is described reads the registry.
        self._building = threading.RLock()
        # The names that were switched on last, what came of them, and when that is tried again.
        self._last: tuple[frozenset[str], Chosen, float] = frozenset(), Chosen(), math.inf

    def __getitem__(self, name: str) -> Offered:
        return self._offered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._offered)

    def __len__(self) -> int:
        return len(self._offered)

    def build(self, name: str) -> Tool:
        """Return the tool of a candidate. Raises NoTool, and KeyError where there is none."""
        offered = self[name]
        if tool := self._built.get(name):
            return tool
        with self._building:
            if name not in self._built:
                try:
                    self._built[name] = _build(*offered)
                except Exception as exception:
                    # Views and types describe themselves with code that may raise anything.
                    self.errors[name] = first_line(exception)
                    raise NoTool(self.errors[name]) from exception
                self.errors.pop(name, None)
            return self._built[name]

    def chosen(self, names: frozenset[str]) -> Chosen:
        """
        Return the tools of the candidates that are switched on, ``names``.

        The same object as before while nothing has changed. What could not be built is tried again.
        """
        known, chosen, again = self._last
        # Mostly the same object. Without the lock, so that nobody waits while others are built.
        if (names is known or names == known) and monotonic() < again:
            return chosen
        with self._building:
            began = monotonic()
            tools, messages = [], []
            for name in sorted(names - self._taken):
                try:
                    tools.append(self.build(name))
                except KeyError:
                    messages.append(_gone(name))
                except NoTool as reason:
                    messages.append(_unbuilt(self[name].candidate, reason))
            found = Chosen(tuple(tools), tuple(messages))
            if found == self._last[1]:
                found = self._last[1]
            wait = max(1, conf.STATE_MAX_AGE, (monotonic() - began) / EFFORT)
            again = monotonic() + wait if self.errors.keys() & names else math.inf
            self._last = names, found, again
            return found


NO_CANDIDATES: Final = Candidates({})


def _build(candidate: Candidate, alias: str) -> Tool:
    tool = candidate.build()
    if tool.name != candidate.name:
        raise ValueError(f"its source makes the tool {tool.name!r} of it")
    for schema in (tool.input_schema, tool.output_schema or {}):
        if secret := secret_member(schema):
            raise ValueError(
                f"it takes or returns a secret, {secret!r}, so that only a mark makes it a tool"
            )
    return replace(tool, source_alias=alias)


def _gone(name: str) -> checks.CheckMessage:
    return checks.Warning(
        f"The candidate {name!r} is switched on, and no source offers it any more: nothing is "
        "served under this name.",
        hint="Delete it in the admin, under Tools, or bring back what it was made of.",
        id="mcp_bridge.W090",
    )


def _unbuilt(candidate: Candidate, reason: NoTool) -> checks.CheckMessage:
    place = f" ({candidate.source})" if candidate.source else ""
    return NotYet(
        f"The candidate {candidate.name!r}{place} is switched on, and not served, since it can be "
        f"no tool now: {reason}.",
        hint="Run manage.py migrate if tables or rows are missing: a process that runs already "
        "tries again by itself. Else change what it is made of, or switch it off in the admin.",
        id="mcp_bridge.W092",
    )


def unread(error: Exception) -> checks.CheckMessage:
    """Return the message of a site whose tables cannot say what is switched on."""
    return NotYet(
        f"The candidates that are switched on cannot be read: {first_line(error)}.",
        hint="Run manage.py migrate: a process that runs already tries again by itself.",
        id="mcp_bridge.W094",
    )


def choose(
    offers: Iterable[Offered], tools: Collection[str]
) -> tuple[Candidates, list[checks.CheckMessage]]:
    """
    Return what may be switched on: without secrets, and under names that nothing else has.

    ``tools`` are the names of the tools of the code. The messages are on names that are taken.
    """
    offers = list(offers)
    # Many candidates have the same members.
    members = frozenset().union(*(each.candidate.members for each in offers))
    secret = {name for name in members if secret_among([name])}
    by_name: dict[str, list[Offered]] = {}
    for offer in offers:
        candidate = offer.candidate
        own = f"{candidate.name} {candidate.function.rpartition('.')[2]}"
        is_secret = deals_with_secrets(own, conf.sensitive_names)
        if not is_secret and secret.isdisjoint(candidate.members):
            by_name.setdefault(candidate.name, []).append(offer)
    messages: list[checks.CheckMessage] = []
    for name, found in by_name.items():
        if len(found) > 1 or name in tools:
            listed = " and ".join(
                candidate.source or candidate.function or alias for candidate, alias in found
            )
            text = f"The candidate {name!r} ({listed}) has the name of a tool, which wins."
            if name not in tools:
                text = f"{len(found)} candidates have the name {name!r}, so none is one: {listed}."
            messages.append(
                checks.Warning(
                    text,
                    hint="Give a prefix in SOURCES, or mark one of them: mcp_tool(name=...).",
                    id="mcp_bridge.W091",
                )
            )
    free = {
        name: found[0] for name, found in by_name.items() if len(found) == 1 and name not in tools
    }
    return Candidates(free, tools), messages

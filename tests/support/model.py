"""A model of a site: the tools that each user sees, and the outcome of each call."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

USERS = ("nobody", "reader", "editor", "chief")
TOOLS = ("open", "plain", "guarded", "wipe")


@dataclass
class Served:
    """A tool, as the code and an administrator have it; ``version`` is None if it is gone."""

    name: str
    version: int | None = 1
    approved: int = 1
    enabled: bool = True
    audience: str = "all"
    asks: bool = False
    is_limited: bool = False

    @property
    def is_served(self) -> bool:
        is_approved = self.name != "wipe" or self.approved == self.version
        return self.version is not None and self.enabled and is_approved

    @property
    def is_public(self) -> bool:
        return self.name == "open" and self.audience == "all"

    @property
    def confirms(self) -> bool:
        return self.asks or self.name == "wipe"

    @property
    def definition(self) -> tuple[Any, ...]:
        return self.version, self.confirms, self.is_public


@dataclass
class State:
    """A question that a client has got, to be answered once."""

    user: str
    tool: str
    definition: tuple[Any, ...]
    text: str = ""
    is_used: bool = False


@dataclass
class Model:
    """The list and the outcome of each call, as the documentation describes them."""

    tools: dict[str, Served] = field(default_factory=lambda: {n: Served(n) for n in TOOLS})
    revoked: set[str] = field(default_factory=set)
    editors_may: bool = True
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    # The approval queue: "waiting", "approved" or "refused" by caller, tool and definition.
    queue: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def listed(self, user: str) -> list[str] | None:
        """Return the names that a user sees, or None for a user who is refused."""
        has_public = any(each.is_public and each.is_served for each in self.tools.values())
        if user in self.revoked or (user == "nobody" and not has_public):
            return None
        return sorted(name for name in self.tools if self.may(user, self.tools[name]))

    def may(self, user: str, tool: Served) -> bool:
        if not tool.is_served or tool.is_public:
            return tool.is_served
        if user == "nobody" or (tool.audience, user) not in [
            *(("all", each) for each in USERS),
            ("editors", "editor"),
        ]:
            return False
        return tool.name != "guarded" or user == "chief" or (user == "editor" and self.editors_may)

    def call(self, user: str, name: str, has_form: bool) -> str:
        tool = self.tools[name]
        if refusal := self._refusal(user, tool):
            return refusal
        key = (user, name, tool.definition)
        if tool.confirms and self.queue.get(key) == "approved":
            del self.queue[key]
            return "ran"
        if self._is_throttled(user, tool):
            return "throttled"
        if tool.confirms and self.queue.get(key) == "refused":
            return "refused"
        if not tool.confirms:
            return "ran"
        return "asks" if has_form and user != "nobody" else self._wait(key)

    def answer(self, state: State, how: str) -> str:
        tool = self.tools[state.tool]
        if refusal := self._refusal(state.user, tool):
            return refusal
        if state.is_used or state.definition != tool.definition:
            return "throttled" if self._is_throttled(state.user, tool) else "invalid"
        state.is_used = True
        key = (state.user, state.tool, state.definition)
        if how == "decline":
            return "declined"
        if self.queue.get(key) == "refused":
            return "refused"
        if how == "cancel" and self.queue.get(key) != "approved":
            return self._wait(key)
        self.queue.pop(key, None)
        return "ran"

    def decide(self, key: tuple[Any, ...], decision: str) -> None:
        _user, name, definition = key
        tool = self.tools[name]
        if decision == "refused" or (tool.is_served and tool.definition == definition):
            self.queue[key] = decision

    def _refusal(self, user: str, tool: Served) -> str | None:
        listed = self.listed(user)
        return "unauthenticated" if listed is None else None if tool.name in listed else "unknown"

    def _is_throttled(self, user: str, tool: Served) -> bool:
        if tool.is_limited:
            self.counts[user, tool.name] += 1
        return tool.is_limited and self.counts[user, tool.name] > 2

    def _wait(self, key: tuple[Any, ...]) -> str:
        if key[0] != "nobody":
            self.queue.setdefault(key, "waiting")
        return "waits"

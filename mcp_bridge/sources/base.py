"""The base class of sources, which say where tools come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from django.core import checks

from mcp_bridge.features import Tool
from mcp_bridge.protocol import JSONObject


class NotYet(checks.Warning):
    """A message on a tool that cannot be made now, and may be later: the sources are read again."""


class Source(ABC):
    """
    A place tools come from: subclass it and name the subclass in SOURCES.

    ``alias`` is the key in SOURCES and ``options`` its "OPTIONS". ``tools()`` returns the tools and
    adds to ``messages`` why it left others out.
    """

    def __init__(self, alias: str, options: JSONObject) -> None:
        self.alias = alias
        self.options = options
        self.messages: list[checks.CheckMessage] = []

    @abstractmethod
    def tools(self) -> Sequence[Tool]:
        """Return the tools, in any order. Must not raise for a broken tool, but leave it out."""

    def check(self) -> Sequence[checks.CheckMessage]:
        """Return the messages of ``tools()`` for Django's system check framework."""
        self.messages = []
        self.tools()
        return self.messages


def first_line(text: Exception | str) -> str:
    """Return the first line of a text without its full stop; of an empty one its class's name."""
    return (str(text).splitlines() or [type(text).__name__])[0].rstrip(".")

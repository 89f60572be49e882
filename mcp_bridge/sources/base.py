"""The base class of sources, which say where tools come from."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from traceback import extract_tb
from typing import Final

from django.conf import settings
from django.core import checks

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.protocol import JSONObject

# The names that the large clients accept; a dot only where the site asked for dotted names.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


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

    def no_tools(self) -> tuple[str, str] | None:
        """Return why ``tools()`` has found none, and what to do; None where that is no finding."""
        return None

    def takes_name(self, name: str, where: str) -> bool:
        """Return whether clients take a name for a tool; else ``messages`` says where it stands."""
        if _NAME.fullmatch(name) and ("." not in name or conf.TOOL_NAME_STYLE == "dotted"):
            return True
        self.messages.append(
            checks.Error(
                f"{name!r} ({where}) is no name for a tool, so it is not served.",
                hint="Clients accept 1 to 64 of the characters A-Z a-z 0-9 _ and -: give "
                "mcp_tool(name=...), or the name that the source has for that.",
                id="mcp_bridge.E005",
            )
        )
        return False

    def check_description(self, description: object, where: str) -> None:
        """Add a message for a tool of which a model reads nothing but its name."""
        if not str(description).strip():
            self.messages.append(
                checks.Warning(
                    f"{where} has no description.",
                    hint="Write a docstring that tells a model what the tool does and when to use "
                    "it, or give mcp_tool(description=...).",
                    id="mcp_bridge.W002",
                )
            )

    def check(self) -> Sequence[checks.CheckMessage]:
        """Return the messages of ``tools()`` for Django's system check framework."""
        self.messages = []
        if not self.tools():
            self.messages += self.check_no_tools()
        return self.messages

    def check_no_tools(self) -> Sequence[checks.CheckMessage]:
        """Return the message of a source that has found no tools and said nothing, if any."""
        finding = None if self.messages else self.no_tools()
        if finding is None:
            return []
        why, hint = finding
        default = "" if "SOURCES" in getattr(settings, "MCP_BRIDGE", {}) else " (the default)"
        return [
            checks.Warning(
                f"MCP_BRIDGE['SOURCES'][{self.alias!r}]{default} has no tools: {why}.",
                hint=hint,
                id="mcp_bridge.W012",
            )
        ]


def not_yet(where: str, exception: Exception) -> NotYet:
    """Return the message of a tool whose description reads from the database what is not there."""
    return NotYet(
        f"{where} is not served yet, since its types read from the database: "
        f"{first_line(exception)}.",
        hint="Run manage.py migrate and add the rows that are missing: a process that runs already "
        "tries again by itself.",
        id="mcp_bridge.W019",
    )


def first_line(text: Exception | str) -> str:
    """Return the first line of a text without its full stop; of an empty one its class's name."""
    return (str(text).splitlines() or [type(text).__name__])[0].rstrip(".")


def mend_import(exception: Exception) -> str | None:
    """Return what to do about a module that raised when it was imported; None where none did."""
    # The modules that were being imported, of which the last one raised.
    frames = [each for each in extract_tb(exception.__traceback__) if each.name == "<module>"]
    if not frames:
        return None
    return f"Mend {frames[-1].filename}:{frames[-1].lineno}, which raises when it is imported."

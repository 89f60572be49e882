"""The base class of sources, which say where tools come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from sysconfig import get_path
from traceback import extract_tb
from typing import Any, ClassVar, Final

from django.core import checks

import mcp_bridge
from mcp_bridge.conf import conf
from mcp_bridge.features import Candidate, Tool
from mcp_bridge.protocol import JSONObject

# The directories of installed packages, by pip and by Debian.
PACKAGES: Final = frozenset({"site-packages", "dist-packages"})


class NotYet(checks.Warning):
    """A message on a tool that cannot be made now, and may be later: the sources are read again."""


class Source(ABC):
    """
    A place tools come from: subclass it and name the subclass in SOURCES.

    ``alias`` is the key in SOURCES and ``options`` its "OPTIONS". ``tools()`` returns the tools and
    adds to ``messages`` why it left others out. ``known_options`` are the options that there may
    be, each with the type of its value and the words for it; None takes any. Raises TypeError for
    others. ``is_outside`` is true if tools are described outside the site's code: a collision of
    their names is a warning, which does not stop commands.
    """

    is_outside: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, tuple[Any, str]] | None] = None

    def __init__(self, alias: str, options: JSONObject) -> None:
        self.alias = alias
        self.options = options
        self.messages: list[checks.CheckMessage] = []
        known = options if self.known_options is None else self.known_options
        for name in options.keys() - known.keys():
            raise TypeError(f"it has no option {name!r}, only {', '.join(map(repr, known))}")
        for name, (kind, words) in (self.known_options or {}).items():
            value = options.get(name)
            is_wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
            if name in options and is_wrong:
                raise TypeError(f"its option {name!r} is not {words}")
        if "expose" in known:
            # Raises for a wrong value.
            _ = self.exposes_all

    @abstractmethod
    def tools(self) -> Sequence[Tool]:
        """Return the tools, in any order. Must not raise for a broken tool, but leave it out."""

    def candidates(self) -> Sequence[Candidate]:
        """
        Return the operations that nobody has marked and an administrator may switch on, if any.

        Called after ``tools()``, once for each reading of the sources, and by every process: it
        makes Candidates, and builds none of them. Only for a source that ``exposes_all``.
        """
        return ()

    @property
    def exposes_all(self) -> bool:
        """Whether what is not marked is a candidate: OPTIONS["expose"], or the setting EXPOSE."""
        given = self.options.get("expose", conf.EXPOSE)
        if given not in ("marked", "all"):
            raise TypeError(f"its option 'expose' is {given!r}, not 'marked' or 'all'")
        return bool(given == "all")

    def no_tools(self) -> tuple[str, str] | None:
        """Return why ``tools()`` has found none, and what to do; None where that is no finding."""
        return None

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
        default = "" if self.alias in conf.SOURCES else " (the default)"
        return [
            checks.Warning(
                f"MCP_BRIDGE['SOURCES'][{self.alias!r}]{default} has no tools: {why}.",
                hint=hint,
                id="mcp_bridge.W012",
            )
        ]


def first_line(text: Exception | str) -> str:
    """Return the first line of a text without its full stop; of an empty one its class's name."""
    return (str(text).splitlines() or [type(text).__name__])[0].rstrip(".")


def own_line(exception: Exception, within: str = "") -> str | None:
    """
    Return "path:line" of the site's own code that is nearest to an error; None if there is none.

    ``within`` is the name that the code must have. The standard library, installed packages and
    this package are skipped.
    """
    lines = [
        (each.filename, each.lineno)
        for each in extract_tb(exception.__traceback__)
        if within in ("", each.name)
    ]
    if isinstance(exception, SyntaxError) and exception.filename:
        lines.append((exception.filename, exception.lineno))
    own = [f"{path}:{line}" for path, line in lines if _is_own(Path(path))]
    return own[-1] if own else None


def _is_own(path: Path) -> bool:
    libraries = get_path("stdlib"), str(Path(mcp_bridge.__file__).parent)
    is_library = any(path.is_relative_to(each) for each in libraries)
    return path.is_file() and not is_library and PACKAGES.isdisjoint(path.parts)


def mend_import(exception: Exception) -> str | None:
    """Return the remedy for a module of the site that raised at import; None if none did."""
    line = own_line(exception, within="<module>")
    return line and f"Mend {line}, which raises when it is imported."

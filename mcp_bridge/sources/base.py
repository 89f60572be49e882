"""Base classes of sources, which find tools and report problems with them as check messages."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path
from sysconfig import get_path
from traceback import extract_tb
from typing import Any, ClassVar, Final, Generic, TypeVar

from django.core import checks

import mcp_bridge
from mcp_bridge.conf import conf
from mcp_bridge.features import Feature, Tool, ToolOptions
from mcp_bridge.features.marks import options_in
from mcp_bridge.protocol import JSONObject
from mcp_bridge.schemas.hints import TRANSIENT
from mcp_bridge.sources.secrets import secret_among

# The directories of installed packages (pip, Debian).
PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
# The names that the large clients accept.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")

# The options of an operation without a mark.
NO_OPTIONS: Final = ToolOptions()

Operation = TypeVar("Operation")


class NotYet(checks.Warning):
    """A warning about a tool that cannot be built yet; its source is read again."""


class IllegalName(ValueError):
    """A name that clients refuse for a tool."""

    hint = (
        "Clients accept 1 to 64 of the characters A-Z a-z 0-9 _ and -: set mcp_tool(name=...), or "
        "rename the operation in its source."
    )


class LeftOut(Exception):
    """Raised if an operation is deliberately not a tool; the text is the reason."""


class Source(ABC):
    """
    The base class of sources of tools: subclass it and name the subclass in SOURCES.

    ``alias`` is the key in SOURCES and ``options`` its "OPTIONS". ``tools()`` returns the tools and
    adds the reasons for omitting others to ``messages``. ``known_options`` are the allowed options,
    each with its type and a description of that; None allows any. Raises TypeError for others.
    ``is_outside`` is true if tools are described outside the site's code: a collision of their
    names is a warning, which does not stop commands.
    """

    is_outside: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, tuple[Any, str]] | None] = None

    def __init__(self, alias: str, options: JSONObject) -> None:
        self.alias = alias
        self.options = options
        self.messages: list[checks.CheckMessage] = []
        known = self.known_options or {}
        for name, value in options.items() if self.known_options is not None else ():
            if name not in known:
                raise TypeError(f"unknown option {name!r}; known are {', '.join(map(repr, known))}")
            kind, words = known[name]
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                raise TypeError(f"its option {name!r} is not {words}")
        if "expose" in (options if self.known_options is None else known):
            # Raises for a wrong value.
            _ = self.exposes_all

    @abstractmethod
    def tools(self) -> Sequence[Feature]:
        """
        Return the tools, in any order. Must not raise for a broken tool, but omit it.

        Includes unmarked tools if it ``exposes_all``: ``Tool(is_marked=False)`` is disabled until
        an administrator enables it, and needs only a name and a ``build``.
        """

    def version(self, generations: Mapping[int, str]) -> Hashable:
        """
        Return a value that changes with the tools, so that ``tools()`` is called again, or None.

        ``generations`` are the texts in the rows of Generation, which ``Generation.renew()``
        changes. This must not run further queries.
        """
        return None

    @property
    def exposes_all(self) -> bool:
        """Whether unmarked operations may be enabled: OPTIONS["expose"], or EXPOSE."""
        given = self.options.get("expose", conf.EXPOSE)
        if given not in ("marked", "all"):
            raise TypeError(f"its option 'expose' is {given!r}, not 'marked' or 'all'")
        return bool(given == "all")

    def no_tools(self) -> tuple[str, str] | None:
        """Return why ``tools()`` found none, and a hint; None if that is not worth a message."""
        return None

    def check_no_tools(self) -> Sequence[checks.CheckMessage]:
        """Return the message for a source without tools that reported nothing else, if any."""
        if self.messages or (finding := self.no_tools()) is None:
            return []
        why, hint = finding
        default = "" if self.alias in conf.SOURCES else " (the default)"
        text = f"{self.place}{default} found no tools: {why}."
        return [checks.Warning(text, hint=hint, id="mcp_bridge.W012")]

    def report(self, id: str, text: str, hint: str, warning: Any = checks.Warning) -> None:
        """Add a message of this package: an error if ``id`` begins with E, else a warning."""
        kind = checks.Error if id.startswith("E") else warning
        self.messages.append(kind(text, hint=hint, id=f"mcp_bridge.{id}"))

    @property
    def place(self) -> str:
        """The entry of SOURCES, for messages."""
        return f"MCP_BRIDGE['SOURCES'][{self.alias!r}]"


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """
    A line of a setting that chooses operations: a name, or a pattern with ``*`` for any text.

    ``options`` are those of the tools, ``more`` those for the source itself. ``used`` are the names
    of the operations that it matches, ``left_out`` those of guarded operations, which only their
    full names choose. ``seen`` is free for use by the source. ``match`` matches a whole name.
    """

    pattern: str
    match: Callable[[str], Any]
    options: ToolOptions
    more: Mapping[str, Any]
    used: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    def means(self, names: Sequence[str], *, guarded: bool = False) -> bool:
        """Return whether it chooses the operation of these names; ``*`` skips ``guarded`` ones."""
        if not any(map(self.match, names)):
            return False
        is_meant = self.pattern in names or not guarded
        (self.used if is_meant else self.left_out).add(names[0])
        return is_meant


class OperationSource(Source, Generic[Operation]):
    """
    A source that makes one tool of each operation: a procedure, a view, a method of a service.

    An exception of an operation becomes a message and does not affect other tools. ``not_served``
    has the message's ids, as an error of the site and as a warning, and its hint. ``unused`` and
    ``kept_out`` are the id and hint of messages on lines of the option ``lines_in`` that match
    nothing, or skip guarded operations. ``own`` are the keys of a line for the source itself.
    """

    lines_in: ClassVar[str] = ""
    own: ClassVar[Collection[str]] = ()
    not_served: ClassVar[tuple[str, str, str]]
    unused: ClassVar[tuple[str, str]] = "", ""
    kept_out: ClassVar[tuple[str, str] | None] = None

    def __init__(self, alias: str, options: JSONObject) -> None:
        super().__init__(alias, options)
        given = options.get(self.lines_in, ())
        given = given if isinstance(given, Mapping) else dict.fromkeys(given, {})
        self.lines = []
        for pattern, each in given.items():
            where = f"its {self.lines_in} {pattern!r}"
            if not (isinstance(pattern, str) and isinstance(each, Mapping)):
                raise TypeError(f"{where} must be a string with a mapping of options")
            more = {name: each[name] for name in each if name in self.own}
            match = re.compile(rf"{re.escape(pattern)}\Z|{translate(pattern)}").match
            rest = options_in(where, {name: each[name] for name in each if name not in self.own})
            self.lines.append(Line(pattern=pattern, match=match, options=rest, more=more))

    @abstractmethod
    def found(self) -> Iterable[Operation]:
        """Return all operations, marked or not."""

    @abstractmethod
    def name_of(self, operation: Operation, options: ToolOptions) -> str:
        """Return the name of an operation's tool."""

    @abstractmethod
    def options_of(self, operation: Operation) -> ToolOptions | None:
        """
        Return the options of an operation's mark and lines, or None without any.

        Raises LeftOut if it cannot be a tool, and ValueError if its options conflict.
        """

    @abstractmethod
    def build(self, operation: Operation, options: ToolOptions, name: str) -> Tool:
        """Return the tool of an operation. Raises LeftOut, or any exception if it fails."""

    def unmarked(self, operation: Operation) -> Tool:
        """Return the tool of an unmarked operation, as ``offer`` does."""
        raise LeftOut("it is not marked")

    def report_all(self) -> None:
        """Add messages about the tools as a whole, after they are built."""
        where = f"{self.place}['OPTIONS'][{self.lines_in!r}]"
        for line in self.lines:
            if not (line.used or line.left_out):
                id, hint = self.unused
                self.report(id, f"{where}: nothing matches the name {line.pattern!r}.", hint)
            left_out = line.left_out.difference(*(each.used for each in self.lines))
            if left_out and self.kept_out is not None:
                id, hint = self.kept_out
                text = (
                    f"{where}: {line.pattern!r} skips {len(left_out)} operations that handle "
                    f"credentials, such as {min(left_out)}."
                )
                self.report(id, text, hint)

    def function_of(self, operation: Operation) -> Any:
        """Return the function or class that implements an operation, if it is in this process."""
        return None

    def where(self, operation: Operation) -> str:
        """Return the name and location of an operation, for messages."""
        return str(operation)

    def tools(self) -> Sequence[Feature]:
        found = list(self.found())
        made = [feature for each in found for feature in self.features_of(each)]
        if found:
            # Without this check, every line would be reported if nothing could be read.
            self.report_all()
        return made

    def features_of(self, operation: Operation) -> Sequence[Feature]:
        """Return the tool of an operation, or what else its mark asks for; or a message."""
        try:
            tool = self.make(operation)
            made: Sequence[Feature] = [tool]
            if type(tool.options) is not ToolOptions:
                # Imported here, since many sites have tools alone.
                from mcp_bridge.sources.kinds import features_of

                made = features_of(tool)
        except LeftOut:
            return []
        except tuple(TRANSIENT) as exception:
            self.report(
                "W019",
                f"{self.where(operation)} is not served yet, since its types query the database: "
                f"{first_line(exception)}.",
                "Run manage.py migrate and add the missing rows; running processes retry "
                "automatically.",
                NotYet,
            )
            return []
        except Exception as exception:
            # The site's code runs here and may raise any exception.
            module = getattr(self.function_of(operation), "__module__", "")
            self.withhold(self.where(operation), exception, module)
            return []
        if tool.is_marked and not self.is_outside and not str(tool.description).strip():
            self.report(
                "W002",
                f"{self.where(operation)} lacks a description.",
                "Write a docstring that explains what it does and when to use it, or set "
                "description=... in its mark.",
            )
        return made

    def make(self, operation: Operation) -> Tool:
        """Return the tool of an operation. Raises LeftOut, or any exception if it fails."""
        try:
            options = self.options_of(operation)
        except ValueError as why:
            raise ValueError(f"its marks conflict: {first_line(why)}") from why
        if not is_exposed(self.function_of(operation), options or NO_OPTIONS):
            raise LeftOut("it is excluded by its options or its author")
        if options is not None:
            name = self.name_of(operation, options)
            if not _NAME.fullmatch(name) or ("." in name and conf.TOOL_NAME_STYLE != "dotted"):
                raise IllegalName(f"its name {name!r} is refused by clients")
            return self.build(operation, options, name)
        if not self.exposes_all:
            raise LeftOut("it is not marked")
        try:
            return self.unmarked(operation)
        except LeftOut:
            raise
        except Exception as exception:
            text = f"{self.where(operation)} is not a candidate: {first_line(exception)}."
            hint = "Fix the error, or ignore it: the other candidates are not affected."
            self.report("W076", text, hint)
            raise LeftOut from exception

    def offer(self, build: Callable[[], Tool], members: Iterable[str], **known: Any) -> Tool:
        """
        Return an unmarked tool with everything that is known without building it.

        ``members`` are the names of arguments, and of members of the arguments and the result.
        Raises LeftOut if one of them is the name of a secret.
        """
        if secret := secret_among(members):
            raise LeftOut(f"it takes or returns a secret, {secret!r}")
        return Tool(is_marked=False, source_alias=self.alias, build=build, **known)

    def chosen_by(
        self, mark: ToolOptions | None, names: Sequence[str], *, guarded: bool = False
    ) -> ToolOptions | None:
        """Return a mark's options merged over those of the matching lines, if any."""
        for line in reversed([each for each in self.lines if each.means(names, guarded=guarded)]):
            mark = line.options if mark is None else mark.under(line.options)
        return mark

    def withhold(self, where: str, reason: Exception | str, module: str = "") -> None:
        """Report an operation that cannot be a tool: as a warning if it belongs to a package."""
        error, warning, hint = self.not_served
        error = "E005" if isinstance(reason, IllegalName) else error
        text = f"{where} is marked, but not served: {first_line(reason)}."
        is_foreign = self.is_outside or is_installed(module)
        self.report(warning if is_foreign else error, text, getattr(reason, "hint", hint))

    def note(self, where: str, sentences: Iterable[str]) -> None:
        """Report the parts of a tool that its schemas do not describe."""
        for sentence in sentences:
            self.report(
                "W037",
                f"{where}: {sentence.rstrip('.')}.",
                "The tool works without it. Describe it with @extend_schema or "
                "@extend_schema_field, or set output_schema on the tool.",
            )


def is_exposed(function: object, options: ToolOptions) -> bool:
    """Return whether a marked function is exposed: its options or author may exclude it."""
    return options.exposed and not options.deprecated and not hasattr(function, "__deprecated__")


def is_installed(module: str) -> bool:
    """Return whether a module, or its nearest loaded parent package, is an installed package."""
    while module:
        file = getattr(sys.modules.get(module), "__file__", None)
        if file:
            return not PACKAGES.isdisjoint(Path(file).parts)
        module = module.rpartition(".")[0]
    return False


def first_line(text: Exception | str) -> str:
    """Return the first line of a text without its full stop, or the class name if it is empty."""
    return (str(text).splitlines() or [type(text).__name__])[0].rstrip(".")


def own_line(exception: Exception, within: str = "") -> str | None:
    """Return "path:line" of the site's innermost code, named ``within``, in a traceback."""
    frames = extract_tb(exception.__traceback__)
    lines = [(each.filename, each.lineno) for each in frames if within in ("", each.name)]
    if isinstance(exception, SyntaxError) and exception.filename:
        lines.append((exception.filename, exception.lineno))
    libraries = get_path("stdlib"), str(Path(mcp_bridge.__file__).parent)
    for file, line in reversed(lines):
        path = Path(file)
        is_library = any(path.is_relative_to(each) for each in libraries)
        if path.is_file() and not is_library and PACKAGES.isdisjoint(path.parts):
            return f"{path}:{line}"
    return None


def mend_import(exception: Exception) -> str | None:
    """Return a hint for a module of the site that raised on import; None if none did."""
    line = own_line(exception, within="<module>")
    return line and f"Fix {line}, which raises on import."

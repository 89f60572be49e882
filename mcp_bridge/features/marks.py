"""
The mark that makes a function a tool.

A mark is data: ``mcp_tool`` writes its options on the function and returns that very function. A
source (``mcp_bridge.sources``) finds marked functions later and makes a ``Tool`` of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

from mcp_bridge.features.rates import parse_rate

F = TypeVar("F", bound=Callable[..., Any])

MARK: Final = "__mcp_tool__"
TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """
    What ``@mcp_tool`` was told.

    ``name`` (default: the procedure's), ``title`` and ``description`` (default: the docstring) are
    what the model reads; the last two may be lazy translations. ``read_only``, ``destructive``,
    ``idempotent`` and ``open_world`` are MCP's hints and are sent as given. ``permissions`` names
    Django permissions ("app.codename"), all of which the caller needs; ``scopes`` are OAuth scopes,
    which are not enforced yet: a tool that has some is not served (mcp_bridge.E009);
    ``public=True`` opens the tool to anonymous callers. ``exposed=False`` and ``deprecated=True``
    keep it from being a tool. ``input_schema`` and ``output_schema`` replace the schemas made from
    the type hints. ``icons`` and ``meta`` (``_meta``) are sent as given; ``throttle`` is
    how often a caller may call it ("20/min"), or a name in THROTTLE_RATES; ``confirm`` is kept with
    the tool. See MCP, "Tools", and the schema's ``Tool``.
    """

    name: str | None = None
    title: Any = None
    description: Any = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    permissions: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    public: bool = False
    confirm: bool = False
    exposed: bool = True
    deprecated: bool = False
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    icons: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] | None = None
    throttle: str | None = None

    def __post_init__(self) -> None:
        _check_options(self)

    @property
    def annotations(self) -> dict[str, bool]:
        """The hints that were given, in the names of MCP's ToolAnnotations."""
        hints = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: hint for name, hint in hints.items() if hint is not None}


_FLAGS = ("public", "confirm", "exposed", "deprecated")
_HINTS = ("read_only", "destructive", "idempotent", "open_world")
_OBJECTS = ("input_schema", "output_schema", "meta")


def _check_options(options: ToolOptions) -> None:
    for name in _FLAGS:
        _expect(isinstance(getattr(options, name), bool), name, "True or False", options)
    for name in _HINTS:
        _expect(isinstance(getattr(options, name), bool | None), name, "True or False", options)
    for name in _OBJECTS:
        _expect(isinstance(getattr(options, name), Mapping | None), name, "a mapping", options)
    for name in ("permissions", "scopes"):
        strings = getattr(options, name)
        _expect(all(isinstance(each, str) and each for each in strings), name, "strings", options)
    for name in ("name", "throttle"):
        _expect(isinstance(getattr(options, name), str | None), name, "a string", options)
    _expect(all(isinstance(icon, Mapping) for icon in options.icons), "icons", "mappings", options)
    # Titles and descriptions may be lazy translations, which only str() turns into text.
    for name in ("title", "description"):
        text = getattr(options, name)
        _expect(text is None or _is_text(text), name, "a string or a lazy translation", options)
    if options.name is not None and not TOOL_NAME.fullmatch(options.name):
        raise ValueError(
            f"mcp_tool(name={options.name!r}): a tool's name has 1 to 128 of the characters "
            "A-Z a-z 0-9 _ - and '.'."
        )
    if options.public and (options.permissions or options.scopes):
        raise ValueError(
            "mcp_tool(public=True) opens the tool to everybody, so it cannot ask for permissions "
            "or scopes as well: drop one of them."
        )
    if options.throttle and "/" in options.throttle:
        try:
            parse_rate(options.throttle)
        except ValueError as exception:
            raise ValueError(f"mcp_tool(throttle=…) {exception}.") from None
    if options.read_only and options.destructive:
        raise ValueError("mcp_tool(): a read_only tool cannot be destructive: drop one of them.")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or hasattr(value, "_proxy____cast")


def _expect(fulfilled: bool, name: str, wanted: str, options: ToolOptions) -> None:
    if not fulfilled:
        given = getattr(options, name)
        raise TypeError(f"mcp_tool({name}={given!r}): {name} must be {wanted}.")


def _as_tuple(name: str, value: Any) -> tuple[Any, ...]:
    """Permissions, scopes and icons may be given as one or as several."""
    if isinstance(value, str | Mapping):
        return (value,)
    if isinstance(value, Iterable):
        return tuple(value)
    raise TypeError(f"mcp_tool({name}={value!r}): {name} must be one value or a list of them.")


@overload
def mcp_tool(function: F, /) -> F: ...


@overload
def mcp_tool(
    *,
    name: str | None = None,
    title: Any = None,
    description: Any = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    permissions: str | Iterable[str] = (),
    scopes: str | Iterable[str] = (),
    public: bool = False,
    confirm: bool = False,
    exposed: bool = True,
    deprecated: bool = False,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    icons: Mapping[str, Any] | Iterable[Mapping[str, Any]] = (),
    meta: Mapping[str, Any] | None = None,
    throttle: str | None = None,
) -> Callable[[F], F]: ...


def mcp_tool(function: Any = None, /, **options: Any) -> Any:
    """
    Mark a function as an MCP tool; returns the very function it was given.

    Used bare (``@mcp_tool``) or called (``@mcp_tool(read_only=True)``), above or below the
    decorator that registers the function as a procedure, on ``def`` and ``async def``. The options
    are those of ``ToolOptions``; ``permissions``, ``scopes`` and ``icons`` may be one or several.

    Raises TypeError for an unknown keyword or a value of a wrong type, and ValueError for an
    illegal name or options that contradict each other, where the mark stands.
    """
    if function is not None:
        return _mark(function, ToolOptions())
    checked = _options(options)
    return lambda marked: _mark(marked, checked)


def _options(given: dict[str, Any]) -> ToolOptions:
    known = ToolOptions.__dataclass_fields__
    for name in given:
        if name not in known:
            raise TypeError(
                f"mcp_tool() has no option {name!r}. Its options are: {', '.join(known)}."
            )
    for name in ("permissions", "scopes", "icons"):
        if name in given:
            given[name] = _as_tuple(name, given[name])
    return ToolOptions(**given)


def _mark(function: F, options: ToolOptions) -> F:
    if not callable(function):
        raise TypeError(f"mcp_tool() marks functions, and {function!r} is not one.")
    setattr(function, MARK, options)
    return function


def options_of(function: Any) -> ToolOptions | None:
    """Return the options of a marked function, or None where there is no mark."""
    options = getattr(function, MARK, None)
    return options if isinstance(options, ToolOptions) else None

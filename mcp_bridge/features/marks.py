"""
The mark that makes a function a tool.

A mark is data: ``mcp_tool`` writes its options on the function and returns that very function. A
source (``mcp_bridge.sources``) finds marked functions later and makes a ``Tool`` of each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Final, TypeVar, overload

from mcp_bridge.features.rates import parse_rate
from mcp_bridge.protocol.jsonrpc import JSONObject, JSONSchema

F = TypeVar("F", bound=Callable[..., object])

MARK: Final = "__mcp_tool__"
TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_HINTS: Final = ("read_only", "destructive", "idempotent", "open_world")
# The type of each option that has a plain one, and its words for an error.
_TYPES: Final[dict[str, tuple[type | UnionType, str]]] = {
    **dict.fromkeys(("public", "confirm", "exposed", "deprecated"), (bool, "True or False")),
    **dict.fromkeys(_HINTS, (bool | None, "True or False")),
    **dict.fromkeys(("input_schema", "output_schema", "meta"), (Mapping | None, "a mapping")),
    **dict.fromkeys(("name", "throttle"), (str | None, "a string")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """
    The options of ``@mcp_tool``.

    ``name`` (default: the procedure's), ``title`` and ``description`` (default: the docstring) are
    what the model reads; the last two may be lazy translations. ``read_only``, ``destructive``,
    ``idempotent`` and ``open_world`` are MCP's hints and are sent as given. ``permissions`` names
    Django permissions ("app.codename"), all of which the caller needs; ``scopes`` are OAuth scopes,
    which are not enforced yet: a tool that has some is not served (mcp_bridge.E009);
    ``public=True`` opens the tool to anonymous callers. ``exposed=False`` and ``deprecated=True``
    keep it from being a tool. ``input_schema`` and ``output_schema`` replace the schemas made from
    the type hints. ``icons`` and ``meta`` (``_meta``) are sent as given; ``throttle`` is
    how often a caller may call it ("20/min"), or a name in THROTTLE_RATES; ``confirm=True`` has
    each call wait for a person's confirmation. ``precheck`` is a function that takes parameters of
    the tool by name, and raises, or returns False, where the call may not be made with these
    arguments: before a person is asked. See MCP, "Tools", and the schema's ``Tool``.
    """

    name: str | None = None
    title: object = None
    description: object = None
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
    input_schema: JSONSchema | None = None
    output_schema: JSONSchema | None = None
    icons: tuple[JSONObject, ...] = ()
    meta: JSONObject | None = None
    throttle: str | None = None
    precheck: Callable[..., object] | None = None

    def __post_init__(self) -> None:
        for name, (kind, wanted) in _TYPES.items():
            _expect(isinstance(getattr(self, name), kind), name, wanted, self)
        _expect(self.precheck is None or callable(self.precheck), "precheck", "a function", self)
        for name in ("permissions", "scopes"):
            strings = all(isinstance(each, str) and each for each in getattr(self, name))
            _expect(strings, name, "strings", self)
        _expect(all(isinstance(icon, Mapping) for icon in self.icons), "icons", "mappings", self)
        for name in ("title", "description"):
            _expect(_is_text(getattr(self, name)), name, "a string or a lazy translation", self)
        if self.name is not None and not TOOL_NAME.fullmatch(self.name):
            raise ValueError(
                f"mcp_tool(name={self.name!r}): a tool's name has 1 to 128 of the characters "
                "A-Z a-z 0-9 _ - and '.'."
            )
        if self.public and (self.permissions or self.scopes):
            raise ValueError(
                "mcp_tool(public=True) opens the tool to everybody, so it cannot ask for "
                "permissions or scopes as well: drop one of them."
            )
        if self.throttle and "/" in self.throttle:
            try:
                parse_rate(self.throttle)
            except ValueError as exception:
                raise ValueError(f"mcp_tool(throttle=…) {exception}.") from None
        if self.read_only and self.destructive:
            raise ValueError(
                "mcp_tool(): a read_only tool cannot be destructive: drop one of them."
            )

    @property
    def annotations(self) -> dict[str, bool]:
        """Return the hints that were given, by their names in MCP's ToolAnnotations."""
        names = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
        given = zip(names, (getattr(self, hint) for hint in _HINTS), strict=True)
        return {name: hint for name, hint in given if hint is not None}


def _is_text(value: object) -> bool:
    # Lazy translations are Django's, and only str() makes text of them.
    django = sys.modules.get("django.utils.functional")
    lazy = django is not None and isinstance(value, django.Promise)
    return lazy or isinstance(value, str | None)


def _expect(fulfilled: bool, name: str, wanted: str, options: ToolOptions) -> None:
    if not fulfilled:
        given = getattr(options, name)
        raise TypeError(f"mcp_tool({name}={given!r}): {name} must be {wanted}.")


@overload
def mcp_tool(function: F, /) -> F: ...


@overload
def mcp_tool(
    *,
    name: str | None = None,
    title: object = None,
    description: object = None,
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
    input_schema: JSONSchema | None = None,
    output_schema: JSONSchema | None = None,
    icons: JSONObject | Iterable[JSONObject] = (),
    meta: JSONObject | None = None,
    throttle: str | None = None,
    precheck: Callable[..., object] | None = None,
) -> Callable[[F], F]: ...


def mcp_tool(
    function: Callable[..., object] | None = None, /, **options: Any
) -> Callable[..., object]:
    """
    Mark a function as an MCP tool, and return the very function that was given.

    Used bare (``@mcp_tool``) or called (``@mcp_tool(read_only=True)``), above or below the
    decorator that registers the function as a procedure, on ``def`` and ``async def``. The options
    are those of ``ToolOptions``; ``permissions``, ``scopes`` and ``icons`` may be one or several.

    Raises TypeError for an unknown keyword or a value of a wrong type, and ValueError for an
    illegal name or options that contradict each other, where the mark stands.
    """
    known = ToolOptions.__dataclass_fields__
    for name in options:
        if name not in known:
            raise TypeError(
                f"mcp_tool() has no option {name!r}. Its options are: {', '.join(known)}."
            )
    for name in [each for each in ("permissions", "scopes", "icons") if each in options]:
        value = options[name]
        if not isinstance(value, Iterable):
            raise TypeError(
                f"mcp_tool({name}={value!r}): {name} must be one value or a list of them."
            )
        options[name] = (value,) if isinstance(value, str | Mapping) else tuple(value)
    checked = ToolOptions(**options)

    def mark(function: Callable[..., object]) -> Callable[..., object]:
        if not callable(function):
            raise TypeError(f"mcp_tool() marks functions, and {function!r} is not one.")
        setattr(function, MARK, checked)
        return function

    return mark if function is None else mark(function)


def options_of(function: object) -> ToolOptions | None:
    """Return the options of a marked function, or None where there is no mark."""
    options = getattr(function, MARK, None)
    return options if isinstance(options, ToolOptions) else None

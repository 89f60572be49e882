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
# RFC 6749, section 3.3.
SCOPE: Final = re.compile(r"[!#-\[\]-~]+")
# The type of each option that has a plain one, and its words for an error.
_TYPES: Final[dict[str, tuple[type | UnionType, str]]] = {
    **dict.fromkeys(("public", "confirm", "exposed", "deprecated"), (bool, "True or False")),
    **dict.fromkeys(("read_only", "destructive"), (bool | None, "True or False")),
    **dict.fromkeys(("idempotent", "open_world"), (bool | None, "True or False")),
    **dict.fromkeys(("input_schema", "output_schema", "meta"), (Mapping | None, "a mapping")),
    **dict.fromkeys(("name", "throttle"), (str | None, "a string")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """
    The options of ``@mcp_tool``.

    ``name`` is the procedure's where it is not given, ``description`` the docstring's; titles and
    descriptions may be lazy translations. ``read_only``, ``destructive``, ``idempotent`` and
    ``open_world`` are MCP's hints and are sent as given, as are ``icons`` and ``meta``. The caller
    needs all ``permissions`` ("app.codename"), unless the tool is ``public``, and a credential that
    has scopes (OAuth's) needs all ``scopes``; one that is not ``exposed``, or ``deprecated``, is
    no tool.
    ``input_schema`` and ``output_schema`` replace those made from the type hints. ``throttle`` is
    how often a caller may call it ("20/min"), or a name in THROTTLE_RATES; with ``confirm`` each
    call waits for a person's confirmation. ``precheck`` takes parameters of the tool by name, and
    raises, or returns False, where a call with these arguments may not be made.
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
            self._expect(isinstance(getattr(self, name), kind), name, wanted)
        self._expect(self.precheck is None or callable(self.precheck), "precheck", "a function")
        for name in ("permissions", "scopes"):
            strings = all(isinstance(each, str) and each for each in getattr(self, name))
            self._expect(strings, name, "strings")
        self._expect(all(isinstance(icon, Mapping) for icon in self.icons), "icons", "mappings")
        # Lazy translations are Django's, and only str() makes text of them.
        django = sys.modules.get("django.utils.functional")
        text = str | None if django is None else str | None | django.Promise
        for name in ("title", "description"):
            is_text = isinstance(getattr(self, name), text)
            self._expect(is_text, name, "a string or a lazy translation")
        if self.name is not None and not TOOL_NAME.fullmatch(self.name):
            raise ValueError(
                f"mcp_tool(name={self.name!r}): a tool's name has 1 to 128 of the characters "
                "A-Z a-z 0-9 _ - and '.'."
            )
        if wrong := next((each for each in self.scopes if not SCOPE.fullmatch(each)), None):
            raise ValueError(
                f"mcp_tool(scopes={wrong!r}): the name of a scope has no spaces, quotes and "
                "backslashes; give several as a list."
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

    def _expect(self, fulfilled: bool, name: str, wanted: str) -> None:
        if not fulfilled:
            given = getattr(self, name)
            raise TypeError(f"mcp_tool({name}={given!r}): {name} must be {wanted}.")

    @property
    def annotations(self) -> dict[str, bool]:
        """Return the hints that were given, by their names in MCP's ToolAnnotations."""
        hints = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: hint for name, hint in hints.items() if hint is not None}


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
    decorator that registers the function as a procedure. The options are those of ``ToolOptions``;
    ``permissions``, ``scopes`` and ``icons`` may be one or several.

    Raises TypeError for an unknown option or a wrong type, and ValueError for an illegal name, of
    a scope too, or options that contradict each other.
    """
    known = ToolOptions.__dataclass_fields__
    for name in (each for each in options if each not in known):
        raise TypeError(f"mcp_tool() has no option {name!r}. Its options are: {', '.join(known)}.")
    for name in ("permissions", "scopes", "icons"):
        value = options.get(name, ())
        if not isinstance(value, Iterable):
            wanted = "one value or a list of them"
            raise TypeError(f"mcp_tool({name}={value!r}): {name} must be {wanted}.")
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

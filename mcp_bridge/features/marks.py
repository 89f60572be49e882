"""
Marks that make features of a function, the methods of a class, or a namespace.

A mark is data: ``mcp_tool`` stores its options on the function and returns the same function. A
source (``mcp_bridge.sources``) later finds marked functions and makes a ``Tool`` of each, or the
feature of another kind.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final, Literal, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload
from weakref import WeakKeyDictionary

from mcp_bridge.features.rates import parse_rate
from mcp_bridge.protocol.jsonrpc import JSONObject, JSONSchema

F = TypeVar("F", bound=Callable[..., object])
C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R", covariant=True)

MARK: Final = "__mcp_tool__"
_TOOLSET: Final = "__mcp_toolset__"
TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# RFC 6749, section 3.3.
SCOPE: Final = re.compile(r"[!#-\[\]-~]+")
# The type of each option that can be checked by type, and its name in error messages.
_TYPES: Final[dict[str, tuple[Any, str]]] = {
    **dict.fromkeys(("public", "confirm", "exposed", "deprecated"), (bool, "True or False")),
    **dict.fromkeys(
        ("read_only", "destructive", "idempotent", "open_world"), (bool | None, "True or False")
    ),
    **dict.fromkeys(("input_schema", "output_schema", "meta"), (Mapping | None, "a mapping")),
    **dict.fromkeys(("name", "throttle"), (str | None, "a string")),
    "precheck": (Callable | None, "a function"),
    "timeout": (int | float | None, "a number of seconds"),
    "task": (bool | str | Callable, "True, False, 'required' or a function"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """
    The options of ``@mcp_tool``.

    ``name`` defaults to the procedure's name, ``description`` to the docstring; titles and
    descriptions may be lazy translations. ``read_only``, ``destructive``, ``idempotent`` and
    ``open_world`` are MCP's hints and are sent as given, as are ``icons`` and ``meta``. The caller
    needs all ``permissions`` ("app.codename"), unless the tool is ``public``, and a credential that
    has scopes (OAuth) needs all ``scopes``. A function that is not ``exposed``, or is
    ``deprecated``, is not served. ``input_schema`` and ``output_schema`` replace the schemas made
    from the type hints. ``throttle`` is a rate limit for each caller ("20/min"), or a name in
    THROTTLE_RATES. With ``confirm``, each call requires confirmation by a person. ``precheck``
    takes parameters of the tool by name, and raises or returns False to refuse a call with them.
    ``timeout`` is the time limit of a call in seconds (default: CALL_TIMEOUT). With ``task``, a
    call runs in a worker, as a task, if its client declares tasks (mcp_bridge.tasks): True for each
    such call, a function of the ToolCall to decide for each, "required" to refuse all others.
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
    timeout: float | None = None
    task: bool | str | Callable[..., object] = False
    # The names of the options that the mark sets.
    given: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Lazy translations are Django's promises, which only str() converts.
        django = sys.modules.get("django.utils.functional")
        text: Any = str | None if django is None else str | None | django.Promise
        texts = dict.fromkeys(("title", "description"), (text, "a string or a lazy translation"))
        for name, (kind, wanted) in {**_TYPES, **texts}.items():
            self._expect(isinstance(getattr(self, name), kind), name, wanted)
        for name in ("permissions", "scopes"):
            strings = all(isinstance(each, str) and each for each in getattr(self, name))
            self._expect(strings, name, "strings")
        self._expect(all(isinstance(icon, Mapping) for icon in self.icons), "icons", "mappings")
        if self.name is not None and not TOOL_NAME.fullmatch(self.name):
            raise ValueError(
                f"mcp_tool(name={self.name!r}): a tool name consists of 1 to 128 of the characters "
                "A-Z a-z 0-9 _ - and '.'."
            )
        if wrong := next((each for each in self.scopes if not SCOPE.fullmatch(each)), None):
            raise ValueError(
                f"mcp_tool(scopes={wrong!r}): a scope must not contain spaces, quotes or "
                "backslashes; give several scopes as a list."
            )
        if self.public and (self.permissions or self.scopes):
            raise ValueError(
                "mcp_tool(public=True) opens the tool to everyone, so it cannot require "
                "permissions or scopes as well: drop one of them."
            )
        if self.throttle and "/" in self.throttle:
            try:
                parse_rate(self.throttle)
            except ValueError as exception:
                raise ValueError(f"mcp_tool(throttle=…) {exception}.") from None
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise ValueError(f"mcp_tool(timeout={self.timeout!r}): it must be more than 0 seconds.")
        is_known = not isinstance(self.task, str) or self.task == "required"
        self._expect(is_known, "task", _TYPES["task"][1])
        if self.read_only and self.destructive:
            raise ValueError(
                "mcp_tool(): a read_only tool cannot be destructive: drop one of them."
            )

    def _expect(self, fulfilled: bool, name: str, wanted: str) -> None:
        if not fulfilled:
            given = getattr(self, name)
            raise TypeError(f"mcp_tool({name}={given!r}): {name} must be {wanted}.")

    def under(self, shared: ToolOptions) -> ToolOptions:
        """
        Return these options merged with those that a class or namespace sets for all its tools.

        Permissions and scopes add up; any other option that is given here wins. A tool marked
        public itself requires none, and a tool that requires some is not public. Raises ValueError
        if the two contradict each other.
        """
        names = self.given | shared.given
        both = {name: getattr(self if name in self.given else shared, name) for name in names}
        for name in ("permissions", "scopes"):
            needed = dict.fromkeys((*getattr(shared, name), *getattr(self, name)))
            both[name] = () if self.public else tuple(needed)
        if both["permissions"] or both["scopes"]:
            both["public"] = False
        merged = type(self)(**both)
        # So that they can be merged with others in turn.
        object.__setattr__(merged, "given", frozenset(both))
        return merged

    @property
    def annotations(self) -> dict[str, bool]:
        """The hints that were given, by their names in MCP's ToolAnnotations."""
        hints = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: hint for name, hint in hints.items() if hint is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOptions(ToolOptions):
    """
    The options of ``@mcp_resource``: those of tools as far as they apply, and its own.

    ``uri`` is a URI, or a template whose variables are the function's parameters: RFC 6570, level
    1, and ``{+path}`` at the end. ``mime_type`` is the media type of the contents (default: of what
    the function returns). ``ttl`` are the seconds for which a client may keep what it has read
    (default: CACHE_TTL). With ``expose_as_tool`` it is also a tool, for clients that show models
    only tools.
    """

    uri: str
    mime_type: str = ""
    ttl: float | None = None
    expose_as_tool: bool = False
    # The functions that complete variables, by name.
    completers: dict[str, Callable[..., object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # "super()" does not work in a class with slots.
        ToolOptions.__post_init__(self)
        self._expect(isinstance(self.mime_type, str), "mime_type", "a string")
        self._expect(isinstance(self.expose_as_tool, bool), "expose_as_tool", "True or False")
        is_number = type(self.ttl) in (int, float)
        is_time = self.ttl is None or (is_number and 0 <= self.ttl < math.inf)
        self._expect(is_time, "ttl", "a number of seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions(ToolOptions):
    """
    The options of ``@mcp_prompt``: those of tools as far as they apply, and its own.

    ``template`` is the name of a Django template, which is rendered without HTML escapes, with the
    dict that the function returns.
    """

    template: str | None = None
    # The functions that complete arguments, by name.
    completers: dict[str, Callable[..., object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ToolOptions.__post_init__(self)
        self._expect(isinstance(self.template, str | None), "template", "a template's name")


class Completed(Protocol[P, R]):
    """A marked function, whose ``complete`` marks functions that complete its arguments."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def complete(self, name: str, /) -> Callable[[F], F]:
        """Return a decorator of the function that completes an argument."""


class _Shared(TypedDict, total=False):
    permissions: str | Iterable[str]
    scopes: str | Iterable[str]
    public: bool
    confirm: bool
    exposed: bool
    deprecated: bool
    icons: JSONObject | Iterable[JSONObject]
    meta: JSONObject | None
    throttle: str | None
    timeout: float | None


class SharedOptions(_Shared, total=False):
    """The options of ``mcp_tool`` that several tools can share."""

    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None


class _Own(TypedDict, total=False):
    name: str | None
    title: object
    description: object
    precheck: Callable[..., object] | None


class OwnOptions(SharedOptions, _Own, total=False):
    """The options of ``mcp_tool``."""

    input_schema: JSONSchema | None
    output_schema: JSONSchema | None
    task: bool | Literal["required"] | Callable[..., object]


class OfResource(_Shared, _Own, total=False):
    """The options of ``mcp_resource``."""

    mime_type: str
    ttl: float | None
    expose_as_tool: bool


class OfPrompt(_Shared, _Own, total=False):
    """The options of ``mcp_prompt``."""

    template: str | None


@overload
def mcp_tool(function: F, /) -> F: ...


@overload
def mcp_tool(**options: Unpack[OwnOptions]) -> Callable[[F], F]: ...


def mcp_tool(function: Any = None, /, **options: Any) -> Callable[..., object]:
    """
    Mark a function as an MCP tool, and return the same function.

    Used bare (``@mcp_tool``) or called (``@mcp_tool(read_only=True)``), above or below the
    decorator that registers the function as a procedure. The options are those of ``ToolOptions``;
    ``permissions``, ``scopes`` and ``icons`` take one value or several.

    Raises TypeError for an unknown option or a wrong type, and ValueError for an illegal tool or
    scope name, or for options that contradict each other.
    """
    checked = options_in("mcp_tool", options)
    mark = partial(_marked, "mcp_tool", checked)
    return mark if function is None else mark(function)


def _marked(name: str, options: ToolOptions, function: Any) -> Any:
    """Store the options of a mark on a function, and return the function. Raises TypeError."""
    # A static method is callable, and a class method is not.
    if not callable(function) and not isinstance(function, classmethod):
        raise TypeError(f"{name}() marks functions; {function!r} is not a function.")
    marked = options_of(function)
    if marked is not None and type(marked) is not type(options):
        raise TypeError(
            f"{name}() cannot mark {function!r}, which has a mark of another kind: mark a function "
            "that calls this one."
        )
    try:
        setattr(function, MARK, options)
        if isinstance(options, ResourceOptions | PromptOptions):
            function.complete = partial(_complete, name, function, options.completers)
    except AttributeError:
        raise TypeError(
            f"{name}() cannot mark {function!r}, which does not accept attributes: mark the "
            "function in its class, or a function that calls this one."
        ) from None
    return function


def _complete(
    mark: str, function: Any, completers: dict[str, Callable[..., object]], name: str
) -> Callable[[F], F]:
    """Return a decorator that stores a function as the completer of an argument."""
    known = inspect.signature(getattr(function, "__func__", function)).parameters
    if name not in known and not any(each.kind is each.VAR_KEYWORD for each in known.values()):
        raise TypeError(f"complete({name!r}): the function of {mark} does not have this parameter.")

    def store(completer: F) -> F:
        completers[name] = completer
        return completer

    return store


def mcp_resource(
    uri: str, /, **options: Unpack[OfResource]
) -> Callable[[Callable[P, R]], Completed[P, R]]:
    """
    Mark a function as an MCP resource, or as a template of resources, and return the same function.

    The variables of ``uri`` are parameters of the function: ``articles://{slug}``. The options are
    those of ``ResourceOptions``. A ``str`` is sent as text, ``bytes`` and files as a blob, any
    other value as JSON. The function then has ``complete(name)``, a decorator of a function that
    takes the beginning of a variable's value and returns values.

    Raises TypeError and ValueError as ``mcp_tool`` does, for a text that is neither a URI nor a
    template, and for a variable that is not a parameter.
    """
    # Imported here, since many sites have tools alone.
    from mcp_bridge.features.uris import UriTemplate

    own = {"uri": uri, "completers": {}}
    checked = options_in("mcp_resource", options, OfResource, ResourceOptions, **own)
    try:
        variables = UriTemplate(uri).variables
    except ValueError as why:
        raise ValueError(f"mcp_resource(): {why}.") from None

    def mark(function: Callable[P, R]) -> Completed[P, R]:
        called = getattr(function, "__func__", function)
        known = inspect.signature(called).parameters if callable(called) else {}
        is_open = any(each.kind is each.VAR_KEYWORD for each in known.values())
        if unknown := [each for each in variables if each not in known and not is_open]:
            raise TypeError(
                f"mcp_resource({uri!r}): {getattr(called, '__qualname__', called)} does not have "
                f"the parameter {unknown[0]!r}."
            )
        return _marked("mcp_resource", checked, function)  # type: ignore[no-any-return]

    return mark


@overload
def mcp_prompt(function: Callable[P, R], /) -> Completed[P, R]: ...


@overload
def mcp_prompt(**options: Unpack[OfPrompt]) -> Callable[[Callable[P, R]], Completed[P, R]]: ...


def mcp_prompt(function: Any = None, /, **options: Any) -> Callable[..., object]:
    """
    Mark a function as an MCP prompt, and return the same function.

    Its parameters are the prompt's arguments. It returns a text, content blocks, or PromptMessages;
    with ``template``, the context of a Django template. The options are those of ``PromptOptions``.
    ``complete(name)`` of the function is as of ``mcp_resource``. Raises TypeError and ValueError as
    ``mcp_tool`` does.
    """
    checked = options_in("mcp_prompt", options, OfPrompt, PromptOptions, completers={})
    mark = partial(_marked, "mcp_prompt", checked)
    return mark if function is None else mark(function)


@dataclass(frozen=True, slots=True)
class Toolset:
    """
    The mark of a class: the prefix and shared options of its tools.

    ``prefix`` is None if not given. ``actions`` are the names of a Django REST framework view's
    methods that are tools without a mark.
    """

    prefix: str | None
    options: ToolOptions
    actions: tuple[str, ...] = ()


@overload
def mcp_toolset(kind: C, /) -> C: ...


@overload
def mcp_toolset(
    *, prefix: str | None = None, actions: Iterable[str] = (), **options: Unpack[SharedOptions]
) -> Callable[[C], C]: ...


def mcp_toolset(
    kind: Any = None, /, *, prefix: str | None = None, actions: Iterable[str] = (), **options: Any
) -> Callable[..., object]:
    """
    Mark a class whose methods with ``@mcp_tool`` are tools, and return the same class.

    A tool's name is ``prefix`` (default: the class's name as ``snake_case``; "" for none) and the
    method's name. ``options`` are the options of ``mcp_tool`` that all tools share: permissions and
    scopes are added to those of a method's own mark; for any other option the method's value wins.
    Subclasses do not inherit the mark. ``actions`` are for a view of Django REST framework: names
    of its actions, or of HTTP methods ("get"), that are tools without a mark. Raises TypeError and
    ValueError as ``mcp_tool`` does.
    """
    shared = options_in("mcp_toolset", options, SharedOptions)
    if not isinstance(prefix, str | None):
        raise TypeError(f"mcp_toolset(prefix={prefix!r}): prefix must be a string.")
    if isinstance(actions, str) or not all(isinstance(each, str) for each in (*actions,)):
        raise TypeError(f"mcp_toolset(actions={actions!r}): actions must be a list of names.")

    def mark(kind: type) -> type:
        if not isinstance(kind, type):
            raise TypeError(f"mcp_toolset() marks classes; {kind!r} is not a class.")
        setattr(kind, _TOOLSET, Toolset(prefix, shared, (*actions,)))
        return kind

    return mark if kind is None else mark(kind)


def mcp_namespace(namespace: object, /, **options: Unpack[SharedOptions]) -> None:
    """
    Make tools of all procedures of a django-modern-rpc namespace, with shared options.

    A procedure's own mark is merged with these options as a method's mark is with those of its
    class (``mcp_toolset``). Procedures registered later are included. Raises TypeError if it is not
    a namespace, and TypeError and ValueError as ``mcp_tool`` does.
    """
    shared = options_in("mcp_namespace", options, SharedOptions)
    if not isinstance(getattr(namespace, "procedures", None), Mapping):
        raise TypeError(f"mcp_namespace() marks an RpcNamespace; {namespace!r} is not one.")
    _namespaces[namespace] = shared


# Not stored on the namespace, which cannot be found once a server has registered its procedures.
_namespaces: WeakKeyDictionary[Any, ToolOptions] = WeakKeyDictionary()


def snake_case(name: str) -> str:
    """Return the name of a class in snake case: "order_tools" for ``OrderTools``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", name).lower()


def options_in(
    mark: str,
    options: Mapping[str, Any],
    kind: type = OwnOptions,
    made: type[ToolOptions] = ToolOptions,
    **more: Any,
) -> ToolOptions:
    """
    Return the checked options of a mark or setting, as an instance of ``made``.

    ``more`` are options that are not given by name. Raises the errors of ``mcp_tool``.
    """
    known = [each.name for each in fields(made) if each.name in kind.__annotations__]
    for name in (each for each in options if each not in known):
        raise TypeError(f"{mark}(): unknown option {name!r}. Its options are: {', '.join(known)}.")
    several = {name: options.get(name, ()) for name in ("permissions", "scopes", "icons")}
    for name, value in several.items():
        if not isinstance(value, Iterable):
            wanted = "one value or a list of them"
            raise TypeError(f"{mark}({name}={value!r}): {name} must be {wanted}.")
        several[name] = (value,) if isinstance(value, str | Mapping) else tuple(value)
    try:
        checked = made(**{**options, **several, **more})
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("mcp_tool(", f"{mark}(")) from None
    object.__setattr__(checked, "given", frozenset({**options, **more}))
    return checked


def options_of(function: object) -> ToolOptions | None:
    """Return the options of a marked function, or None if it is not marked."""
    options = getattr(function, MARK, None)
    return options if isinstance(options, ToolOptions) else None


def toolset_of(kind: type) -> Toolset | None:
    """Return the class's own mark, or None: marks of base classes do not count."""
    toolset = vars(kind).get(_TOOLSET)
    return toolset if isinstance(toolset, Toolset) else None


def options_by_namespace() -> dict[object, ToolOptions]:
    """Return the options of marked namespaces, by procedure function."""
    return {
        wrapper.func_or_coro: options
        for namespace, options in _namespaces.items()
        for wrapper in namespace.procedures.values()
    }

"""The base of all features that a server offers, and the rules for access to them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache, partial
from types import CodeType
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar

from mcp_bridge.features.context import Context
from mcp_bridge.features.marks import ToolOptions
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.revisions import Revision


@dataclass(frozen=True, slots=True, eq=False)
class AccessRule:
    """
    The conditions for access to a tool. Each rule is evaluated once a request, for all its tools.

    Rules are compared by identity, which is cheaper than by value in long lists.
    """

    public: bool = False
    permissions: tuple[str, ...] = ()
    # An additional condition of the source: truthy for a context that may use the tool.
    predicate: Callable[[Context], Any] | None = None
    # Primary keys of the allowed groups: the caller must be in one. None: no restriction.
    groups: frozenset[Any] | None = None
    # OAuth scopes, all of which a credential needs if its type has scopes.
    scopes: tuple[str, ...] = ()
    # Whether the tool is open to everyone, without a call of the site's own code.
    is_open: bool = field(init=False)

    def __post_init__(self) -> None:
        is_open = self.public and self.predicate is None and not self.scopes
        object.__setattr__(self, "is_open", is_open)

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, *needs: Any) -> AccessRule:
        """Return the rule with these fields: the same object for equal fields."""
        return cls(*needs)

    @property
    def words(self) -> str:
        """A short description of the code's requirements."""
        needs = ["everyone"] if self.public else [*self.permissions] or ["authenticated users"]
        return " + ".join([*needs, *["custom rule"] * (self.predicate is not None)])


# Returns the values that an argument may have: a list, or a queryset of them.
Completer: TypeAlias = Callable[[str, Mapping[str, str], Context], Any]
# The kind and the name of a feature.
Key: TypeAlias = tuple[str, str]


def label_of(kind: str, name: str) -> str:
    """Return a key as one text: the name of a tool, else with the kind before it."""
    # No name contains a colon.
    return name if kind == "tool" else f"{kind}:{name}"


def as_text(value: object) -> str:
    """Return a JSON value as the text that an argument of a prompt or resource is."""
    return value if isinstance(value, str) else json.dumps(value)


def key_of(label: str) -> Key:
    """Return the key of a label."""
    kind, _, name = label.rpartition(":")
    return kind or "tool", name


def _not_built(*given: object) -> Any:
    raise RuntimeError("The feature lacks check, invoke and encode, or was not built.")


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Feature:
    """
    A feature of a server (MCP, "Server Features"), such as a tool: a subclass for each kind.

    ``kind`` is its identifier in settings and records, and the namespace of its names. A feature
    without ``is_marked`` is disabled until an administrator enables it, and does not take or return
    secrets unless it ``is_foreign``. A source may describe it without the parts that only calls
    need: ``build`` then completes it when it is first shown or enabled, and may query the database.

    Its calls (a call of a tool, a reading of a resource) use callables of its source. ``check``
    takes the arguments of a call as JSON values and returns the values for ``invoke`` by parameter
    name; it raises InvalidArguments. ``invoke`` runs the call and may be a coroutine function.
    ``encode`` converts its return value to a CallToolResult. ``convert_error`` lets the source's
    error handler replace the exception raised. ``precheck`` raises or returns False to refuse a
    call by its arguments; it may be a coroutine function too, and its writes are rolled back.
    """

    kind: ClassVar[str]
    # Its entries in lists of other kinds, as JSON text by the member that the list is in.
    entries: ClassVar[Mapping[str, bytes]] = {}

    name: str
    description: Any
    title: Any = None
    icons: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] | None = None
    access: AccessRule = AccessRule()
    # The conditions of the code for a caller, in words or by dotted names: "staff".
    conditions: tuple[str, ...] = ()
    # The target of its calls, if not a function: "DELETE /drafts/{id} at https://service.example".
    target: str = ""
    # The place of its definition, for people: "newsroom/procedures.py:12". Never sent to clients.
    source: str = ""
    # The key of its source in SOURCES.
    source_alias: str = ""
    # Its function, also never sent to clients: "newsroom.procedures.publish".
    function: str = ""
    # The code of the function, if any, to recognise the exceptions that it raises itself.
    code: CodeType | None = None
    options: ToolOptions = ToolOptions()
    # The rate limit for each caller that an administrator has set: "20/min"; None if not set.
    rate: str | None = None
    # Whether a mark in the code makes it a feature.
    is_marked: bool = True
    # Whether another party defines it: each change requires approval. It may name secrets.
    is_foreign: bool = False
    build: Callable[[], Self] | None = None
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], dict[str, Any]] = _not_built
    invoke: Callable[[ToolCall], Any] = _not_built
    encode: Callable[[Any], CallToolResult] = _not_built
    convert_error: Callable[[Exception, ToolCall], Exception] = lambda exception, call: exception
    precheck: Callable[[ToolCall], Any] | None = None
    # Returns the arguments as JSON for the person who confirms, such as with the present values.
    preview: Callable[[ToolCall], Mapping[str, Any]] | None = None
    # The names in x-mcp-header, each with the path of the argument that it mirrors.
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Whether checking its arguments runs none of the site's code and no query.
    is_plain: bool = False
    # Whether it may raise InputRequired, after which its writes must be rolled back.
    may_elicit: bool = False
    # The databases without a transaction around its calls (Django's non_atomic_requests).
    non_atomic: frozenset[str] = frozenset()
    # By argument: a function of the beginning of its value, the earlier arguments and the caller.
    completers: Mapping[str, Completer] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """The kind and the name, together unique in the site."""
        return self.kind, self.name

    @property
    def label(self) -> str:
        """The key as one text: "publish" for a tool, else "prompt:review"."""
        return label_of(*self.key)

    @cached_property
    def built(self) -> Self:
        """The complete feature. Raises ValueError for another name, and the errors of ``build``."""
        if self.build is None:
            return self
        made = self.build()
        if made.name != self.name:
            raise ValueError(f"its source returned the {made.kind} {made.name!r} instead")
        return replace(made, is_marked=self.is_marked, source_alias=self.source_alias)

    @property
    def listing(self) -> str:
        """The member of the result of the list that it is in."""
        return f"{self.kind}s"

    @cached_property
    def is_async(self) -> bool:
        """Whether ``invoke`` is a coroutine function."""
        return inspect.iscoroutinefunction(self.invoke)

    @property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schemas of the feature by label, such as "input schema"."""
        return {"input schema": self.input_schema} if self.input_schema else {}

    @property
    def is_read_only(self) -> bool:
        """Whether it declares that it changes nothing."""
        return True

    @property
    def is_destructive(self) -> bool:
        """Whether it declares that it may destroy something."""
        return False

    @property
    def is_irreversible(self) -> bool:
        """Whether its calls require confirmation or may destroy something."""
        return self.options.confirm or self.is_destructive

    @property
    def approved_too(self) -> Mapping[str, Any]:
        """The parts that an approval covers beside its definition."""
        return {}

    def as_sent(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as clients send them: those of tools as JSON, others as text."""
        if self.kind == "tool":
            return {**arguments}
        return {name: as_text(value) for name, value in arguments.items()}

    def definition(self, revision: Revision) -> dict[str, Any]:
        """Return its list entry at a revision (MCP schema, of its kind)."""
        raise NotImplementedError


class ToolCall(NamedTuple):
    """
    One call of a feature, with its checked arguments as Python values by parameter name.

    ``sent`` are the arguments as JSON values, as received. ``binding`` identifies the call for its
    confirmation, ``confirmed_at`` is the time of that, and ``approval`` the row of the approval
    queue, if any. ``round`` is 1, plus one for each response to an input request.
    """

    tool: Feature
    arguments: dict[str, Any]
    context: Context
    sent: Mapping[str, Any] = {}
    binding: str = ""
    confirmed_at: datetime | None = None
    approval: Any = None
    round: int = 1

    @property
    def confirmed(self) -> bool:
        """Whether a person has confirmed this call."""
        return self.confirmed_at is not None


AnyFeature = TypeVar("AnyFeature", bound=Feature)


def dotted_name(value: Any) -> str:
    """Return the dotted name of a function or class, or of the class of any other object."""
    while isinstance(value, partial):
        value = value.func
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"

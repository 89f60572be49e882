"""The base of all features that a server offers, and the rules for access to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from types import CodeType
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

from mcp_bridge.features.context import Context
from mcp_bridge.features.marks import ToolOptions
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


# The kind and the name of a feature.
Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Feature:
    """
    A feature of a server (MCP, "Server Features"), such as a tool: a subclass for each kind.

    ``kind`` is its identifier in settings and records, and the namespace of its names. A feature
    without ``is_marked`` is disabled until an administrator enables it, and does not take or return
    secrets unless it ``is_foreign``. A source may describe it without the parts that only calls
    need: ``build`` then completes it when it is first shown or enabled, and may query the database.
    """

    kind: ClassVar[str]

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

    @property
    def key(self) -> Key:
        """The kind and the name, together unique in the site."""
        return self.kind, self.name

    @cached_property
    def built(self) -> Self:
        """The complete feature. Raises the errors of ``build``, which is then called again."""
        return self if self.build is None else self.build()

    @property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schemas of the feature by label, such as "input schema"."""
        return {}

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

    def definition(self, revision: Revision) -> dict[str, Any]:
        """Return its list entry at a revision (MCP schema, of its kind)."""
        raise NotImplementedError


AnyFeature = TypeVar("AnyFeature", bound=Feature)


def dotted_name(value: Any) -> str:
    """Return the dotted name of a function or class, or of the class of any other object."""
    while isinstance(value, partial):
        value = value.func
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"

"""What every kind of feature has that a server offers, and what a caller needs for one."""

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
    What a caller needs for a tool. Tools with the same rule are decided once a request.

    Rules are compared by identity, which costs a list of many tools the least.
    """

    public: bool = False
    permissions: tuple[str, ...] = ()
    # The source's own condition: truthy for a context that may use the tool.
    predicate: Callable[[Context], Any] | None = None
    # Primary keys of the groups of which a caller must be in one; None where any will do.
    groups: frozenset[Any] | None = None
    # Scopes of OAuth that a credential needs all of, if its kind has scopes.
    scopes: tuple[str, ...] = ()
    # Whether anybody may use the tool, without a question to the site's own code.
    is_open: bool = field(init=False)

    def __post_init__(self) -> None:
        is_open = self.public and self.predicate is None and not self.scopes
        object.__setattr__(self, "is_open", is_open)

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, *needs: Any) -> AccessRule:
        """Return the rule with these fields: for the same ones the same rule."""
        return cls(*needs)

    @property
    def words(self) -> str:
        """What the code asks of a caller, in a few words."""
        needs = ["everybody"] if self.public else [*self.permissions] or ["authenticated users"]
        return " + ".join([*needs, *["the code's own rule"] * (self.predicate is not None)])


# The kind and the name of a feature.
Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Feature:
    """
    A feature of a server (MCP, "Server Features"), such as a tool: a subclass for each kind.

    ``kind`` is the one word for it in the settings and the records: its names are its own. One that
    is not ``is_marked`` is off until an administrator switches it on, and never takes or returns
    secrets. It may be described without all that a call needs: then ``build`` makes the whole
    feature when it is first shown or switched on, and may ask the database.
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
    # Where its calls go, unless to a function: "DELETE /drafts/{id} at https://service.example".
    target: str = ""
    # Where it is defined, for people: "newsroom/procedures.py:12". Never sent to clients.
    source: str = ""
    # The key in SOURCES of where it comes from.
    source_alias: str = ""
    # The function it is made of, likewise: "newsroom.procedures.publish".
    function: str = ""
    # The code of that, where there is one, to tell what it raises itself from the rest.
    code: CodeType | None = None
    options: ToolOptions = ToolOptions()
    # How often a caller may use it, as an administrator has set it: "20/min"; None if not set.
    rate: str | None = None
    # Whether the code says that it is a feature.
    is_marked: bool = True
    build: Callable[[], Self] | None = None

    @property
    def key(self) -> Key:
        """The kind and the name, which no other feature of the site has both."""
        return self.kind, self.name

    @cached_property
    def built(self) -> Self:
        """The whole feature. Raises whatever ``build`` raises, which is called again then."""
        return self if self.build is None else self.build()

    @property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """Its JSON Schemas by the words for them, such as "input schema"."""
        return {}

    @property
    def is_read_only(self) -> bool:
        """Whether it says that it changes nothing."""
        return True

    @property
    def is_destructive(self) -> bool:
        """Whether it says that it may destroy something."""
        return False

    @property
    def is_irreversible(self) -> bool:
        """Whether its calls want a person's word, or may destroy."""
        return self.options.confirm or self.is_destructive

    def definition(self, revision: Revision) -> dict[str, Any]:
        """Return it as a list shows it at a revision (MCP schema, of its kind)."""
        raise NotImplementedError


AnyFeature = TypeVar("AnyFeature", bound=Feature)


def dotted_name(value: Any) -> str:
    """Return the dotted name of a function or a class; for another object that of its class."""
    while isinstance(value, partial):
        value = value.func
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"

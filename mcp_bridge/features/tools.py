"""Tools of every source, who may use them, and calls of them: who calls, how, and with what."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any

from mcp_bridge.features.marks import ToolOptions
from mcp_bridge.protocol import LATEST, MissingRequiredClientCapabilityError
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.protocol.revisions import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """
    What a modern client says of itself in each request: never a ground to trust it.

    ``info`` is MCP's Implementation, ``capabilities`` its ClientCapabilities.
    """

    info: JSONObject = field(default_factory=dict)
    capabilities: JSONObject = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Context:
    """
    Who calls, and how: one for each request.

    ``user`` is the authenticated user, or Django's AnonymousUser; ``auth`` the credential, as in
    DRF's ``request.auth``; ``request`` the HttpRequest, or None where the call came another way.
    ``remote_address`` is where the connection came from and ``language`` the active one ("en-gb"),
    looked up when it is first read. ``scratch`` is free for what one request wants to remember.
    ``input_responses`` are the client's answers to what the tool has asked, by key, and
    ``tool_state`` what it kept when it asked last.
    """

    user: Any
    request: Any = None
    revision: Revision = LATEST
    auth: Any = None
    client: Client = Client()
    remote_address: str = ""
    user_agent: str = ""
    # By a factory, so that the class has no value for a context that reads it later.
    language: str = field(default_factory=str)
    scratch: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    input_responses: Mapping[str, Any] = field(default_factory=dict)
    tool_state: Any = None

    def __getattr__(self, name: str) -> Any:
        read = vars(self).get("_read_language") if name == "language" else None
        if read is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self)["language"] = language = read()
        return language

    def absolute_url(self, path: str) -> str:
        """Return a path of this site as an address, or as it is where there is no request."""
        return path if self.request is None else str(self.request.build_absolute_uri(path))

    def require_capability(self, name: str) -> None:
        """
        Stop the call unless the client has declared the capability ``name``.

        Raises MissingRequiredClientCapabilityError (MCP, "Capabilities", error -32021).
        """
        if name not in self.client.capabilities:
            raise self.missing_capabilities(name)

    def missing_capabilities(self, *names: str) -> MissingRequiredClientCapabilityError:
        """Return the error for a client that has not, or cannot have, declared capabilities."""
        legacy = None if self.revision.modern else self.revision.version
        return MissingRequiredClientCapabilityError(*names, legacy=legacy)


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


def _not_built(*given: object) -> Any:
    raise RuntimeError("The tool has no check, invoke and encode, or was not built.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool:
    """
    A tool; the sources of tools differ in how they fill its callables.

    ``check`` takes the arguments of a call as JSON values and returns them as the values that
    ``invoke`` wants, by parameter name; it raises InvalidArguments. ``invoke`` runs the tool and
    may be a coroutine function. ``encode`` makes a CallToolResult of what it returned.
    ``convert_error`` gives the source's own error handler a word on what it raised. ``precheck``
    raises, or returns False, where a call may not be made with its arguments; it may be a coroutine
    function too, and what it writes is undone.

    One that is not ``is_marked`` is off until an administrator switches it on, and never takes or
    returns secrets. It may be described without its schemas and callables: then ``build`` makes the
    whole tool when it is first shown or switched on, and may ask the database.
    """

    name: str
    description: Any
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], dict[str, Any]] = _not_built
    invoke: Callable[[ToolCall], Any] = _not_built
    encode: Callable[[Any], CallToolResult] = _not_built
    convert_error: Callable[[Exception, ToolCall], Exception] = lambda exception, call: exception
    precheck: Callable[[ToolCall], Any] | None = None
    title: Any = None
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict)
    icons: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] | None = None
    access: AccessRule = AccessRule()
    # The conditions of the code for a caller, in words or by dotted names: "staff".
    conditions: tuple[str, ...] = ()
    # Where its calls go, unless to a function: "DELETE /drafts/{id} at https://service.example".
    target: str = ""
    # The names in x-mcp-header, and the path of the argument that each mirrors.
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Whether to check its arguments runs no code of the site's own and asks no database.
    is_plain: bool = False
    # Whether it may raise InputRequired, after which nothing that it wrote may stay.
    may_elicit: bool = False
    # The databases in which it has no transaction around it (Django's non_atomic_requests).
    non_atomic: frozenset[str] = frozenset()
    # The code of its function, where there is one, to tell what that raises itself from the rest.
    code: CodeType | None = None
    # Where it is defined, for people: "newsroom/procedures.py:12". Never sent to clients.
    source: str = ""
    # The key in SOURCES of where it comes from.
    source_alias: str = ""
    # The function it is made of, likewise: "newsroom.procedures.publish".
    function: str = ""
    options: ToolOptions = ToolOptions()
    # How often a caller may call it, as an administrator has set it: "20/min"; None if not set.
    rate: str | None = None
    # Whether the code says that it is a tool.
    is_marked: bool = True
    build: Callable[[], Tool] | None = None

    @cached_property
    def built(self) -> Tool:
        """The whole tool. Raises whatever ``build`` raises, which is called again then."""
        return self if self.build is None else self.build()

    @cached_property
    def is_async(self) -> bool:
        """Whether ``invoke`` is a coroutine function."""
        return inspect.iscoroutinefunction(self.invoke)

    @cached_property
    def is_read_only(self) -> bool:
        """Whether it says that it changes nothing (MCP schema, ``readOnlyHint``)."""
        return self.annotations.get("readOnlyHint", False)

    @cached_property
    def is_irreversible(self) -> bool:
        """Whether its calls want a person's word, or may destroy (``destructiveHint``)."""
        return self.options.confirm or self.annotations.get("destructiveHint", False)

    def definition(self, revision: Revision) -> dict[str, Any]:
        """Return the tool as ``tools/list`` shows it at a revision (MCP schema, ``Tool``)."""
        fields: dict[str, Any] = {
            "name": self.name,
            "title": str(self.title) if self.title is not None else None,
            "description": str(self.description),
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": dict(self.annotations) or None,
            "icons": list(self.icons) or None,
            "_meta": self.meta,
        }
        return {
            name: value
            for name, value in fields.items()
            if value is not None and name in revision.tool_fields
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """
    One call of a tool: the checked arguments as Python values, by parameter name.

    ``sent`` are the arguments as JSON values, as they came. ``binding`` tells the call from others
    where a person confirms it, ``confirmed_at`` is when one has agreed to it, and ``approval`` in
    which row of the approval queue, if it was there. ``round`` is 1, plus one
    for each time that the client has answered.
    """

    tool: Tool
    arguments: dict[str, Any]
    context: Context
    sent: Mapping[str, Any] = field(default_factory=dict)
    binding: str = ""
    confirmed_at: datetime | None = None
    approval: Any = None
    round: int = 1

    @property
    def confirmed(self) -> bool:
        """Whether a person has agreed to this call."""
        return self.confirmed_at is not None

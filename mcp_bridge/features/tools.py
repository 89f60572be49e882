"""Tools, calls of tools and access rules: the same for tools of every source."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any

from mcp_bridge.features.context import Context
from mcp_bridge.features.marks import ToolOptions
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.revisions import Revision


class CurrentText(str):
    """
    A text of a definition of which a part may change while the process runs.

    As a str it is what holds always: that is compared and approved. ``read`` returns what holds
    now, for those that are to call the tool.
    """

    read: Callable[[], str]

    def __new__(cls, text: str, read: Callable[[], str]) -> CurrentText:
        self = super().__new__(cls, text)
        self.read = read
        return self


def has_current_text(value: object) -> bool:
    """Return whether a part of a JSON value is a CurrentText."""
    if isinstance(value, Mapping | list):
        return any(map(has_current_text, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, CurrentText)


def with_current_texts(value: Any) -> Any:
    """Return a JSON value with each CurrentText in it read; raises what reading it raises."""
    if isinstance(value, Mapping):
        return {key: with_current_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_current_texts(each) for each in value]
    return value.read() if isinstance(value, CurrentText) else value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccessRule:
    """
    What a caller needs for a tool. Tools with the same rule are decided once a request.

    Rules are compared by identity, which costs a list of many tools the least; ``of()`` gives the
    same rule for the same needs.
    """

    public: bool = False
    permissions: tuple[str, ...] = ()
    # The source's own condition: truthy for a context that may use the tool.
    predicate: Callable[[Context], Any] | None = None
    # Primary keys of the groups of which a caller must be in one; None where any will do.
    groups: frozenset[Any] | None = None

    @classmethod
    @lru_cache(maxsize=1024)
    def of(
        cls,
        public: bool,
        permissions: tuple[str, ...],
        predicate: Callable[[Context], Any] | None = None,
        groups: frozenset[Any] | None = None,
    ) -> AccessRule:
        """The rule with these needs."""
        return cls(public=public, permissions=permissions, predicate=predicate, groups=groups)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool:
    """
    A tool; the sources of tools differ in how they fill its callables.

    ``check`` takes the arguments of a call as JSON values and returns them as the values that
    ``invoke`` wants, by parameter name; it raises InvalidArguments. ``invoke`` runs the tool and
    may be a coroutine function. ``encode`` makes a CallToolResult of what it returned.
    ``convert_error`` gives the source's own error handler a word on what it raised.
    """

    name: str
    description: Any
    input_schema: Mapping[str, Any]
    check: Callable[[Mapping[str, Any]], dict[str, Any]]
    invoke: Callable[[ToolCall], Any]
    encode: Callable[[Any], CallToolResult]
    convert_error: Callable[[Exception, ToolCall], Exception] = lambda exception, call: exception
    title: Any = None
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict)
    icons: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] | None = None
    access: AccessRule = AccessRule()
    # The names in x-mcp-header, and the path of the argument that each mirrors.
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Whether it may raise InputRequired, after which nothing that it wrote may stay.
    may_elicit: bool = False
    # The databases in which it has no transaction around it (Django's non_atomic_requests).
    non_atomic: frozenset[str] = frozenset()
    # The code of its function, where there is one, to tell what that raises itself from the rest.
    code: CodeType | None = None
    # Where it is defined, for people: "newsroom/procedures.py:12". Never sent to clients.
    source: str = ""
    # The function it is made of, likewise: "newsroom.procedures.publish".
    function: str = ""
    options: ToolOptions = ToolOptions()
    # How often a caller may call it, as an administrator has set it: "20/min"; None if not set.
    rate: str | None = None

    @cached_property
    def is_async(self) -> bool:
        """Whether ``invoke`` is a coroutine function."""
        return inspect.iscoroutinefunction(self.invoke)

    def definition(self, revision: Revision) -> dict[str, Any]:
        """The tool as ``tools/list`` shows it at a revision (MCP schema, ``Tool``)."""
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

    ``repaired`` are JSON pointers to arguments that came as strings of JSON (COERCE_STRINGIFIED).
    ``sent`` are the arguments as JSON values, as they came. ``confirmed`` says that a person has
    agreed to this call, and ``approval`` in which row of the approval queue, if it was there.
    """

    tool: Tool
    arguments: dict[str, Any]
    context: Context
    repaired: tuple[str, ...] = ()
    sent: Mapping[str, Any] = field(default_factory=dict)
    confirmed: bool = False
    approval: Any = None

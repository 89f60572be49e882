"""Tools of every source, and calls of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from mcp_bridge.features.context import Context
from mcp_bridge.features.feature import Feature
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.revisions import Revision


def _not_built(*given: object) -> Any:
    raise RuntimeError("The tool has no check, invoke and encode, or was not built.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Feature):
    """
    A tool; the sources of tools differ in how they fill its callables.

    ``check`` takes the arguments of a call as JSON values and returns them as the values that
    ``invoke`` wants, by parameter name; it raises InvalidArguments. ``invoke`` runs the tool and
    may be a coroutine function. ``encode`` makes a CallToolResult of what it returned.
    ``convert_error`` gives the source's own error handler a word on what it raised. ``precheck``
    raises, or returns False, where a call may not be made with its arguments; it may be a coroutine
    function too, and what it writes is undone.
    """

    kind: ClassVar[str] = "tool"

    input_schema: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], dict[str, Any]] = _not_built
    invoke: Callable[[ToolCall], Any] = _not_built
    encode: Callable[[Any], CallToolResult] = _not_built
    convert_error: Callable[[Exception, ToolCall], Exception] = lambda exception, call: exception
    precheck: Callable[[ToolCall], Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict)
    # The names in x-mcp-header, and the path of the argument that each mirrors.
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Whether to check its arguments runs no code of the site's own and asks no database.
    is_plain: bool = False
    # Whether it may raise InputRequired, after which nothing that it wrote may stay.
    may_elicit: bool = False
    # The databases in which it has no transaction around it (Django's non_atomic_requests).
    non_atomic: frozenset[str] = frozenset()

    @cached_property
    def is_async(self) -> bool:
        """Whether ``invoke`` is a coroutine function."""
        return inspect.iscoroutinefunction(self.invoke)

    @cached_property
    def is_read_only(self) -> bool:
        """Whether it says that it changes nothing (MCP schema, ``readOnlyHint``)."""
        return self.annotations.get("readOnlyHint", False)

    @cached_property
    def is_destructive(self) -> bool:
        """Whether it says that it may destroy something (MCP schema, ``destructiveHint``)."""
        return self.annotations.get("destructiveHint", False)

    @property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        schemas = {"input schema": self.input_schema}
        if self.output_schema is not None:
            schemas["output schema"] = self.output_schema
        return schemas

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
        known = revision.tool_fields
        return {name: each for name, each in fields.items() if each is not None and name in known}


class ToolCall(NamedTuple):
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
    sent: Mapping[str, Any] = {}
    binding: str = ""
    confirmed_at: datetime | None = None
    approval: Any = None
    round: int = 1

    @property
    def confirmed(self) -> bool:
        """Whether a person has agreed to this call."""
        return self.confirmed_at is not None

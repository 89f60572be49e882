"""Tools of every source, and their calls."""

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
    raise RuntimeError("The tool lacks check, invoke and encode, or was not built.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Feature):
    """
    A tool, with callables that its source provides.

    ``check`` takes the arguments of a call as JSON values and returns the values for ``invoke`` by
    parameter name; it raises InvalidArguments. ``invoke`` runs the tool and may be a coroutine
    function. ``encode`` converts its return value to a CallToolResult. ``convert_error`` lets the
    source's error handler replace the exception raised. ``precheck`` raises or returns False
    to refuse a call by its arguments; it may be a coroutine function too, and its writes are rolled
    back.
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
    # The names in x-mcp-header, each with the path of the argument that it mirrors.
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Whether checking its arguments runs none of the site's code and no query.
    is_plain: bool = False
    # Whether it may raise InputRequired, after which its writes must be rolled back.
    may_elicit: bool = False
    # The databases without a transaction around its calls (Django's non_atomic_requests).
    non_atomic: frozenset[str] = frozenset()

    @cached_property
    def is_async(self) -> bool:
        """Whether ``invoke`` is a coroutine function."""
        return inspect.iscoroutinefunction(self.invoke)

    @cached_property
    def is_read_only(self) -> bool:
        """Whether it declares that it changes nothing (MCP schema, ``readOnlyHint``)."""
        return self.annotations.get("readOnlyHint", False)

    @cached_property
    def is_destructive(self) -> bool:
        """Whether it declares that it may destroy something (MCP schema, ``destructiveHint``)."""
        return self.annotations.get("destructiveHint", False)

    @property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        schemas = {"input schema": self.input_schema}
        if self.output_schema is not None:
            schemas["output schema"] = self.output_schema
        return schemas

    def definition(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``tools/list`` at a revision (MCP schema, ``Tool``)."""
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
    One call of a tool, with its checked arguments as Python values by parameter name.

    ``sent`` are the arguments as JSON values, as received. ``binding`` identifies the call for its
    confirmation, ``confirmed_at`` is the time of that, and ``approval`` the row of the approval
    queue, if any. ``round`` is 1, plus one for each response to an input request.
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
        """Whether a person has confirmed this call."""
        return self.confirmed_at is not None

"""Tools of every source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from mcp_bridge.features.feature import Feature
from mcp_bridge.protocol.revisions import Revision


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Feature):
    """A tool (MCP, "Tools"); ``annotations`` are its hints by their names in ToolAnnotations."""

    kind: ClassVar[str] = "tool"

    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict)

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

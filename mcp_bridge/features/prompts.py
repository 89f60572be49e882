"""Prompts of every source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mcp_bridge.features.feature import Feature
from mcp_bridge.protocol.revisions import Revision


@dataclass(frozen=True, kw_only=True, eq=False)
class Prompt(Feature):
    """A prompt (MCP, "Prompts"); the members of its input schema are its arguments, as text."""

    kind: ClassVar[str] = "prompt"

    def definition(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``prompts/list`` at a revision (MCP schema, ``Prompt``)."""
        fields: dict[str, Any] = {
            "name": self.name,
            "title": None if self.title is None else str(self.title),
            "description": str(self.description),
            "arguments": self._arguments(revision) or None,
            "icons": list(self.icons) or None,
            "_meta": self.meta,
        }
        known = revision.tool_fields | {"arguments"}
        return {name: each for name, each in fields.items() if each is not None and name in known}

    def _arguments(self, revision: Revision) -> list[dict[str, Any]]:
        required = self.input_schema.get("required", ())
        return [
            {
                "name": name,
                **{
                    key: schema[key]
                    for key in ("title", "description")
                    if key in schema and (key == "description" or key in revision.tool_fields)
                },
                "required": name in required,
            }
            for name, schema in self.input_schema.get("properties", {}).items()
        ]

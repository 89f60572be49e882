"""Ten thousand tools."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bridge.calls.results import encoder
from mcp_bridge.features import AccessRule, Tool
from mcp_bridge.schemas import Outputs
from mcp_bridge.sources.base import Source

COUNT = 10_000


class ManySource(Source):
    """Tools of one kind, with many names."""

    def tools(self) -> Sequence[Tool]:
        return [
            Tool(
                name=f"tool_{number:05}",
                description=f"Return the number {number}.",
                input_schema={"type": "object", "properties": {"text": {"type": "string"}}},
                check=dict,
                invoke=lambda call, number=number: number,  # type: ignore[misc]
                encode=encoder(Outputs(int)),
                access=AccessRule.of(True, ()),
            )
            for number in range(COUNT)
        ]

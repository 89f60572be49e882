"""A custom source, whose tools have JSON Schemas instead of signatures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.urls import URLPattern

from mcp_bridge import ToolError
from mcp_bridge.calls.arguments import plain_checker
from mcp_bridge.features import AccessRule, Tool, ToolCall
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.sources.base import Source
from tests.sources.offers import MISSING, RUNS, SECRET

SOURCE: dict[str, Any] = {"BACKEND": f"{__name__}.OwnSource"}
NUMBER = {"number": {"type": "integer", "minimum": 1, "maximum": 100}}
READ_ONLY, DESTRUCTIVE = {"readOnlyHint": True}, {"destructiveHint": True}


def count(call: ToolCall) -> Any:
    return {"number": call.arguments["number"], "user": call.context.user.get_username()}


def missing(call: ToolCall) -> Any:
    raise ToolError(MISSING)


def broken(call: ToolCall) -> Any:
    raise RuntimeError(SECRET)


def wipe(call: ToolCall) -> Any:
    RUNS.append(call.arguments["name"])
    return {"name": call.arguments["name"]}


def encode(value: Any) -> CallToolResult:
    written = json.dumps(value)
    return CallToolResult.of_json(written, written.encode(), written.encode())


def tool(
    name: str,
    invoke: Callable[[ToolCall], Any],
    members: dict[str, Any],
    annotations: dict[str, bool],
    *needs: Any,
) -> Tool:
    schema = {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }
    return Tool(
        name=name,
        description=f"Do what {name} does.",
        input_schema=schema,
        check=plain_checker(schema),
        invoke=invoke,
        encode=encode,
        annotations=annotations,
        access=AccessRule.of(*needs),
    )


class OwnSource(Source):
    def tools(self) -> Sequence[Tool]:
        return [
            tool("count", count, NUMBER, READ_ONLY, True),
            tool("missing", missing, {}, {}, True),
            tool("broken", broken, {}, {}, True),
            tool("guarded", count, NUMBER, READ_ONLY, False, ("auth.view_user",)),
            tool("wipe", wipe, {"name": {"type": "string"}}, DESTRUCTIVE, True),
        ]


@contextmanager
def offered() -> Iterator[list[URLPattern]]:
    yield []

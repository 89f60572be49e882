"""Tools to be called with mutated arguments; each says that it has run."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.urls import path
from modernrpc.server import RpcServer
from pydantic import BaseModel, Field

from mcp_bridge import Context, mcp_prompt, mcp_resource, mcp_tool
from mcp_bridge.elicitation import elicit
from mcp_bridge.schemas import McpHeader
from mcp_bridge.testing.serving import addresses

# The names of the tools that have run since the list was last emptied.
RUNS: list[str] = []


@dataclass
class Node:
    value: int
    children: list[Node]


class Order(BaseModel):
    number: Annotated[str, Field(pattern=r"^[A-Z]{2}-\d+$", max_length=12)]
    lines: Annotated[list[int], Field(min_length=1, max_length=5)]
    note: str | None = None


class Name(BaseModel):
    name: str


@mcp_tool(public=True, read_only=True)
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    RUNS.append("add")
    return a + b


@mcp_tool
def echo(text: str) -> str:
    """Return the text."""
    RUNS.append("echo")
    return text


@mcp_tool
async def later(value: Any) -> Any:
    """Return the value, in a coroutine."""
    RUNS.append("later")
    return value


@mcp_tool
def tree(root: Node) -> Node:
    """Return a tree."""
    RUNS.append("tree")
    return root


@mcp_tool
def book(
    order: Order | int,
    day: datetime.date,
    at: datetime.datetime | None = None,
    price: Annotated[Decimal, Field(ge=0, le=1000)] = Decimal(1),
    key: uuid.UUID | None = None,
    kinds: frozenset[Literal["a", "b"]] = frozenset(),
    data: bytes = b"",
    named: dict[str, float] | None = None,
) -> str:
    """Book something."""
    RUNS.append("book")
    return "booked"


@mcp_tool
def routed(
    region: Annotated[str, McpHeader("Region")] = "",
    zone: Annotated[int, McpHeader("Zone-Id")] = 0,
) -> str:
    """Take an argument that a proxy may route by."""
    RUNS.append("routed")
    return f"{region} {zone}"


@mcp_tool(
    input_schema={
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "^(a+)+$", "maxLength": 2000},
            "tags": {"type": "array", "uniqueItems": True, "items": {"type": ["string", "object"]}},
            "either": {"oneOf": [{"type": "integer"}, {"multipleOf": 0.5}, {"format": "email"}]},
        },
        "required": ["code"],
        "additionalProperties": False,
    }
)
def by_hand(code: str, tags: list[Any] | None = None, either: Any = None) -> str:
    """Return the code; the schema is handwritten."""
    RUNS.append("by_hand")
    return code


@mcp_tool(confirm=True)
def wipe(name: str, count: int = 1) -> str:
    """Run after a person has agreed."""
    RUNS.append("wipe")
    return "wiped"


@mcp_tool
def ask(context: Context, train: str) -> str:
    """Ask the client in the middle of the call."""
    who = elicit(context, "For whom?", Name)
    RUNS.append("ask")
    return who.name


@mcp_tool(permissions="auth.add_group")
def hidden() -> str:
    """Never run: no caller here has the permission."""
    RUNS.append("hidden")
    return "hidden"


@mcp_resource("notes://{name}/{+path}")
def note(name: str, path: str) -> str:
    """Return a note."""
    return f"{name}: {path}"


@mcp_resource("days://{day}", permissions="auth.add_group")
def hidden_day(day: datetime.date) -> str:
    """Never read: no caller here has the permission."""
    return str(day)


@mcp_prompt
def review(day: datetime.date, tone: Literal["kind", "strict"] = "kind", count: int = 3) -> str:
    """Have a day reviewed."""
    return f"Review {day}, {tone}, {count} times."


@review.complete("day")
def days(value: str) -> list[str]:
    return [each for each in ("2026-07-28", "2026-07-29") if each.startswith(value)]


def urlconf(*, asynchronous: bool) -> Any:
    """Return the addresses of the site."""
    server = RpcServer(register_system_procedures=False)
    tools = (add, echo, later, tree, book, routed, by_hand, wipe, ask, hidden)
    for each in (*tools, note, hidden_day, review):
        server.register_procedure(each)
    return addresses(path("rpc", server.view), asynchronous=asynchronous)

"""The site that the tests serve: one procedure for every thing a procedure can be or do."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from django.contrib.auth.models import Group
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.http import Http404, HttpRequest
from django.urls import include, path
from django.utils.translation import gettext_lazy
from modernrpc import Protocol, RpcNamespace, RpcRequestContext
from modernrpc.exceptions import RPCException
from modernrpc.server import RpcServer
from pydantic import Field
from rest_framework.exceptions import NotFound

from mcp_bridge import Context, ToolError, mcp_tool
from mcp_bridge.protocol.content import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

server = RpcServer()
shop = RpcNamespace()

CALLS: list[str] = []


@dataclass
class Node:
    value: int
    children: list[Node]


@server.register_procedure
@mcp_tool(read_only=True, idempotent=True, open_world=False)
def add(a: int, b: int = 1) -> int:
    """
    Add two numbers.

    :param a: the first number
    """
    CALLS.append("add")
    return a + b


@mcp_tool(title="Echo", destructive=False)
@server.register_procedure
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.register_procedure
@mcp_tool
def tree(root: Node) -> Node:
    """Return a tree."""
    return root


@server.register_procedure
@mcp_tool
def anything(value: Any) -> Any:
    """Return the value."""
    return value


@server.register_procedure
@mcp_tool
async def later(text: str) -> str:
    """Return the text, later."""
    await asyncio.sleep(0)
    return text


@server.register_procedure
@mcp_tool(public=True)
def ping_public() -> dict[str, bool]:
    """Anybody may call this."""
    return {"pong": True}


@server.register_procedure
@mcp_tool(permissions="auth.add_user")
def permitted() -> str:
    """Only for those who may add users."""
    return "permitted"


@server.register_procedure
@mcp_tool(permissions=["auth.add_user", "auth.delete_user"])
def permitted_twice() -> str:
    """Only for those who may add and delete users."""
    return "permitted twice"


def named_ada(request: HttpRequest) -> str | None:
    return "ada's own" if request.user.username == "ada" else None


def raising(request: HttpRequest) -> bool:
    raise RuntimeError("the predicate is broken")


@server.register_procedure(auth=named_ada, context_target="rpc")
@mcp_tool
def for_ada(word: str, rpc: RpcRequestContext) -> str:
    """Only for Ada."""
    assert rpc.request.user.username == "ada"
    assert rpc.server is server
    return f"{word}: {rpc.auth_result}"


@server.register_procedure(auth=raising)
@mcp_tool
def for_nobody() -> str:
    """Its predicate raises."""
    return "never"


@server.register_procedure(name="shop.orders.find")
@mcp_tool
def find_orders(
    status: Literal["open", "sent"] | None = None,
    limit: Annotated[int, Field(ge=1, le=100, description="How many at most.")] = 10,
) -> list[str]:
    """Find orders."""
    return [f"{status}"] * limit


@shop.register_procedure
@mcp_tool(title=gettext_lazy("Yes"), description=gettext_lazy("No"))
def translated() -> None:
    """This text is not the description."""


server.register_namespace(shop, "shop")


@server.register_procedure
@mcp_tool
def who(context: Context) -> dict[str, str]:
    """Say who calls."""
    return {"user": context.user.get_username(), "revision": str(context.revision)}


@server.register_procedure
@mcp_tool
def needs_sampling(context: Context) -> str:
    """Needs a client that can sample."""
    context.require_capability("sampling")
    return "sampled"


@server.register_procedure
@mcp_tool(
    input_schema={
        "type": "object",
        "properties": {"code": {"type": "string", "format": "email", "maxLength": 20}},
        "required": ["code"],
        "additionalProperties": False,
        "$comment": "sent as it is",
    },
    output_schema={
        "type": "object",
        "properties": {"code": {"type": "string", "pattern": "^a"}},
        "required": ["code"],
    },
)
def by_hand(code: str) -> dict[str, str]:
    """Its schemas are written by hand."""
    return {"code": code}


@server.register_procedure
@mcp_tool
def blocks(kind: str) -> list[TextContent | ImageContent] | CallToolResult:
    """Return content blocks."""
    found: dict[str, Any] = {
        "text": TextContent("words", annotations={"priority": 1}),
        "image": ImageContent(b"\x89PNG", "image/png"),
        "audio": AudioContent(b"RIFF", "audio/wav"),
        "link": ResourceLink("https://example.com/a", "a", title="A", size=3),
        "embedded": EmbeddedResource("test://a", "text", "text/plain"),
        "blob": EmbeddedResource("test://b", b"\x00\x01"),
        "mixed": [TextContent("words"), ImageContent(b"\x89PNG", "image/png")],
        "result": CallToolResult(content=[TextContent("whole")], meta={"example.com/a": 1}),
        "error": CallToolResult.error("refused by hand"),
    }
    return found[kind]


@server.register_procedure
@mcp_tool
def fail(how: str) -> Any:
    """Fail in one of many ways."""
    raised: dict[str, BaseException] = {
        "tool": ToolError("Say please."),
        "rpc": RPCException(-32050, "The ledger is closed."),
        "validation": ValidationError({"name": ["Too long.", "Too dull."]}),
        "denied": PermissionDenied("Not today."),
        "404": Http404("No such page."),
        "missing": ObjectDoesNotExist("Book matching query does not exist."),
        "api": NotFound("No such row."),
        "todo": NotImplementedError(),
        "bug": RuntimeError("SECRET-MARKER"),
        "exit": SystemExit(3),
    }
    raise raised[how]


@server.register_procedure
@mcp_tool
def type_error() -> int:
    """Raise a TypeError in the body."""
    return len(3)  # type: ignore[arg-type]


@server.register_procedure
@mcp_tool
def returns(what: str) -> Any:
    """Return what no JSON can hold."""
    if what == "endless":
        sys.setrecursionlimit(sys.getrecursionlimit())
    return {
        "nan": {"x": float("nan")},
        "infinity": [float("inf")],
        "surrogate": "\ud800",
        "object": object(),
        "huge": 10**5000,
        "big": "x" * 100_000,
        "none": None,
    }[what]


@server.register_procedure
@mcp_tool
def wrong_result() -> int:
    """Return something else than the hint says."""
    return "three"  # type: ignore[return-value]


@server.register_procedure
@mcp_tool
def make_group(name: str, then_fail: bool = False) -> str:
    """Write to the database, and perhaps fail."""
    Group.objects.create(name=name)
    if then_fail:
        raise ToolError("Written, then refused.")
    return name


@server.register_procedure
@mcp_tool
def positional(a: int, b: int = 2, /, *, c: int = 3) -> list[int]:
    """Take positional parameters."""
    return [a, b, c]


@server.register_procedure(context_target="rpc")
@mcp_tool
def open_ended(rpc: RpcRequestContext, **rest: int) -> dict[str, int]:
    """Take any names."""
    return rest


# What must never be a tool.


@server.register_procedure
def unmarked() -> str:
    return "unmarked"


@server.register_procedure
@mcp_tool(exposed=False)
def unexposed() -> str:
    """Not exposed."""
    return "unexposed"


@server.register_procedure
@mcp_tool(deprecated=True)
def outdated() -> str:
    """Deprecated."""
    return "outdated"


@server.register_procedure(protocol=Protocol.XML_RPC)
@mcp_tool
def xml_only() -> str:
    """Served over XML-RPC alone."""
    return "xml"


TOOLS = sorted(
    [
        "add",
        "echo",
        "tree",
        "anything",
        "later",
        "ping_public",
        "for_ada",
        "shop_orders_find",
        "shop_translated",
        "who",
        "needs_sampling",
        "by_hand",
        "blocks",
        "fail",
        "type_error",
        "returns",
        "wrong_result",
        "make_group",
        "positional",
        "open_ended",
    ]
)

urlpatterns = [
    path("api/", include([path("rpc", server.view)])),
    path("rpc-async", server.async_view),
    path("", include("mcp_bridge.urls")),
]

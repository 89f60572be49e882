"""The site that the tests serve: one procedure for every feature of procedures."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.urls import include, path
from django.utils.translation import gettext_lazy
from modernrpc import Protocol, RpcNamespace, RpcRequestContext
from modernrpc.server import RpcServer
from pydantic import Field

from mcp_bridge import Context, ToolError, mcp_tool
from tests.support.procedures import outcomes

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
@mcp_tool(public=True, read_only=True)
def ping_public() -> dict[str, bool]:
    """Return a pong; open to every caller."""
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
    """Return a text; the tool's predicate raises."""
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
server.register_namespace(outcomes)


@server.register_procedure
@mcp_tool
def who(context: Context) -> dict[str, str]:
    """Say who calls."""
    return {"user": context.user.get_username(), "revision": str(context.revision)}


@server.register_procedure
@mcp_tool
def needs_sampling(context: Context) -> str:
    """Return a text; needs a client that can sample."""
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
    """Return the code; the schemas are handwritten."""
    return {"code": code}


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


# Procedures that must never be tools.


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

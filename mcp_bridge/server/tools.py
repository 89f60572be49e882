"""The tools of a server: listed in pages, and called (MCP, "Tools")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from django.utils.translation import get_language

from mcp_bridge.conf import conf
from mcp_bridge.features import Context, Tool
from mcp_bridge.protocol import (
    Answers,
    InvalidParamsError,
    JSONObject,
    Request,
    Revision,
    UnknownToolError,
    pagination,
)
from mcp_bridge.protocol.input_requests import read_answers
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.text import cut
from mcp_bridge.server.calls import CallResult, amake_call, make_call
from mcp_bridge.server.methods import Endpoint, Method, Methods, Send, cacheable

# The params with which a client answers an InputRequiredResult.
_ANSWERS: Final = frozenset({"requestState", "inputResponses"})


@dataclass(frozen=True, slots=True)
class ListToolsResult:
    """One page of tools (MCP schema, ``ListToolsResult``); ``tools`` is a JSON array."""

    tools: bytes
    next_cursor: str | None

    def to_json(self, revision: Revision, server_meta: bytes = b"{}") -> bytes:
        """Return the page as JSON text at a revision."""
        rest = dict(cacheable(revision))
        if self.next_cursor:
            rest["nextCursor"] = self.next_cursor
        members = b"" if not rest else b"," + encode(rest)[1:-1]
        meta = b"" if server_meta == b"{}" else b',"_meta":' + server_meta
        return b'{"tools":' + self.tools + members + meta + b"}"


def list_tools(
    endpoint: Endpoint, request: Request, context: Context, send: Send
) -> ListToolsResult:
    """Return one page of the tools that the caller may use (MCP, "Tools", "Listing tools")."""
    given = "cursor" in request.params
    position = pagination.position(request.params["cursor"]) if given else None
    tools, following = page(endpoint, position, context)
    array = endpoint.snapshot.definitions(tools, request.revision, get_language())
    return ListToolsResult(array, following)


def page(
    endpoint: Endpoint, position: str | int | None, context: Context
) -> tuple[tuple[Tool, ...], str | None]:
    """Return the tools after a position, PAGE_SIZE at most, and the cursor of the next page."""
    snapshot = endpoint.snapshot
    start = snapshot.following(position) if isinstance(position, str) else snapshot
    visible = endpoint.policy.filter(start, context)
    if isinstance(position, int):
        visible = islice(visible, position, None)
    size = conf.PAGE_SIZE
    tools = tuple(islice(visible, size + 1))
    if len(tools) <= size:
        return tools, None
    return tools[:size], pagination.after(tools[size - 1].name)


def call_named(endpoint: Endpoint, name: object, arguments: object, context: Context) -> CallResult:
    """Call a tool by name in this process. Raises UnknownToolError, and what ``call`` raises."""
    return make_call(name, arguments, context, partial(_find, endpoint, name, arguments, context))


def call_tool(endpoint: Endpoint, request: Request, context: Context, send: Send) -> CallResult:
    """Call the tool that is asked for (MCP, "Tools", "Calling tools")."""
    name, arguments = request.params.get("name"), request.params.get("arguments")
    find = partial(_find, endpoint, name, arguments, context, request)
    return make_call(name, arguments, context, find)


async def acall_tool(
    endpoint: Endpoint, request: Request, context: Context, send: Send
) -> CallResult:
    """Do the same; a coroutine function runs on the event loop of the caller."""
    name, arguments = request.params.get("name"), request.params.get("arguments")
    find = partial(_find, endpoint, name, arguments, context, request)
    return await amake_call(name, arguments, context, find)


CAPABILITIES: Final[JSONObject] = {"tools": {}}
METHODS: Final[Methods] = {
    "tools/list": Method(list_tools),
    "tools/call": Method(call_tool, acall_tool),
}


def _find(
    endpoint: Endpoint,
    name: object,
    arguments: object,
    context: Context,
    request: Request | None = None,
) -> tuple[Tool, Answers | None]:
    """Return the tool of that name, and the answers that the request brings, if there is one."""
    if not isinstance(name, str):
        raise InvalidParamsError("Invalid params: name must be a string, a tool's name.")
    if not isinstance(arguments, dict | None):
        raise InvalidParamsError("Invalid params: arguments must be an object.")
    tool = endpoint.snapshot.tools.get(name)
    if tool is None or not endpoint.policy.allows(tool, context):
        raise UnknownToolError(f"Unknown tool: {cut(name)}")
    if request is None:
        return tool, None
    if tool.headers and request.headers is not None:
        request.headers.check_parameters(tool.headers, arguments or {})
    if not request.revision.input_required or _ANSWERS.isdisjoint(request.params):
        return tool, None
    return tool, read_answers(request.params)

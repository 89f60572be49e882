"""The tools of a server: listed in pages, and called (MCP, "Tools")."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import islice
from typing import Final, NamedTuple

from mcp_bridge.access.policy import AccessPolicy, opened_by, read_caller
from mcp_bridge.access.throttling import caller_of
from mcp_bridge.concurrency.slots import CallSlot, slot_of
from mcp_bridge.features import Context, Tool
from mcp_bridge.protocol import (
    Answers,
    InvalidParamsError,
    JSONObject,
    Request,
    Revision,
    UnknownToolError,
    jsonrpc,
    pagination,
)
from mcp_bridge.protocol.input_requests import read_answers
from mcp_bridge.protocol.text import cut as shortened
from mcp_bridge.registry.listing import cut
from mcp_bridge.server.methods import Endpoint, Method, Methods, Send, cacheable
from mcp_bridge.server.perform import CallResult, amake_call, make_call, start_blocks

# The params with which a client answers an InputRequiredResult.
_ANSWERS: Final = frozenset({"requestState", "inputResponses"})


class ListToolsResult(NamedTuple):
    """One page of tools (MCP schema, ``ListToolsResult``); ``tools`` is a JSON array."""

    tools: bytes
    next_cursor: str | None

    def to_json(self, revision: Revision, server_meta: bytes = b"{}") -> tuple[bytes, ...]:
        """Return the page at a revision as parts of JSON text: it may be half a megabyte."""
        meta = b"" if server_meta == b"{}" else b',"_meta":' + server_meta
        rest = _other_members(self.next_cursor, **cacheable(revision))
        return b'{"tools":', self.tools, rest, meta, b"}"


@lru_cache(maxsize=256)
def _other_members(next_cursor: str | None, **rest: object) -> bytes:
    if next_cursor:
        rest["nextCursor"] = next_cursor
    return b"," + jsonrpc.encode(rest)[1:-1] if rest else b""


def list_tools(
    endpoint: Endpoint, request: Request, context: Context, send: Send
) -> ListToolsResult:
    """Return one page of the tools that the caller may use (MCP, "Tools", "Listing tools")."""
    return page(endpoint, request.params, context, request.revision)


def page(
    endpoint: Endpoint, params: Mapping[str, object], context: Context, revision: Revision
) -> ListToolsResult:
    """Return the page at the cursor in ``params``, the first one without one."""
    position = pagination.position(params["cursor"]) if "cursor" in params else None
    snapshot, policy = endpoint.snapshot, endpoint.policy
    kind = type(policy)
    is_default = kind.allows is AccessPolicy.allows and kind.filter is AccessPolicy.filter
    is_limited = getattr(context.auth, "allowed_tools", None) is not None
    if is_default and not is_limited and snapshot.by_rule is not None:
        # One decision a rule, however many tools have it.
        rules = frozenset(tool.access for tool in policy.filter(snapshot.by_rule, context))
        found = snapshot.page(rules, position, revision)
    else:
        start = snapshot.following(position) if isinstance(position, str) else snapshot
        visible = policy.filter(opened_by(context.auth, start), context)
        if isinstance(position, int):
            visible = islice(visible, position, None)
        found = cut(visible, partial(snapshot.written, revision=revision))
    return ListToolsResult(
        found.array, None if found.last is None else pagination.after(found.last)
    )


def call_named(endpoint: Endpoint, name: object, arguments: object, context: Context) -> CallResult:
    """Call a tool by name in this process. Raises UnknownToolError, and what ``call`` raises."""
    return make_call(
        name, arguments, context, lambda: (_find(endpoint, name, arguments, context), None)
    )


def call_tool(endpoint: Endpoint, request: Request, context: Context, send: Send) -> CallResult:
    """Call the tool that is asked for (MCP, "Tools", "Calling tools")."""
    name, arguments = request.params.get("name"), request.params.get("arguments")
    slot = CallSlot()
    try:
        find = partial(_find_for, endpoint, request, context, slot)
        return make_call(name, arguments, context, find)
    finally:
        slot.free()


async def acall_tool(
    endpoint: Endpoint, request: Request, context: Context, send: Send
) -> CallResult:
    """Do the same, to be awaited under ``alternate``; coroutine functions run on the event loop."""
    name, arguments = request.params.get("name"), request.params.get("arguments")
    blocks = _call_blocks(endpoint, request, context)
    slot = CallSlot()
    slot.request = slot_of(context.request)
    try:
        find = partial(_find_for, endpoint, request, context, slot)
        return await amake_call(name, arguments, context, find, blocks=blocks)
    finally:
        slot.free()


def _list_blocks(endpoint: Endpoint, request: Request, context: Context) -> bool:
    """Return whether a list may ask the database or the site's own code."""
    # Whoever is nobody has no permissions to be asked for.
    is_nobody = context.auth is None and not getattr(context.user, "is_authenticated", False)
    is_known = type(endpoint.policy) is AccessPolicy and endpoint.snapshot.is_still
    return not (is_nobody and is_known)


def _call_blocks(endpoint: Endpoint, request: Request, context: Context) -> bool:
    """Return whether what comes before the tool may ask the database or the site's own code."""
    name = request.params.get("name")
    tool = endpoint.snapshot.tools.get(name) if isinstance(name, str) else None
    return (
        tool is None
        or _may_block(tool)
        or context.auth is not None
        or type(endpoint.policy) is not AccessPolicy
        or not _ANSWERS.isdisjoint(request.params)
        or start_blocks(tool)
    )


@lru_cache(maxsize=4096)
def _may_block(tool: Tool) -> bool:
    """Return whether a call of the tool may need a thread before it runs, or to run."""
    rule = tool.access
    is_open = rule.public and rule.predicate is None and not rule.scopes
    is_unasked = tool.precheck is None and not tool.options.confirm
    return not (tool.is_async and tool.is_plain and is_open and is_unasked)


CAPABILITIES: Final[JSONObject] = {"tools": {}}
METHODS: Final[Methods] = {
    "tools/list": Method(list_tools, blocks=_list_blocks),
    "tools/call": Method(call_tool, acall_tool, alternates=True),
}


def _find(endpoint: Endpoint, name: object, arguments: object, context: Context) -> Tool:
    """Return the tool of that name. Raises UnknownToolError where the caller has none."""
    if not isinstance(name, str):
        raise InvalidParamsError("Invalid params: name must be a string, a tool's name.")
    if not isinstance(arguments, dict | None):
        raise InvalidParamsError("Invalid params: arguments must be an object.")
    snapshot = endpoint.snapshot
    tool = snapshot.tools.get(name)
    # Of a name that no tool has, another tool is asked about: time is not to tell.
    asked = tool or snapshot.stand_in
    is_allowed = (
        asked is not None
        and any(opened_by(context.auth, [asked]))
        and endpoint.policy.allows(asked, context)
    )
    if tool is None or not is_allowed:
        read_caller(context, snapshot.asks_of)
        raise UnknownToolError(f"Unknown tool: {shortened(name)}")
    return tool


def _find_for(
    endpoint: Endpoint, request: Request, context: Context, slot: CallSlot
) -> tuple[Tool, Answers | None]:
    """Return the tool that is asked for, with the answers that the request brings; take a slot."""
    params = request.params
    arguments = params.get("arguments")
    tool = _find(endpoint, params.get("name"), arguments, context)
    if tool.headers and request.headers is not None:
        request.headers.check_parameters(tool.headers, arguments or {})
    slot.take(caller_of(context))
    if not request.revision.input_required or _ANSWERS.isdisjoint(params):
        return tool, None
    return tool, read_answers(params)

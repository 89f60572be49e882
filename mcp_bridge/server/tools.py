"""The tools of a server: listed in pages, and called (MCP, "Tools")."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import islice
from typing import Final, NamedTuple

from mcp_bridge.access.policy import AccessPolicy, opened_by, read_caller
from mcp_bridge.access.throttling import caller_of
from mcp_bridge.concurrency.places import drive, in_thread, may_block
from mcp_bridge.concurrency.slots import CallSlot
from mcp_bridge.features import Context, Tool
from mcp_bridge.protocol import (
    InvalidParamsError,
    JSONObject,
    Request,
    Revision,
    UnknownToolError,
    jsonrpc,
    pagination,
)
from mcp_bridge.protocol.input_requests import read_answers
from mcp_bridge.registry.listing import cut
from mcp_bridge.server.methods import Endpoint, Methods, Send, cacheable
from mcp_bridge.server.perform import Call, CallResult, perform

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


async def list_tools(
    endpoint: Endpoint, request: Request, context: Context, send: Send
) -> ListToolsResult:
    """Return one page of the tools that the caller may use (MCP, "Tools", "Listing tools")."""
    # Whoever is nobody has no permissions to be asked for.
    is_nobody = context.auth is None and not getattr(context.user, "is_authenticated", False)
    policy = endpoint.policy
    asks_code = endpoint.snapshot.by_rule is None or may_block(policy.filter, policy.allows)
    if asks_code or not is_nobody:
        await in_thread()
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
        rules = frozenset(each.access for each in policy.filter(snapshot.by_rule, context))
        found = snapshot.page(Tool.kind, rules, position, revision)
    else:
        start = snapshot.following(Tool.kind, position if isinstance(position, str) else "")
        visible = policy.filter(opened_by(context.auth, start), context)
        if isinstance(position, int):
            visible = islice(visible, position, None)
        found = cut(visible, partial(snapshot.written, revision=revision))
    return ListToolsResult(
        found.array, None if found.last is None else pagination.after(found.last)
    )


def call_named(endpoint: Endpoint, name: object, arguments: object, context: Context) -> CallResult:
    """Call a tool by name in this process. Raises UnknownToolError, and what ``call`` raises."""

    async def find(call: Call) -> Tool:
        return await _find(endpoint, call)

    return drive(perform(Call(name, arguments, context), find))


async def call_tool(
    endpoint: Endpoint, request: Request, context: Context, send: Send
) -> CallResult:
    """Call the tool that is asked for (MCP, "Tools", "Calling tools")."""
    params = request.params
    slot: CallSlot | None = None

    async def find(call: Call) -> Tool:
        tool = await _find(endpoint, call)
        if tool.headers and request.headers is not None:
            request.headers.check_parameters(tool.headers, params.get("arguments") or {})
        nonlocal slot
        slot = CallSlot(caller_of(context), getattr(context.request, "mcp_slot", None))
        if request.revision.input_required and not _ANSWERS.isdisjoint(params):
            call.answers = read_answers(params)
        return tool

    try:
        call = Call(params.get("name"), params.get("arguments"), context)
        return await perform(call, find)
    finally:
        if slot is not None:
            slot.free()


CAPABILITIES: Final[JSONObject] = {"tools": {}}
METHODS: Final[Methods] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
}


async def _find(endpoint: Endpoint, call: Call) -> Tool:
    """Return the tool of that name. Raises UnknownToolError where the caller has none."""
    name, context, snapshot = call.name, call.context, endpoint.snapshot
    if not isinstance(name, str):
        raise InvalidParamsError("Invalid params: name must be a string, a tool's name.")
    if not isinstance(call.arguments, dict | None):
        raise InvalidParamsError("Invalid params: arguments must be an object.")
    tool = snapshot.tools.get(name)
    # Of a name that no tool has, another tool is asked about: time is not to tell.
    asked = tool or snapshot.stand_in
    is_open = tool is not None and tool.access.is_open and context.auth is None
    if not (is_open and hasattr(endpoint.policy.allows, "never_blocks")):
        await in_thread()
    is_allowed = (
        asked is not None
        and any(opened_by(context.auth, [asked]))
        and endpoint.policy.allows(asked, context)
    )
    if tool is None or not is_allowed:
        read_caller(context, snapshot.asks_of)
        raise UnknownToolError(name)
    call.tool = tool
    return tool

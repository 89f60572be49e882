"""The tools of a server, listed in pages, and its methods (MCP, "Tools")."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import islice
from typing import Final, NamedTuple

from mcp_bridge.access.policy import AccessPolicy, is_limited, may_discover, opened_by
from mcp_bridge.concurrency.places import in_thread, may_block
from mcp_bridge.conf import conf
from mcp_bridge.features import Context, Tool
from mcp_bridge.protocol import JSONObject, Request, Revision, jsonrpc, pagination
from mcp_bridge.registry.listing import cut
from mcp_bridge.server.methods import Endpoint, Methods, cacheable
from mcp_bridge.server.perform import call_feature


class ListResult(NamedTuple):
    """One page of a list (MCP schema, such as ``ListToolsResult``); ``array`` is JSON text."""

    array: bytes
    next_cursor: str | None
    listing: str = "tools"

    def to_json(self, revision: Revision, server_meta: bytes = b"{}") -> tuple[bytes, ...]:
        """Return the page at a revision as parts of JSON text: it may be half a megabyte."""
        meta = b"" if server_meta == b"{}" else b',"_meta":' + server_meta
        rest = _other_members(self.next_cursor, **cacheable(revision))
        return b'{"' + self.listing.encode() + b'":', self.array, rest, meta, b"}"


@lru_cache(maxsize=256)
def _other_members(next_cursor: str | None, **rest: object) -> bytes:
    if next_cursor:
        rest["nextCursor"] = next_cursor
    return b"," + jsonrpc.encode(rest)[1:-1] if rest else b""


async def list_features(
    kind: str, listing: str, endpoint: Endpoint, request: Request, context: Context
) -> ListResult:
    """Return one page of the features of a list that the caller may use (MCP, "Pagination")."""
    # Anonymous callers do not have permissions to look up.
    is_nobody = context.auth is None and not getattr(context.user, "is_authenticated", False)
    policy = endpoint.policy
    asks_code = endpoint.snapshot.by_rule is None or may_block(policy.filter, policy.allows)
    if asks_code or not is_nobody or conf.DISCOVERY_PERMISSION is not None:
        await in_thread()
    return page(endpoint, request.params, context, request.revision, kind, listing)


def page(
    endpoint: Endpoint,
    params: Mapping[str, object],
    context: Context,
    revision: Revision,
    kind: str = Tool.kind,
    listing: str = "tools",
) -> ListResult:
    """
    Return the page at the cursor in ``params``, or the first page without a cursor.

    It is empty for a caller without DISCOVERY_PERMISSION.
    """
    position = pagination.position(params["cursor"]) if "cursor" in params else None
    if not may_discover(context):
        return ListResult(b"[]", None, listing)
    snapshot, policy = endpoint.snapshot, endpoint.policy
    # Resources and templates are two lists of one kind.
    of_list = listing if kind == "resource" else None
    code = type(policy)
    is_default = code.allows is AccessPolicy.allows and code.filter is AccessPolicy.filter
    if is_default and not is_limited(context.auth) and snapshot.by_rule is not None:
        # One decision per rule, however many tools share it.
        rules = frozenset(each.access for each in policy.filter(snapshot.by_rule, context))
        found = snapshot.page(kind, rules, position, revision, of_list)
    else:
        start = snapshot.following(kind, position if isinstance(position, str) else "", of_list)
        visible = policy.filter(opened_by(context.auth, start), context)
        if isinstance(position, int):
            visible = islice(visible, position, None)
        found = cut(visible, partial(snapshot.written, revision=revision, listing=of_list))
    last = None if found.last is None else pagination.after(found.last)
    return ListResult(found.array, last, listing)


CAPABILITIES: Final[JSONObject] = {"tools": {}}
METHODS: Final[Methods] = {
    "tools/list": partial(list_features, Tool.kind, "tools"),
    "tools/call": call_feature,
}

"""Answer messages with a reply: convert results and all exceptions to bytes."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from mcp_bridge.protocol import jsonrpc, requests
from mcp_bridge.protocol.errors import InternalError, ProtocolError
from mcp_bridge.protocol.headers import Headers
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.requests import Request
from mcp_bridge.protocol.revisions import UNDECLARED, Revision
from mcp_bridge.protocol.text import quoted

logger = get_logger("mcp_bridge.protocol")

_EMPTY: Final = b"{}"
# Headers that are meaningful only with the HTTP status of their error.
_WITH_STATUS: Final = frozenset({"WWW-Authenticate", "Retry-After"})
# Looking up an enum member costs a function call.
_OK: Final = HTTPStatus.OK
_ACCEPTED: Final = HTTPStatus.ACCEPTED
# The server_info that was sent last, which is never mutated, and its ``_meta`` as JSON.
_latest_meta: tuple[JSONObject, bytes] = ({}, _EMPTY)


class Encodable(Protocol):
    """A result that serialises itself."""

    def to_json(self, revision: Revision, server_meta: bytes) -> bytes | tuple[bytes, ...]: ...


# The result of a request: a JSON object, or an object that serialises itself as one.
Result: TypeAlias = JSONObject | Encodable


class Reply(NamedTuple):
    """
    A reply: the HTTP status, the JSON text (None for an empty body), and headers.

    ``events`` are sent instead of a body: a stream of server-sent events, as a transport reads it.
    """

    status: HTTPStatus
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    events: Any = None


_NOTHING: Final = Reply(_ACCEPTED)


async def answer(
    body: bytes,
    handle: Callable[[Request], Awaitable[Result]],
    *,
    headers: Headers | None = None,
    server_info: JSONObject | None = None,
    assumed: Revision = UNDECLARED,
    take: Callable[[object], Awaitable[None]] | None = None,
) -> Reply:
    """
    Return the reply to ``body``, a message or a batch of messages.

    ``handle`` returns the result of one request, or takes a notification, or raises ProtocolError;
    any other exception is logged, and the client receives one sentence. ``headers`` is None on a
    transport without headers (MCP, "stdio"); ``assumed`` is the revision of a legacy message
    without a header. ``server_info`` is the server's Implementation, which is sent in the
    ``_meta`` of each modern result. ``take`` receives a legacy client's responses, if it is asked.
    """
    replies = []
    try:
        found = jsonrpc.decode(body)
        batch = requests.read_batch(found, headers, assumed) if isinstance(found, list) else None
    except ProtocolError as error:
        return refuse(error)
    for number, message in enumerate((found,) if batch is None else batch):
        request: Request | None = None
        try:
            request = requests.read_message(message, headers, assumed)
            if request is None:
                if take is not None:
                    await take(message)
                replies.append(_NOTHING)
                continue
            request.number = None if batch is None else number
            try:
                result = await handle(request)
            except ProtocolError as error:
                # Without its own HTTP status, the error is sent as a result.
                if error.result is None or (batch is None and headers is not None):
                    raise
                result = cast(Result, error.result)
            is_answered = request.id is not None
            reply = Reply(_OK, _response(request, result, server_info)) if is_answered else _NOTHING
            replies.append(reply)
        except Exception as exception:
            is_ignored = batch is not None and request is not None and request.id is None
            replies.append(_NOTHING if is_ignored else refuse(exception, request))
    if batch is None:
        return replies[0]
    bodies = [reply.body for reply in replies if reply.body is not None]
    if not bodies:
        return _NOTHING
    return Reply(status=_OK, body=b"[" + b",".join(bodies) + b"]")


def _response(request: Request, result: Result, server_info: JSONObject | None) -> bytes:
    global _latest_meta
    meta = _EMPTY
    if request.revision.modern and server_info is not None:
        known, meta = _latest_meta
        if server_info is not known:
            meta = jsonrpc.encode({requests.SERVER_INFO: server_info})
            _latest_meta = server_info, meta
    # Cheaper for tool calls than testing for a Mapping.
    to_json = getattr(result, "to_json", None)
    if to_json is not None:
        written = to_json(request.revision, meta)
    else:
        members = cast(JSONObject, result)
        if meta is not _EMPTY:
            own = members.get("_meta", {})
            members = {**members, "_meta": {**own, requests.SERVER_INFO: server_info}}
        written = jsonrpc.encode(members)
    number = request.id
    written_id = b"%d" % number if isinstance(number, int) else jsonrpc.encode(number)
    parts = (written,) if isinstance(written, bytes) else written
    # Joined once: copying a large result again would take longer than everything else.
    return b"".join((b'{"jsonrpc":"2.0","id":', written_id, b',"result":', *parts, b"}"))


def refuse(exception: Exception, request: Request | None = None) -> Reply:
    """Return the reply for the exception, being handled, that ended a request."""
    subject = "The request" if request is None else f"The request {quoted(request.method)}"
    error = exception if isinstance(exception, ProtocolError) else internal_error(subject)
    status, request_id = error.http_status, error.request_id
    if request is not None:
        request_id = request.id
        # To a legacy client, 404 means that its session is gone, and 400 that the request was not
        # read. It reads a challenge or Retry-After only with the matching status.
        keeps = request.revision.modern or error.keeps_status
        keeps = keeps or not _WITH_STATUS.isdisjoint(error.headers)
        status = status if keeps else HTTPStatus.OK
        if request_id is None and status == HTTPStatus.OK:
            # The client of a notification reads nothing but the status.
            status = HTTPStatus.BAD_REQUEST
    body = jsonrpc.error_response(request_id, error)
    return Reply(status=status, body=body, headers=error.headers)


def internal_error(subject: str) -> InternalError:
    """Log the exception being handled, and return the error for the client."""
    reference = secrets.token_hex(6)
    logger.exception("%s failed (reference %s)", subject, reference)
    return InternalError(
        f"The server failed to answer; its log says why under the reference {reference}."
    )

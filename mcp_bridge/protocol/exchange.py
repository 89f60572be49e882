"""Messages in, a reply out: where results and exceptions become bytes, and no exception is left."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol, TypeAlias

from mcp_bridge.protocol import jsonrpc, requests
from mcp_bridge.protocol.errors import InternalError, ProtocolError
from mcp_bridge.protocol.headers import Headers
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.protocol.requests import Request
from mcp_bridge.protocol.revisions import Revision
from mcp_bridge.protocol.text import quoted

logger = logging.getLogger("mcp_bridge.protocol")


class Encodable(Protocol):
    """A result that writes itself."""

    def to_json(self, revision: Revision, server_meta: bytes) -> bytes: ...


# The result of a request: a JSON object, or an object that writes itself as one.
Result: TypeAlias = JSONObject | Encodable


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What to send: an HTTP status, the JSON text (None for an empty body), and headers."""

    status: HTTPStatus
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def answer(
    body: bytes,
    handle: Callable[[Request], Result],
    *,
    headers: Headers | None = None,
    server_info: JSONObject | None = None,
) -> Reply:
    """
    Return the reply to what is in ``body``, a message or a batch of them.

    ``handle`` returns the result of one request or raises ProtocolError; anything else that it
    raises is logged, and the client reads one sentence. ``headers`` is None on a transport
    without headers (MCP, "stdio"). ``server_info`` is the server's Implementation, which each
    modern result carries in its ``_meta``.
    """

    async def ahandle(request: Request) -> Result:
        return handle(request)

    coroutine = aanswer(body, ahandle, headers=headers, server_info=server_info)
    try:
        # Nothing in it waits: it ends at the first step.
        while True:
            coroutine.send(None)
    except StopIteration as ended:
        reply: Reply = ended.value
        return reply


async def aanswer(
    body: bytes,
    handle: Callable[[Request], Awaitable[Result]],
    *,
    headers: Headers | None = None,
    server_info: JSONObject | None = None,
) -> Reply:
    """Do the same as ``answer``, for a ``handle`` that is a coroutine function."""

    async def reply_to(message: object) -> Reply:
        try:
            request = requests.read_message(message, headers)
        except ProtocolError as error:
            return refuse(error)
        if request is None:
            return Reply(status=HTTPStatus.ACCEPTED)
        try:
            result = await handle(request)
            meta = {}
            if request.revision.modern and server_info is not None:
                meta = {requests.SERVER_INFO: server_info}
            if isinstance(result, Mapping):
                written = jsonrpc.encode({**result, "_meta": meta} if meta else result)
            else:
                written = result.to_json(request.revision, jsonrpc.encode(meta) if meta else b"{}")
            return Reply(status=HTTPStatus.OK, body=jsonrpc.result_response(request.id, written))
        except Exception as exception:
            return refuse(exception, request)

    try:
        message = jsonrpc.decode(body)
        if not isinstance(message, list):
            return await reply_to(message)
        batch = requests.read_batch(message, headers)
    except ProtocolError as error:
        return refuse(error)
    replies = [await reply_to(each) for each in batch]
    bodies = [reply.body for reply in replies if reply.body is not None]
    if not bodies:
        return Reply(status=HTTPStatus.ACCEPTED)
    return Reply(status=HTTPStatus.OK, body=b"[" + b",".join(bodies) + b"]")


def refuse(exception: Exception, request: Request | None = None) -> Reply:
    """Return the reply where an exception, which is being handled, has ended a request."""
    subject = "The request" if request is None else f"The request {quoted(request.method)}"
    error = exception if isinstance(exception, ProtocolError) else internal_error(subject)
    status, request_id = error.http_status, error.request_id
    if request is not None:
        request_id = request.id
        # To a legacy client a 404 says that its session is gone, and a 400 that nothing was read.
        status = status if request.revision.modern else HTTPStatus.OK
    body = jsonrpc.error_response(request_id, error)
    return Reply(status=status, body=body, headers=error.headers)


def internal_error(subject: str) -> InternalError:
    """Log the exception that is being handled, and return the error for the client."""
    reference = secrets.token_hex(6)
    logger.exception("%s failed (reference %s)", subject, reference)
    return InternalError(
        f"The server failed to answer; its log says why under the reference {reference}."
    )

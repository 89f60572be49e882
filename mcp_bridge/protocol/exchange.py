"""
One message in, one reply out: where results and errors become bytes.

``answer`` turns every exception into an error on the wire, so that a transport only reads bytes and
writes bytes. ``aanswer`` does the same for a handler that is awaited.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
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
    exchange = Exchange(body, headers, server_info)
    for request in exchange.requests():
        try:
            exchange.put_result(request, handle(request))
        except Exception as exception:
            exchange.put_failure(request, exception)
    return exchange.reply()


async def aanswer(
    body: bytes,
    handle: Callable[[Request], Awaitable[Result]],
    *,
    headers: Headers | None = None,
    server_info: JSONObject | None = None,
) -> Reply:
    """Do the same as ``answer``, for a ``handle`` that is a coroutine function."""
    exchange = Exchange(body, headers, server_info)
    for request in exchange.requests():
        try:
            exchange.put_result(request, await handle(request))
        except Exception as exception:
            exchange.put_failure(request, exception)
    return exchange.reply()


def refuse(error: ProtocolError) -> Reply:
    """Return the reply to a request that is refused before its message is read."""
    body = jsonrpc.error_response(error.request_id, error)
    return Reply(status=error.http_status, body=body, headers=error.headers)


def internal_error(subject: str) -> InternalError:
    """Log the exception that is being handled, and return the error for the client."""
    reference = secrets.token_hex(6)
    logger.exception("%s failed (reference %s)", subject, reference)
    return InternalError(
        f"The server failed to answer; its log says why under the reference {reference}."
    )


class Exchange:
    """One POST: the messages in it, and the responses gathered so far."""

    def __init__(
        self, body: bytes, headers: Headers | None, server_info: JSONObject | None
    ) -> None:
        self._body = body
        self._headers = headers
        self._server_info = server_info
        self._batch = False
        self._responses: list[bytes] = []
        self._status = HTTPStatus.OK
        self._reply_headers: Mapping[str, str] = {}

    def requests(self) -> Iterator[Request]:
        """Yield the requests to answer; what cannot be read is answered here and left out."""
        try:
            message = jsonrpc.decode(self._body)
            self._batch = isinstance(message, list)
            messages = requests.read_batch(message, self._headers) if self._batch else [message]
        except ProtocolError as error:
            self._batch = False
            self._put_error(error, error.http_status)
            return
        for each in messages:
            try:
                request = requests.read_message(each, self._headers)
            except ProtocolError as error:
                self._put_error(error, error.http_status)
            else:
                if request is not None:
                    yield request

    def put_result(self, request: Request, result: Result) -> None:
        """Answer a request with its result."""
        meta: JSONObject = {}
        if request.revision.modern and self._server_info is not None:
            meta = {requests.SERVER_INFO: self._server_info}
        if isinstance(result, Mapping):
            written = jsonrpc.encode({**result, "_meta": meta} if meta else result)
        else:
            written = result.to_json(request.revision, jsonrpc.encode(meta) if meta else b"{}")
        self._responses.append(jsonrpc.result_response(request.id, written))

    def put_failure(self, request: Request, exception: Exception) -> None:
        """Answer with the exception that is being handled."""
        if isinstance(exception, ProtocolError):
            error = exception
        else:
            error = internal_error(f"The request {quoted(request.method)}")
        error.request_id = request.id
        # To a legacy client a 404 says that its session is gone, and a 400 that nothing was read.
        self._put_error(error, error.http_status if request.revision.modern else HTTPStatus.OK)

    def _put_error(self, error: ProtocolError, status: HTTPStatus) -> None:
        self._responses.append(jsonrpc.error_response(error.request_id, error))
        self._status = status
        self._reply_headers = error.headers

    def reply(self) -> Reply:
        """Return what to send for all of it."""
        if not self._responses:
            return Reply(status=HTTPStatus.ACCEPTED)
        if self._batch:
            return Reply(status=HTTPStatus.OK, body=b"[" + b",".join(self._responses) + b"]")
        return Reply(status=self._status, body=self._responses[0], headers=self._reply_headers)

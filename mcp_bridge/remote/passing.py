"""Pass one message through to a remote server: admit it, record it, relay it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from time import sleep
from typing import Any, ClassVar, Final

from django.db import connections
from django.http import HttpRequest

from mcp_bridge.access.policy import caller_of, is_limited
from mcp_bridge.calls.interceptors import having, see_request
from mcp_bridge.concurrency import places
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import JSONObject, ProtocolError, Reply, Request, errors, jsonrpc
from mcp_bridge.records import recorder
from mcp_bridge.remote.gateway import (
    MAX_EVENT_BYTES,
    UPSTREAM,
    Gateway,
    Unsendable,
    status_class,
)
from mcp_bridge.remote.relay import REQUEST_HEADERS, GatewayError, Relay

# Events that a client may be behind before the server is read on.
_MOST_UNREAD: Final = 8
_COMMENT: Final = b":\n\n"


class UnknownServerError(errors.ForbiddenError):
    """There is no such server, or not for this caller."""

    code = 404
    http_status = HTTPStatus.NOT_FOUND
    refusal = "forbidden"

    def __init__(self) -> None:
        super().__init__("Unknown remote server.")


def unknown_server(slug: str, context: Context) -> UnknownServerError:
    """Return the error for a server that does not exist, which is on record."""
    error = UnknownServerError()
    recorder.refuse(error.refusal, slug, None, context, error=error)
    return error


@dataclass(frozen=True, kw_only=True, eq=False)
class PassedMessage(Tool):
    """A kind of message to a remote server, as records and signals know it."""

    kind: ClassVar[str] = "remote"


@lru_cache(maxsize=1024)
def _kind_of(name: str) -> PassedMessage:
    return PassedMessage(name=name, description="")


def as_it_came(data: bytes) -> bytes:
    """Return an event of the server as it is, and a comment for none (``Stream.frame``)."""
    return data or _COMMENT


@dataclass(kw_only=True)
class Passing:
    """
    A request of a client for a server, whose answer is sent to ``stream`` if the client has one.

    ``message`` is the JSON-RPC message in ``body``, and ``request`` the same as it was read; None
    for the response of a legacy client, and without a body.
    """

    gateway: Gateway
    context: Context
    http: HttpRequest
    stream: Any = None
    body: bytes | None = None
    message: JSONObject | None = None
    request: Request | None = None

    async def run(self) -> Reply:
        """Return the reply. Raises ProtocolError."""
        await places.in_thread()
        call = self._call()
        try:
            own = self._check_access()
            await self._intercept()
        except ProtocolError as error:
            recorder.refuse(error.refusal, call.tool.name, call.sent, self.context, error=error)
            raise
        slot = places.CallSlot(caller_of(self.context), getattr(self.http, "mcp_slot", None))
        try:
            return await self._relay(own, call)
        finally:
            slot.free()

    def _check_access(self) -> dict[str, str]:
        """Return the site's own headers for the server. Raises ProtocolError."""
        server, context = self.gateway.server, self.context
        has_permission = server.permission and context.user.has_perm(server.permission)
        # A limited credential names tools, not servers.
        if not has_permission or is_limited(context.auth):
            raise UnknownServerError
        try:
            return self.gateway.checked_headers(context)
        except Unsendable as why:
            text = f"Invalid request: the remote server {server.name} {why}."
            raise errors.InvalidRequestError(text) from why

    def _call(self) -> ToolCall:
        """Return the request as records know it."""
        parts, params = [self.gateway.server.slug], {}
        if self.message is None:
            parts.append(str(self.http.method))
        else:
            parts.append(str(self.message.get("method", "response")))
            params = self.message.get("params", {})
            if isinstance(params, Mapping) and isinstance(params.get("name"), str):
                parts.append(params["name"])
        sent = params if isinstance(params, Mapping) else {}
        return ToolCall(_kind_of(" ".join(parts)[:128]), {}, self.context, sent)

    async def _intercept(self) -> None:
        """Show the message to the interceptors, and take their changes of its params."""
        if self.request is None or self.message is None or not having("request"):
            return
        before = jsonrpc.encode(self.message)
        await see_request(self.request, self.context)
        changed = {**self.message, "params": self.request.params}
        if "params" in self.message and jsonrpc.encode(changed) != before:
            self.message, self.body = changed, jsonrpc.encode(changed)

    async def _relay(self, own: Mapping[str, str], call: ToolCall) -> Reply:
        server, stream, context = self.gateway.server, self.stream, self.context
        given = {
            name: value
            for name, value in self.http.headers.items()
            if name.lower() in REQUEST_HEADERS or name.lower().startswith("mcp-")
        }
        relay = Relay(
            slug=server.slug,
            name=server.name,
            outbound=self.gateway.client(own).outbound,
            context=context,
            method=str(self.http.method),
            fields={**given, "Accept-Encoding": "identity", **own},
            body=self.body,
            message=self.message,
            check=places.check_cancelled,
            begin=None if stream is None else self._begin,
            send=self._send,
            max_event_bytes=MAX_EVENT_BYTES,
        )
        try:
            started = await recorder.start(call)
        except CallRefused as refused:
            recorder.refuse(refused.error_code, call.tool.name, call.sent, context, error=refused)
            text = "The server cannot record this message, so it was not sent: retry later."
            raise errors.UnavailableError(text) from refused
        outcome, code = Outcome.FAILED, str(ErrorCode.UNAVAILABLE)
        try:
            if left := self.gateway.breaker.seconds_open():
                text = (
                    f"The remote server {server.name} has failed repeatedly: retry in {left:.0f} s."
                )
                raise GatewayError(text)
            reply = relay.run()
            if relay.is_rejected:
                code = ErrorCode.REJECTED
            else:
                outcome, code = Outcome.SUCCEEDED, ""
            return reply
        except asyncio.CancelledError:
            outcome, code = Outcome.CANCELLED, ""
            raise
        finally:
            if relay.status or outcome == Outcome.FAILED:
                is_failure = relay.status == 0 or relay.status >= 500
                self.gateway.breaker.note(is_failure=is_failure)
            context.scratch[UPSTREAM] = server.slug, status_class(relay.status)
            await recorder.finish(started, outcome, error_code=code, result_bytes=relay.size)

    def _begin(self, headers: Mapping[str, str]) -> None:
        """Begin the stream to the client, whose events may take long to come."""
        self.stream.headers = headers
        self.stream.put(b"")
        for each in connections.all(initialized_only=True):
            if not each.in_atomic_block:
                each.close()

    def _send(self, data: bytes) -> None:
        while self.stream.unread > _MOST_UNREAD:
            places.check_cancelled()
            sleep(0.02)
        self.stream.put(data)

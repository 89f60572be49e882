"""Pass one message through to a remote server: admit it, record it, relay it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic, sleep
from typing import Any, ClassVar, Final

from django.http import HttpRequest

from mcp_bridge.concurrency import places
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import JSONObject, ProtocolError, Reply, Request, errors, jsonrpc
from mcp_bridge.records import recorder
from mcp_bridge.remote import gateway as gateways
from mcp_bridge.remote.admission import Sessions, take_slot
from mcp_bridge.remote.incoming import changed_params, relayed_headers
from mcp_bridge.remote.relay import GatewayError, Relay

# Events that a client may be behind before the server is read on.
_MOST_UNREAD: Final = 8
# Seconds after which a credential is checked again.
CREDENTIAL: Final = 30.0
_COMMENT: Final = b":\n\n"
_SESSION: Final = "mcp-session-id"


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
    for the response of a legacy client, and without a body. ``readmit`` checks the caller again.
    """

    gateway: gateways.Gateway
    context: Context
    http: HttpRequest
    readmit: Callable[[Passing], object]
    stream: Any = None
    body: bytes | None = None
    message: JSONObject | None = None
    request: Request | None = None
    _checked: float = field(default_factory=monotonic, init=False)
    _kept: int = field(default=0, init=False)

    async def run(self) -> Reply:
        """Return the reply. Raises ProtocolError."""
        await places.in_thread()
        gateway, server, call = self.gateway, self.gateway.server, self._call()
        try:
            try:
                own = gateway.checked_headers(self.context)
            except gateways.Unsendable as why:
                raise errors.InvalidRequestError(gateway.sentence(str(why))) from why
            changed = await self._intercepted()
            fields = relayed_headers(self.http.headers, changed, server)
            fields |= own
            if _SESSION in fields:
                fields[_SESSION] = Sessions(server, self.context).opened(fields[_SESSION])
        except Exception as error:
            # A hook of the site may raise anything.
            code = error.refusal if isinstance(error, ProtocolError) else ErrorCode.INTERNAL_ERROR
            recorder.refuse(code, call.tool.name, call.sent, self.context, error=error)
            raise
        slot = take_slot(self.http, self.context)
        relay = Relay(
            gateway=gateway,
            context=self.context,
            method=str(self.http.method),
            own=own,
            fields=fields,
            body=self.body,
            message=self.message,
            check=self._check,
            begin=None if self.stream is None else self._begin,
            send=self._send,
        )
        try:
            reply = await self._recorded(relay, call)
        finally:
            slot.free()
        return reply._replace(headers=self._signed(reply.headers))

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

    async def _intercepted(self) -> JSONObject | None:
        """Show the message to the interceptors; return its params if they have changed them."""
        if self.request is None or self.message is None:
            return None
        changed = await changed_params(self.request, self.message, self.context)
        if changed is not None:
            self.message = {**self.message, "params": changed}
            self.body = jsonrpc.encode(self.message)
        return changed

    async def _recorded(self, relay: Relay, call: ToolCall) -> Reply:
        """Return the reply of a relay that is on record. Raises ProtocolError."""
        server, context = self.gateway.server, self.context
        try:
            started = await recorder.start(call)
        except CallRefused as refused:
            recorder.refuse(refused.error_code, call.tool.name, call.sent, context, error=refused)
            text = "The server cannot record this message, so it was not sent: retry later."
            raise errors.UnavailableError(text) from refused
        outcome, code = Outcome.FAILED, str(ErrorCode.UNAVAILABLE)
        try:
            try:
                self.gateway.check_open()
            except gateways.Unsendable as why:
                raise GatewayError(self.gateway.sentence(str(why))) from why
            reply = relay.run()
            code = relay.failure
            outcome = Outcome.FAILED if code else Outcome.SUCCEEDED
            return reply
        except asyncio.CancelledError:
            outcome, code = Outcome.CANCELLED, ""
            raise
        finally:
            context.scratch[gateways.UPSTREAM] = server.slug, gateways.status_class(relay.status)
            await recorder.finish(started, outcome, error_code=code, result_bytes=relay.size)

    def _begin(self, headers: Mapping[str, str]) -> None:
        """Begin the stream to the client, whose events may take long to come."""
        self.stream.headers = self._signed(headers)
        self.stream.put(b"")
        places.close_connections()

    def _signed(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return response headers, with a session id that is of this user alone."""
        if _SESSION not in headers:
            return headers
        sessions = Sessions(self.gateway.server, self.context)
        return {**headers, _SESSION: sessions.signed(headers[_SESSION])}

    def _send(self, data: bytes) -> None:
        if not self.stream.is_read:
            # Inside a transaction the client reads nothing before the end.
            self._kept += len(data)
            if self._kept > (limit := self.gateway.server.max_body_bytes):
                text = f"sent more than {limit} bytes, which is the limit"
                raise GatewayError(self.gateway.sentence(text))
        else:
            while self.stream.unread > _MOST_UNREAD and not self.stream.is_stuck:
                self._check()
                sleep(0.02)
        self.stream.put(data)

    def _check(self) -> None:
        """Raise CancelledError if the client has gone, ProtocolError if it may not receive more."""
        places.check_cancelled()
        if monotonic() > self._checked + CREDENTIAL:
            self._checked = monotonic()
            try:
                self.readmit(self)
            finally:
                places.close_connections()

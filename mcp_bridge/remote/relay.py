"""
Relay a message to a remote server, and its answer and events to the client as they come.

Only what is listed here is relayed: the headers in both directions, and bodies that are JSON-RPC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast

from mcp_bridge.calls.interceptors import having
from mcp_bridge.exceptions import RejectError
from mcp_bridge.features import Context
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.outbound.client import Fields, OutboundError, Response
from mcp_bridge.protocol import JSONObject, ProtocolError, Reply, jsonrpc
from mcp_bridge.protocol.errors import InternalError
from mcp_bridge.remote import gateway as gateways
from mcp_bridge.remote.client import is_message, redacted
from mcp_bridge.remote.events import Event, TooLong, read_events

# Response headers that are relayed.
RESPONSE_HEADERS: Final = ("mcp-session-id", "mcp-protocol-version", "retry-after")
# Bytes of an answer other than JSON-RPC that are quoted in the error.
MOST_QUOTED: Final = 2048


class GatewayError(InternalError):
    """The remote server did not answer, or not with JSON-RPC; ``data`` says with what."""

    http_status = HTTPStatus.BAD_GATEWAY
    refusal = ErrorCode.UNAVAILABLE


class RemoteMessage(NamedTuple):
    """
    A JSON-RPC message of a remote server on its way to a client, as interceptors see it.

    ``server`` is the server's short name, ``request`` the client's message, or None for the stream
    of a GET, and ``members`` the message's members.
    """

    server: str
    request: JSONObject | None
    members: JSONObject


@dataclass(kw_only=True)
class Relay:
    """
    One HTTP request to a remote server, for one of a client.

    ``own`` are the headers of the site, and ``fields`` all that are sent. ``message`` is the
    client's message, if it is one; ``send`` sends bytes to the client before the end, and
    ``begin`` begins that stream with response headers. ``status`` and ``size`` are the server's
    HTTP status and the bytes of its body, so far; ``failure`` is the error code for the record, if
    the client has received an error in the place of the server's answer.
    """

    gateway: gateways.Gateway
    context: Context
    method: str
    own: Fields
    fields: Fields
    body: bytes | None
    message: JSONObject | None
    check: Callable[[], object]
    begin: Callable[[Mapping[str, str]], None] | None
    send: Callable[[bytes], None]
    status: int = 0
    size: int = 0
    failure: str = ""
    _has_begun: bool = field(default=False, init=False)

    def run(self) -> Reply:
        """Return the reply, or one without a body if its events were sent. Raises ProtocolError."""
        outbound, note = self.gateway.client(self.own).outbound, self.gateway.breaker.note
        opening = outbound.open(self.method, "", self.fields, self.body, self.check)
        try:
            with opening as response:
                self.status = response.status
                note(is_failure=response.status >= 500)
                found = response.headers.items()
                headers = {name: value for name, value in found if name in RESPONSE_HEADERS}
                is_stream = response.status < 300 and response.media_type == "text/event-stream"
                if is_stream and self.begin is not None:
                    self._has_begun = True
                    self.begin(headers)
                    self._relay_events(response)
                    return Reply(HTTPStatus.OK)
                return self._reply(response, headers)
        except OutboundError as why:
            # Streams of a GET may break off at any time, and are opened again.
            if not self.status or (why.is_outage and self.method != "GET"):
                note(is_failure=why.is_outage)
            if not self._has_begun:
                raise self._error(str(why)) from why
            if self.method != "GET":
                self._send_error(self._error(str(why)))
            return Reply(HTTPStatus.OK)
        except ProtocolError as why:
            if not self._has_begun:
                raise
            # The caller may not receive more.
            self._send_error(why)
            return Reply(HTTPStatus.OK)

    def _error(self, text: str, **data: object) -> GatewayError:
        return GatewayError(self.gateway.sentence(text), data=data or None)

    def _reply(self, response: Response, headers: Mapping[str, str]) -> Reply:
        """Return the reply for an answer in one piece."""
        number = response.status
        if number in (401, 403, 407):
            raise self._error("refused the credential", upstream_status=number)
        if number not in _STATUSES or 300 <= number < 400:
            raise self._error(f"answered with HTTP status {number}", upstream_status=number)
        status, body = HTTPStatus(number), response.read()
        self.size = len(body)
        if not body or self.method == "DELETE":
            return Reply(status, headers=headers)
        if response.media_type == "application/json":
            members = _read(body)
            if members is not None:
                if members.get("id") not in ((self.message or {}).get("id"), None):
                    raise self._error("answered another request")
                return Reply(status, self._seen(members, body), headers)
        if self.method == "GET" and status != HTTPStatus.OK:
            # Such as 405, of a server without a stream.
            return Reply(status, headers=headers)
        quoted = redacted(body[:MOST_QUOTED].decode(errors="replace"), self.own)
        # Interceptors cannot have seen it.
        more = {} if having("remote_message") else {"body": quoted}
        text = "sent an answer that is not a JSON-RPC message"
        error = self._error(text, upstream_status=number, **more)
        if status not in (HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS):
            raise error
        # A lost session, or a request to wait.
        self.failure = ErrorCode.UNAVAILABLE
        return Reply(status, _rejection(self.message or {}, error), headers)

    def _relay_events(self, response: Response) -> None:
        try:
            for event in read_events(self._counted(response), gateways.MAX_EVENT_BYTES):
                self.send(self._event(event))
        except TooLong:
            limit = gateways.MAX_EVENT_BYTES
            text = f"sent an event of more than {limit} bytes, which is the limit"
            self._send_error(self._error(text))

    def _counted(self, response: Response) -> Iterator[bytes]:
        for chunk in response.chunks(may_last=True):
            self.size += len(chunk)
            yield chunk

    def _event(self, event: Event) -> bytes:
        """Return an event as it came, unless interceptors change or reject its message."""
        lines = event.raw.splitlines()
        if not having("remote_message") or not any(each.startswith(b"data") for each in lines):
            return event.raw
        members = _read(event.data or b"")
        if members is not None:
            seen = self._seen(members, event.data or b"")
        else:
            # Interceptors have to see all that reaches the client.
            self.failure = ErrorCode.REJECTED
            seen = _rejection({}, self._error("sent a message that this site cannot read"))
        if seen is event.data:
            return event.raw
        # Its id, with which a client resumes the stream, stays.
        kept = [line for line in lines if line.startswith(b"id:")]
        return b"\n".join([*kept, b"data: " + seen, b"", b""])

    def _seen(self, members: JSONObject, text: bytes) -> bytes:
        """Return a message as the interceptors leave it: the text itself, or another one."""
        for each in having("remote_message"):
            message = RemoteMessage(self.gateway.server.slug, self.message, members)
            try:
                changed = each.run_here(_see, each.method, message, self.context)
            except (RejectError, InternalError) as error:
                self.failure = error.refusal
                return _rejection(members, error)
            if changed is not None:
                members, text = changed, jsonrpc.encode(changed)
        return text

    def _send_error(self, error: ProtocolError) -> None:
        self.failure = error.refusal
        self.send(b"data: " + _rejection(self.message or {}, error) + b"\n\n")


_STATUSES: Final = frozenset(map(int, HTTPStatus))


def _read(text: bytes) -> JSONObject | None:
    """Return the members of a JSON-RPC message, or None for anything else."""
    with suppress(ProtocolError):
        members: Any = jsonrpc.decode(text)
        if is_message(members):
            return cast(JSONObject, members)
    return None


def _see(method: Callable[..., Any], message: RemoteMessage, context: Context) -> JSONObject | None:
    """Return the members that an interceptor returns. Raises TypeError for anything else."""
    changed: JSONObject | None = method(message, context)
    if changed is not None and not is_message(changed):
        raise TypeError("remote_message() must return a JSON-RPC message, or None.")
    return changed


def _rejection(members: JSONObject, error: ProtocolError) -> bytes:
    """Return the message in the place of a rejected one: an error, or a notification of it."""
    if "id" in members:
        return jsonrpc.error_response(members["id"], error)
    params = {"level": "error", "logger": "mcp_bridge", "data": error.message}
    return json.dumps(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    ).encode()

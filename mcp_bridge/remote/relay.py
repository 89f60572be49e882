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
from typing import Any, Final, NamedTuple

from mcp_bridge.calls.interceptors import having
from mcp_bridge.exceptions import RejectError
from mcp_bridge.features import Context
from mcp_bridge.outbound.client import Outbound, OutboundError, Response
from mcp_bridge.protocol import JSONObject, ProtocolError, Reply, jsonrpc
from mcp_bridge.protocol.errors import InternalError
from mcp_bridge.remote.events import Event, TooLong, read_events

# Request headers that are relayed, beside those of MCP, and response headers.
REQUEST_HEADERS: Final = ("accept", "content-type", "last-event-id", "traceparent")
RESPONSE_HEADERS: Final = ("mcp-session-id", "mcp-protocol-version", "retry-after")
# Bytes of an answer other than JSON-RPC that are quoted in the error.
MOST_QUOTED: Final = 2048


class GatewayError(InternalError):
    """The remote server did not answer, or not with JSON-RPC; ``data`` says with what."""

    http_status = HTTPStatus.BAD_GATEWAY


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

    ``message`` is the client's message, if it is one; ``send`` sends bytes to the client before
    the end, and ``begin`` begins that stream with response headers. ``status`` and ``size`` are
    the server's HTTP status and the bytes of its body, so far.
    """

    slug: str
    name: str
    outbound: Outbound
    context: Context
    method: str
    fields: Mapping[str, str]
    body: bytes | None
    message: JSONObject | None
    check: Callable[[], object]
    begin: Callable[[Mapping[str, str]], None] | None
    send: Callable[[bytes], None]
    max_event_bytes: int
    status: int = 0
    size: int = 0
    # Whether the client has received an error in the place of the server's answer.
    is_rejected: bool = field(default=False, init=False)

    def run(self) -> Reply:
        """Return the reply, or one without a body if its events were sent. Raises ProtocolError."""
        opening = self.outbound.open(self.method, "", self.fields, self.body, self.check)
        try:
            with opening as response:
                self.status = response.status
                found = response.headers.items()
                headers = {name: value for name, value in found if name in RESPONSE_HEADERS}
                kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                if response.status < 300 and kind == "text/event-stream" and self.begin is not None:
                    self.begin(headers)
                    self._relay_events(response)
                    return Reply(HTTPStatus.OK)
                return self._reply(response, kind, headers)
        except OutboundError as why:
            if self.begin is None or not self.status or not self.size:
                raise GatewayError(f"The remote server {self.name} {why}.") from why
            # The client has received a part.
            self._send_error(f"The remote server {self.name} {why}.")
            return Reply(HTTPStatus.OK)

    def _reply(self, response: Response, kind: str, headers: Mapping[str, str]) -> Reply:
        """Return the reply for an answer in one piece."""
        status = HTTPStatus(response.status) if response.status in _STATUSES else None
        if response.status in (401, 403, 407):
            text = f"The remote server {self.name} refused the site's credential."
            raise GatewayError(text, data={"upstream_status": response.status})
        if status is None or 300 <= status < 400:
            text = f"The remote server {self.name} answered with HTTP status {response.status}."
            raise GatewayError(text, data={"upstream_status": response.status})
        body = response.read()
        self.size = len(body)
        if not body or self.method == "DELETE":
            return Reply(status, headers=headers)
        if kind == "application/json":
            with suppress(ProtocolError):
                members = jsonrpc.decode(body)
                if _is_message(members):
                    return Reply(status, self._seen(members, body), headers)
        if self.method == "GET" and status != HTTPStatus.OK:
            # Such as 405, of a server without a stream.
            return Reply(status, headers=headers)
        raise GatewayError(
            f"The remote server {self.name} answered with something else than JSON-RPC.",
            data={
                "upstream_status": response.status,
                "body": body[:MOST_QUOTED].decode(errors="replace"),
            },
        )

    def _relay_events(self, response: Response) -> None:
        try:
            for event in read_events(self._counted(response), self.max_event_bytes):
                self.send(self._event(event))
        except TooLong:
            self._send_error(
                f"The remote server {self.name} sent an event of more than "
                f"{self.max_event_bytes} bytes, which is the limit."
            )

    def _counted(self, response: Response) -> Iterator[bytes]:
        for chunk in response.chunks():
            self.size += len(chunk)
            yield chunk

    def _event(self, event: Event) -> bytes:
        """Return an event as it came, unless interceptors change its message."""
        if not event.data or not having("remote_message"):
            return event.raw
        try:
            members = jsonrpc.decode(event.data)
        except ProtocolError:
            return event.raw
        if not _is_message(members):
            return event.raw
        seen = self._seen(members, event.data)
        if seen is event.data:
            return event.raw
        # Its id, with which a client resumes the stream, stays.
        kept = [line for line in event.raw.splitlines() if line.startswith((b"id:", b"event:"))]
        return b"\n".join([*kept, b"data: " + seen, b"", b""])

    def _seen(self, members: JSONObject, text: bytes) -> bytes:
        """Return a message as the interceptors leave it: the text itself, or another one."""
        for each in having("remote_message"):
            message = RemoteMessage(self.slug, self.message, members)
            try:
                changed = each.run_here(_see, each.method, message, self.context)
            except (RejectError, InternalError) as error:
                self.is_rejected = True
                return _rejection(members, error)
            if changed is not None:
                members, text = changed, jsonrpc.encode(changed)
        return text

    def _send_error(self, text: str) -> None:
        self.is_rejected = True
        error = GatewayError(text)
        self.send(b"data: " + _rejection(self.message or {}, error) + b"\n\n")


_STATUSES: Final = frozenset(map(int, HTTPStatus))


def _is_message(members: object) -> bool:
    return isinstance(members, dict) and members.get("jsonrpc") == "2.0"


def _see(method: Callable[..., Any], message: RemoteMessage, context: Context) -> JSONObject | None:
    """Return the members that an interceptor returns. Raises TypeError for anything else."""
    changed: JSONObject | None = method(message, context)
    if changed is not None and not _is_message(changed):
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

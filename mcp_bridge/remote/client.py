"""
A client of another MCP server over Streamable HTTP, from MCP 2024-11-05 to 2026-07-28.

It keeps what the server sent: results are JSON objects with all their members. In steady state a
request to the server is one HTTP request.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

import mcp_bridge
from mcp_bridge.outbound.client import Fields, Outbound, OutboundError, Response
from mcp_bridge.protocol import LATEST, REVISIONS, JSONObject, ProtocolError, jsonrpc
from mcp_bridge.protocol.headers import header_value
from mcp_bridge.protocol.requests import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    PROTOCOL_VERSION,
    SERVER_INFO,
)
from mcp_bridge.protocol.revisions import LATEST_LEGACY
from mcp_bridge.protocol.text import cut
from mcp_bridge.remote.events import TooLong, read_events

INFO: Final = {"name": "django-mcp-bridge", "version": mcp_bridge.__version__}
# Statuses with which a legacy server may refuse server/discover, or a modern one initialize.
_OF_ERA: Final = frozenset({400, 404, 405, 406, 415})
_UNSUPPORTED_VERSION: Final = -32022
# The errors with which a modern server refuses a request that it has read.
_OF_PARAMS: Final = (-32020, -32021, -32602)
_METHOD_NOT_FOUND: Final = -32601
_SESSION: Final = re.compile(r"[\x21-\x7e]{1,1024}")
# Shorter header values are not redacted: a text may contain them by chance.
_MIN_SECRET: Final = 6
# Seconds for the end of a stream after its response, so that its connection can be used again.
_REST: Final = 0.05

# Seconds between the checks of a thread that waits for the handshake of another one.
_POLL: Final = 1.0

# Takes the params of a progress notification.
OnProgress: TypeAlias = Callable[[JSONObject], object]
Check: TypeAlias = Callable[[], object]


class RemoteError(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, code: object, message: str) -> None:
        super().__init__(message)
        self.code = code


class AnswerError(OutboundError):
    """The response does not contain an answer; ``status`` is its HTTP status."""

    def __init__(self, text: str, status: int, *, is_sent: bool = True) -> None:
        super().__init__(text, is_sent=is_sent)
        self.status = status


class _Outdated(Exception):
    """
    The server's revision or session may have changed.

    ``expected`` is the revision to begin with, and ``error`` the one to raise if nothing changes.
    """

    def __init__(self, expected: str, error: AnswerError | RemoteError) -> None:
        super().__init__()
        self.expected = expected
        self.error = error


class _Peer(NamedTuple):
    """The revision of a server, and the id of a legacy session, "" without one."""

    version: str
    session: str = ""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """
    One request to the server.

    ``name`` is mirrored in Mcp-Name, ``headers`` are further ones, and ``capabilities`` those
    that the client declares. ``check`` is called at least once a second, and may raise. A stream
    that ``may_last`` is read as long as bytes come. ``status`` is the HTTP status of the response,
    0 before and without one, and ``session`` the id of a session that the response begins.
    """

    method: str
    params: JSONObject = field(default_factory=dict)
    name: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    capabilities: JSONObject = field(default_factory=dict)
    on_progress: OnProgress | None = None
    check: Check | None = None
    may_last: bool = False
    status: int = 0
    session: str = ""


class Client:
    """
    A client of one server with one credential, which threads may share.

    ``headers`` are sent with each request. ``version`` is the server's revision if it is known;
    else it is found with the first request. Events may have ``max_event_bytes``.
    """

    def __init__(
        self,
        outbound: Outbound,
        headers: Mapping[str, str],
        *,
        version: str = "",
        max_event_bytes: int,
    ) -> None:
        self.outbound = outbound
        # The server's revision, as far as it is known.
        self.version = version if version in REVISIONS else ""
        # The result of the last handshake, with the server's name as ``serverInfo``.
        self.info: JSONObject = {}
        self._headers = headers
        self._max_event_bytes = max_event_bytes
        self._numbers = count(1)
        # None before the handshake; requests to a modern server do not need one.
        self._peer = _Peer(version) if version == LATEST.version else None
        self._meeting, self._busy = threading.Lock(), threading.Lock()
        self._running = 0
        # The handshakes that have ended, and why the last one failed.
        self._handshakes = 0
        self._failure: OutboundError | None = None

    def request(self, exchange: Exchange) -> JSONObject:
        """
        Return the result of a request.

        Raises RemoteError for the server's error, OutboundError if it did not answer, and what the
        callbacks of the exchange raise. A request is repeated once if the server says that it did
        not know the session, or refuses the revision.
        """
        with self._busy:
            self._running += 1
        try:
            return self._request(exchange)
        finally:
            with self._busy:
                self._running -= 1

    @property
    def is_busy(self) -> bool:
        """Whether a request runs."""
        return self._running > 0

    def _request(self, exchange: Exchange) -> JSONObject:
        peer = self._peer or self._meet(None, self.version, exchange.check)
        try:
            return self._ask(exchange, peer)
        except _Outdated as why:
            found = self._meet(peer, why.expected, exchange.check)
            if found == peer:
                # It has refused the request for another reason, perhaps after it was done.
                raise why.error from None
        try:
            return self._ask(exchange, found)
        except _Outdated as why:
            raise why.error from None

    def meet(self) -> None:
        """Find out the server's revision, and begin a legacy server's session."""
        self._meet(self._peer, "", None)

    def close(self) -> None:
        """End the session, and close the connections of this process."""
        self.end_session()
        self.outbound.close()

    def end_session(self) -> None:
        """End the session of a legacy server (MCP 2025-11-25, "Session management")."""
        peer = self._peer
        if peer is not None and peer.session:
            self._peer = None
            with suppress(OutboundError):
                self.outbound.send("DELETE", "", self._fields(peer), None)

    def _meet(self, outdated: _Peer | None, expected: str, check: Check | None) -> _Peer:
        """Return the peer that a handshake finds. Threads that wait for one share its result."""
        begun = self._handshakes
        while not self._meeting.acquire(timeout=_POLL):
            if check is not None:
                check()
        try:
            if self._peer is not None and self._peer is not outdated:
                return self._peer
            if self._handshakes != begun and self._failure is not None:
                # A server that does not answer would keep each of them waiting in turn.
                raise self._failure
            self._peer = self._failure = None
            try:
                self._peer = self._handshake(expected, check)
            except OutboundError as why:
                # The request itself has not been sent, or was refused.
                why.is_sent, self._failure = False, why
                raise
            finally:
                self._handshakes += 1
            self.version = self._peer.version
            return self._peer
        finally:
            self._meeting.release()

    def _handshake(self, expected: str, check: Check | None) -> _Peer:
        if expected in ("", LATEST.version):
            return self._discover(check) or self._initialize(check)
        try:
            return self._initialize(check)
        except (AnswerError, RemoteError) as error:
            # It may have become a modern server.
            found = self._discover(check) if _may_be_of_era(error) else None
            if found is None:
                raise
            return found

    def _discover(self, check: Check | None) -> _Peer | None:
        """Return a modern server's revision (MCP 2026-07-28, "Discovery"), else None."""
        peer = _Peer(LATEST.version)
        try:
            found = self._ask(Exchange(method="server/discover", check=check), peer)
        except _Outdated:
            return None
        except (AnswerError, RemoteError) as error:
            if _may_be_of_era(error):
                return None
            raise
        versions = found.get("supportedVersions")
        if not isinstance(versions, list) or LATEST.version not in versions:
            return None
        meta = found.get("_meta")
        info = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
        self.info = {**found, "serverInfo": info}
        return peer

    def _initialize(self, check: Check | None) -> _Peer:
        """Begin a legacy session (MCP 2025-11-25, "Lifecycle")."""
        params = {"protocolVersion": LATEST_LEGACY.version, "capabilities": {}, "clientInfo": INFO}
        exchange = Exchange(method="initialize", params=params, check=check)
        try:
            found = self._ask(exchange, _Peer(""))
        except _Outdated as why:
            text = "speaks other revisions of MCP than this site"
            raise AnswerError(text, exchange.status, is_sent=False) from why
        version = found.get("protocolVersion")
        revision = REVISIONS.get(version) if isinstance(version, str) else None
        if revision is None or revision.modern:
            text = f"speaks MCP {cut(str(version), 20)}, which this site does not speak"
            raise AnswerError(text, exchange.status, is_sent=False)
        self.info, peer = found, _Peer(revision.version, exchange.session)
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, peer, check)
        return peer

    def _post(self, message: JSONObject, peer: _Peer, check: Check | None = None) -> None:
        """Send a message without an answer."""
        body = jsonrpc.encode(message)
        with self.outbound.open("POST", "", self._fields(peer), body, check) as response:
            response.read()

    def _fields(self, peer: _Peer) -> Fields:
        """Return the headers of any request."""
        fields = Fields(
            {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "Accept-Encoding": "identity",
                "User-Agent": f"django-mcp-bridge/{mcp_bridge.__version__}",
                **self._headers,
            }
        )
        if peer.version:
            fields["MCP-Protocol-Version"] = peer.version
        if peer.session:
            fields["Mcp-Session-Id"] = peer.session
        return fields

    def _ask(self, exchange: Exchange, peer: _Peer) -> JSONObject:
        number, fields = next(self._numbers), self._fields(peer)
        meta: dict[str, object] = {}
        if exchange.on_progress is not None:
            meta["progressToken"] = number
        if peer.version == LATEST.version:
            meta |= {
                PROTOCOL_VERSION: peer.version,
                CLIENT_CAPABILITIES: exchange.capabilities,
                CLIENT_INFO: INFO,
            }
            fields |= {"Mcp-Method": exchange.method, **exchange.headers}
            if exchange.name is not None:
                fields["Mcp-Name"] = header_value(exchange.name)
        params = exchange.params
        if meta:
            params = {**params, "_meta": {**params.get("_meta", {}), **meta}}
        message = {"jsonrpc": "2.0", "id": number, "method": exchange.method, "params": params}
        exchange.status = 0
        body = jsonrpc.encode(message)
        with self.outbound.open("POST", "", fields, body, exchange.check) as response:
            exchange.status = status = response.status
            if status == 404 and peer.session:
                raise _Outdated(peer.version, AnswerError("does not keep its session", status))
            try:
                answer = self._answer(response, number, peer, exchange)
            except AnswerError as why:
                if status == 400:
                    self._note_unread(peer, why)
                raise
            if exchange.method == "initialize":
                exchange.session = _session_in(response)
        if "error" not in answer:
            result = answer.get("result")
            if not isinstance(result, dict):
                raise AnswerError("answered without a result", status)
            return result
        error = _error_in(answer["error"], self._headers)
        if error.code == _UNSUPPORTED_VERSION:
            raise _Outdated("", error)
        if status == 400 and error.code not in _OF_PARAMS:
            self._note_unread(peer, error)
        raise error

    def _note_unread(self, peer: _Peer, error: AnswerError | RemoteError) -> None:
        """
        Raise _Outdated if a legacy server may have refused a modern request unread.

        Else drop a legacy session, which servers may refuse in this way too: the next request
        begins another one.
        """
        if peer.version == LATEST.version:
            raise _Outdated("", error)
        if peer.session and self._peer is peer:
            self._peer = None

    def _answer(
        self, response: Response, number: int, peer: _Peer, exchange: Exchange
    ) -> JSONObject:
        """Return the server's response to the request ``number``. Raises AnswerError."""
        status, headers = response.status, response.headers
        kind = response.media_type
        if status in (401, 403, 407):
            raise AnswerError("refused the credential", status, is_sent=False)
        if 300 <= status < 400:
            raise AnswerError("answered with a redirect: not followed", status, is_sent=False)
        if status == 429:
            wait = headers.get("retry-after", "")
            later = f"in {wait} seconds" if re.fullmatch(r"[0-9]{1,6}", wait) else "later"
            text = f"receives too many requests: repeat the call {later}"
            raise AnswerError(text, status, is_sent=False)
        if status < 300 and kind == "text/event-stream":
            return self._answer_in_stream(response, number, peer, exchange)
        body = response.read()
        if kind == "application/json" and body:
            with suppress(AnswerError) if status >= 300 else nullcontext():
                return _answer_in(body, number, status)
        if status >= 500:
            raise AnswerError(f"failed (HTTP status {status})", status)
        if status >= 300:
            raise AnswerError(f"refused the request (HTTP status {status})", status, is_sent=False)
        if not body:
            raise AnswerError("did not answer the request", status)
        named = cut(kind, 60) or "data without a type"
        raise AnswerError(f"answered with {named}, which is not MCP", status)

    def _answer_in_stream(
        self, response: Response, number: int, peer: _Peer, exchange: Exchange
    ) -> JSONObject:
        answer: JSONObject | None = None
        try:
            chunks = response.chunks(may_last=exchange.may_last)
            for event in read_events(chunks, self._max_event_bytes):
                if not event.data:
                    continue
                message = _message(event.data, response.status)
                if "method" not in message:
                    if message.get("id") != number or answer is not None:
                        text = "answered twice" if answer else "answered another request"
                        raise AnswerError(text, response.status)
                    answer = message
                    response.expect_end(_REST)
                elif "id" in message:
                    self._refuse(message, peer)
                elif message["method"] == "notifications/progress":
                    params = message.get("params")
                    if not isinstance(params, dict) or params.get("progressToken") != number:
                        continue
                    if exchange.on_progress is not None:
                        exchange.on_progress(params)
        except TooLong:
            text = f"sent an event of more than {self._max_event_bytes} bytes, which is the limit"
            raise AnswerError(text, response.status) from None
        except AnswerError:
            raise
        except OutboundError:
            if answer is None:
                raise
        if answer is None:
            raise AnswerError("ended its answer before its end", response.status)
        return answer

    def _refuse(self, request: JSONObject, peer: _Peer) -> None:
        """Answer a request of a legacy server: this client offers nothing to servers."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": _METHOD_NOT_FOUND, "message": "Method not found"}
        with suppress(OutboundError):
            self._post(answer, peer)


def _may_be_of_era(error: AnswerError | RemoteError) -> bool:
    """Return whether a server of the other era may answer a handshake with this error."""
    return isinstance(error, RemoteError) or error.status in _OF_ERA


def _session_in(response: Response) -> str:
    session = response.headers.get("mcp-session-id", "")
    if session and not _SESSION.fullmatch(session):
        raise AnswerError("sent a session id with invalid characters", response.status)
    return session


def _answer_in(body: bytes, number: int, status: int) -> JSONObject:
    """Return the response to the request ``number``. Raises AnswerError."""
    answer = _message(body, status)
    is_null = answer.get("id") is None and "error" in answer and status >= 400
    if "method" in answer or not (answer.get("id") == number or is_null):
        raise AnswerError("answered another request than the one that was sent", status)
    return answer


def is_message(members: object) -> TypeGuard[dict[str, Any]]:
    """Return whether decoded JSON is a JSON-RPC 2.0 message."""
    return isinstance(members, dict) and members.get("jsonrpc") == "2.0"


def _message(text: bytes, status: int) -> JSONObject:
    """Return a JSON-RPC message. Raises AnswerError."""
    try:
        message = jsonrpc.decode(text)
    except ProtocolError:
        raise AnswerError("answered with text that is not valid JSON", status) from None
    if not is_message(message):
        raise AnswerError("answered with JSON that is not a JSON-RPC message", status)
    return message


def _error_in(error: Any, sent: Mapping[str, str]) -> RemoteError:
    """Return the error of a response, without the values of the headers that were sent."""
    error = error if isinstance(error, dict) else {}
    message = error.get("message")
    text = redacted(message, sent) if isinstance(message, str) else ""
    return RemoteError(error.get("code"), text)


def redacted(text: str, headers: Mapping[str, str]) -> str:
    """Return a server's text with "…" in the place of the values of these headers."""
    for value in headers.values():
        for secret in (value, value.rpartition(" ")[2]):
            if len(secret) >= _MIN_SECRET:
                text = text.replace(secret, "…")
    return text

"""
Ask clients of earlier revisions on the streams of their calls (MCP 2025-11-25, "Elicitation").

A session is signed and kept by its client: every process can read it, and none stores it. Replies
reach their call through a cache, since another process may receive them.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import monotonic
from typing import Any, Final

from django.core import signing
from django.core.cache import cache
from django.http import HttpRequest

from mcp_bridge.concurrency.places import close_connections, in_thread, on_loop
from mcp_bridge.conf import conf
from mcp_bridge.features import Client, Context
from mcp_bridge.protocol import JSONObject, Reply, Request, errors
from mcp_bridge.protocol.input_requests import InputRequest, URLElicitRequest, check_response
from mcp_bridge.transports.streams import Stream

# Seconds that a call waits for a reply over stdio, if LEGACY_ASK is off.
PATIENCE: Final = 60.0
# Seconds between two looks into the cache, at first and at most.
_PAUSES: Final = (0.01, 0.25)
# Seconds between comments: under WSGI, a client that has left is noticed when one is written.
_WRITTEN: Final = 1
# Seconds that a reply is kept for its call, and that a session lasts and its end is remembered.
_KEPT: Final = 30
_ENDED: Final = 24 * 60 * 60
_SALT: Final = "mcp_bridge.sessions"
_MODES: Final = ("form", "url", "tools")


@dataclass(slots=True, kw_only=True)
class Session:
    """
    A legacy client's declared capabilities. It is not a credential.

    ``nonce`` distinguishes it from others, and ``replies`` is the cache in which the client's
    replies wait for their calls.
    """

    capabilities: dict[str, JSONObject] = field(default_factory=dict)
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    replies: Any = field(default_factory=lambda: cache)
    # No reply can arrive any more.
    has_ended: bool = False

    def begin(self, message: Request, asked: frozenset[str]) -> None:
        """Take what an ``initialize`` declares of the capabilities that the server asks for."""
        declared = message.params.get("capabilities") or {}
        self.capabilities = {
            name: {mode: {} for mode in _MODES if mode in declared[name]}
            for name in sorted(asked)
            if isinstance(declared.get(name), Mapping)
        }

    def join(self, context: Context) -> None:
        """Let a call ask the client, if its stream is read while the call runs."""
        stream: Stream | None = context.stream
        if stream is not None and stream.is_read:
            stream.ask = partial(self.ask, stream)
            client = Client(info=context.client.info, capabilities=self.capabilities)
            vars(context)["client"] = client

    async def ask(self, stream: Stream, requests: Mapping[str, InputRequest]) -> JSONObject:
        """
        Send requests; return the responses by key.

        One that is refused, or not answered in time, counts as cancelled by the user. Raises
        BusyError if LEGACY_ASK_THREADS wait already, since the replies need threads too.
        """
        async with stream.waiting():
            return await self._ask(stream, requests)

    async def _ask(self, stream: Stream, requests: Mapping[str, InputRequest]) -> JSONObject:
        # The signed state of a question expires.
        seconds = min(conf.LEGACY_ASK or PATIENCE, conf.CONFIRMATION_MAX_AGE)
        ids = {secrets.token_urlsafe(24): key for key in requests}
        keys = {_key(each): key for each, key in ids.items()}
        await in_thread()
        # Nothing of the database is held while a person thinks.
        close_connections()
        self.replies.set_many(dict.fromkeys(keys, self.nonce), seconds + _KEPT)
        for each, key in ids.items():
            request = requests[key]
            params = request.params()
            if isinstance(request, URLElicitRequest):
                params["elicitationId"] = each
            stream.send({"id": each, "method": request.method, "params": params})
        try:
            found = await self._wait(stream, keys, seconds)
        except asyncio.CancelledError:
            await in_thread()
            self._forget(keys)
            raise
        self._forget(keys)
        for each, key in ids.items():
            if key not in found:
                late = {"requestId": each, "reason": f"No answer within {seconds:g} seconds."}
                stream.send({"method": "notifications/cancelled", "params": late})
        return {key: _response(key, each, found.get(key)) for key, each in requests.items()}

    def _forget(self, keys: Mapping[str, str]) -> None:
        # They expire by themselves if the cache fails.
        with suppress(Exception):
            self.replies.delete_many(keys)

    async def _wait(
        self, stream: Stream, keys: Mapping[str, str], seconds: float
    ) -> dict[str, Any]:
        """Return the replies that arrive in time, by the keys of their requests."""
        until, written, (pause, longest) = monotonic() + seconds, monotonic(), _PAUSES
        found: dict[str, Any] = {}
        while len(found) < len(keys) and monotonic() < until and not self.has_ended:
            await on_loop()
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, longest)
            if monotonic() - written > _WRITTEN:
                written = monotonic()
                stream.put(b"")
            await in_thread()
            values = self.replies.get_many(keys)
            found = {keys[each]: value for each, value in values.items() if value != self.nonce}
        return found

    async def take(self, message: Any) -> None:
        """Hand a reply to the call that waits for it, if there is one in this session."""
        await in_thread()
        key = _key(message.get("id"))
        if self.replies.get(key) == self.nonce:
            self.replies.set(key, message, _KEPT)


class RequestSession:
    """The session of an HTTP request, if it is a legacy client's and its header names one."""

    def __init__(self, request: HttpRequest) -> None:
        self._user = str(getattr(request.user, "pk", None))
        self._sent = request.META.get("HTTP_MCP_SESSION_ID")
        # Without a second thread, the server could not receive the reply.
        self._has_threads = request.META.get("wsgi.multithread", True)
        self._begun: str | None = None

    @property
    def may_ask(self) -> bool:
        """Whether a call of the request may ask the client."""
        return self._sent is not None and self._has_threads

    @cached_property
    def session(self) -> Session | None:
        """The session that the caller has begun, and not ended; read in a thread."""
        with suppress(signing.BadSignature, ValueError, TypeError):
            capabilities, user, nonce = signing.loads(self._sent or "", salt=_SALT, max_age=_ENDED)
            if user == self._user and cache.get(_ended(nonce)) is None:
                return Session(capabilities=capabilities, nonce=nonce)
        return None

    async def join(self, context: Context) -> None:
        """Let a call ask the client. Raises SessionNotFoundError for an unknown session."""
        if self._sent is None:
            return
        await in_thread()
        if self.session is None:
            raise errors.SessionNotFoundError
        if self._has_threads:
            self.session.join(context)

    def begin(self, message: Request, asked: frozenset[str]) -> None:
        """Begin a session, whose id the client reads in the header of the reply."""
        begun = Session()
        begun.begin(message, asked)
        content = begun.capabilities, self._user, begun.nonce
        self._begun = signing.dumps(content, salt=_SALT, compress=True)

    def add_to(self, reply: Reply) -> Reply:
        """Return the reply with the header of a session that has begun."""
        if self._begun is None:
            return reply
        return reply._replace(headers={**reply.headers, "Mcp-Session-Id": self._begun})

    async def take(self, message: object) -> None:
        """Hand a reply to its call; a reply that no call of the session waits for is dropped."""
        await in_thread()
        if self.session is not None:
            await self.session.take(message)

    def end(self) -> None:
        """End the session. Raises SessionNotFoundError if it is unknown."""
        if self.session is None:
            raise errors.SessionNotFoundError
        cache.set(_ended(self.session.nonce), True, _ENDED)


def _response(key: str, request: InputRequest, reply: Any) -> object:
    """Return the response to a request; what is not one counts as cancelled by the user."""
    result = (reply or {}).get("result")
    if isinstance(result, Mapping):
        # Some clients write null for what there is not.
        result = {name: each for name, each in result.items() if each is not None}
    try:
        check_response(key, request.method, result)
    except errors.InvalidParamsError:
        return {"action": "cancel"}
    return result


def _key(request_id: object) -> str:
    """Return the key of a reply; the ids that ``ask`` makes have 32 characters."""
    is_own = isinstance(request_id, str) and re.fullmatch(r"[\w-]{32}", request_id, re.ASCII)
    return f"mcp_bridge.reply:{request_id if is_own else ''}"


def _ended(nonce: str) -> str:
    return f"mcp_bridge.ended:{nonce}"

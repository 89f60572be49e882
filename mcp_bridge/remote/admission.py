"""Who may reach a remote server as a whole, with which session, and how many streams."""

from __future__ import annotations

import threading
from collections import Counter
from http import HTTPStatus
from typing import Final

from django.core.signing import BadSignature, Signer
from django.http import HttpRequest

from mcp_bridge.access.policy import caller_of, is_limited
from mcp_bridge.concurrency import places
from mcp_bridge.features import Context
from mcp_bridge.protocol import errors
from mcp_bridge.remote.models import RemoteServer

# Open streams of one caller, and of a process, that began with a GET. Each takes a thread.
MOST_OF_CALLER: Final = 10
MOST_OF_PROCESS: Final = 200

_lock: Final = threading.Lock()
_streams: Final = Counter[tuple[str, str]]()


class UnknownServerError(errors.ForbiddenError):
    """The server does not exist, or the caller may not reach it."""

    code = 404
    http_status = HTTPStatus.NOT_FOUND
    refusal = "forbidden"

    def __init__(self) -> None:
        super().__init__("Unknown remote server.")


def reachable(server: RemoteServer | None, context: Context) -> RemoteServer:
    """Return the server, if a caller may reach it as a whole. Raises UnknownServerError."""
    if server is None or not (server.enabled and server.permission):
        raise UnknownServerError
    # A limited credential names tools, not servers.
    if not context.user.has_perm(server.permission) or is_limited(context.auth):
        raise UnknownServerError
    return server


class Sessions:
    """
    The sessions of one user with a legacy server, whose ids are signed.

    The server may see the same credential for all users, and so could not keep them apart.
    """

    def __init__(self, server: RemoteServer, context: Context) -> None:
        self._signer = Signer(salt=f"mcp_bridge.remote {server.pk} {context.user.pk}")

    def signed(self, session: str) -> str:
        """Return a session id for the client."""
        return self._signer.sign(session)

    def opened(self, given: str) -> str:
        """Return the server's session id. Raises SessionNotFoundError."""
        try:
            return self._signer.unsign(given)
        except BadSignature:
            raise errors.SessionNotFoundError from None


def take_slot(request: HttpRequest, context: Context) -> places.CallSlot | StreamSlot:
    """Take the slot of a request to a server, as of a call. Raises TooManyRequestsError."""
    kind = StreamSlot if request.method == "GET" else places.CallSlot
    return kind(caller_of(context), getattr(request, "mcp_slot", None))


class StreamSlot:
    """A slot for a stream that may last, from its creation until it is freed."""

    def __init__(self, caller: places.Caller, request: places.RequestSlot | None) -> None:
        """
        Take a slot for the caller, and free that of the request, which exists under ASGI.

        Raises TooManyRequestsError.
        """
        with _lock:
            if _streams[caller] >= MOST_OF_CALLER or _streams.total() >= MOST_OF_PROCESS:
                text = (
                    f"Too many streams: a caller may hold {MOST_OF_CALLER}, all together "
                    f"{MOST_OF_PROCESS}. Close a stream, or retry in 30 s."
                )
                raise errors.TooManyRequestsError(text, 30)
            _streams[caller] += 1
        self._caller = caller
        if request is not None:
            request.free()

    def free(self) -> None:
        """Free the slot, once."""
        with _lock:
            _streams[self._caller] -= 1
            if not _streams[self._caller]:
                del _streams[self._caller]

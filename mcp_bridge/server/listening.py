"""
Subscriptions to changes of the list of tools (MCP 2026-07-28, "Subscriptions").

One thread of the process reads the administrators' settings once a second if there are listeners.
A listener is notified only if the list that it sees has changed. It holds neither a thread nor a
database connection; the same thread checks its credential again.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from copy import copy
from functools import cache
from time import monotonic
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import Error, close_old_connections
from django.utils.translation import override

from mcp_bridge.access.authentication import authenticate, is_accepted
from mcp_bridge.access.policy import caller_of
from mcp_bridge.concurrency.places import in_thread, on_loop
from mcp_bridge.concurrency.threads import release_thread
from mcp_bridge.conf import conf
from mcp_bridge.features import Context
from mcp_bridge.protocol import JSONObject, ProtocolError, Request, errors
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.server import tools
from mcp_bridge.server.methods import Endpoint, Methods

logger = get_logger("mcp_bridge.listening")

MOST_OF_CALLER: Final = 10
MOST_OF_PROCESS: Final = 2000
# Seconds between two checks of the settings, and of a credential.
INTERVAL: Final = 1.0
CREDENTIAL: Final = 30.0
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

_lock: Final = threading.Lock()
_listeners: Final[set[Listener]] = set()
_callers: Final[Counter[tuple[str, str]]] = Counter()
_poller: threading.Thread | None = None


async def listen(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """
    Send a notification whenever the caller's list of tools changes, until it may not be read.

    Raises InvalidParamsError, NotAcceptableError for a client that does not accept a stream, and
    TooManyRequestsError.
    """
    wanted = request.params.get("notifications")
    if not isinstance(wanted, Mapping):
        raise errors.InvalidParamsError("Invalid params: notifications must be an object.")
    if context.stream is None:
        raise errors.NotAcceptableError(
            "Not acceptable: subscriptions are streams; send Accept: application/json, "
            "text/event-stream."
        )
    await in_thread()
    listener = Listener(endpoint, request, context, wanted.get("toolsListChanged") is True)
    await on_loop()
    release_thread()
    end_with_process()
    listener.join()
    try:
        await listener.ended.wait()
    finally:
        listener.leave()
    return {"resultType": "complete", "_meta": listener.meta}


class Listener:
    """One open subscription; created in a thread."""

    def __init__(
        self, endpoint: Endpoint, request: Request, context: Context, follows: bool
    ) -> None:
        self.ended = asyncio.Event()
        self.meta: JSONObject = {_SUBSCRIPTION: request.id}
        self._endpoint, self._revision, self._context = endpoint, request.revision, context
        self._language = context.language
        self._caller = caller_of(context)
        self._follows = follows
        self._list = self._fingerprint()
        self._snapshot = registry.snapshot
        self._checked = monotonic()

    def join(self) -> None:
        """Acknowledge the subscription, on the event loop. Raises TooManyRequestsError."""
        global _poller
        self._loop = asyncio.get_running_loop()
        with _lock:
            if _callers[self._caller] >= MOST_OF_CALLER:
                text = f"Too many subscriptions: {MOST_OF_CALLER} of this caller are open."
                raise errors.TooManyRequestsError(text, 30)
            if len(_listeners) >= MOST_OF_PROCESS:
                text = f"Too many subscriptions: the process has {MOST_OF_PROCESS}."
                raise errors.TooManyRequestsError(text, 30)
            _callers[self._caller] += 1
            _listeners.add(self)
            if _poller is None:
                _poller = threading.Thread(target=_poll, name="mcp_bridge_lists", daemon=True)
                _poller.start()
        self._send("notifications/subscriptions/acknowledged", {"toolsListChanged": True})

    def leave(self) -> None:
        """Forget the subscription."""
        with _lock:
            if self in _listeners:
                _listeners.discard(self)
                _callers[self._caller] -= 1
                if not _callers[self._caller]:
                    del _callers[self._caller]

    def end(self) -> None:
        """End the subscription with its result; callable from any thread."""
        self._loop.call_soon_threadsafe(self.ended.set)

    def check(self, snapshot: Snapshot) -> None:
        """Check the credential and the list, if it is time or something has changed."""
        if snapshot is self._snapshot and monotonic() - self._checked < CREDENTIAL:
            return
        try:
            self._authenticate(snapshot)
            self._endpoint.snapshot = snapshot.of(self._endpoint.snapshot.toolset) or snapshot
            found = self._fingerprint()
        except (Error, errors.UnavailableError):
            # Checked again a second later.
            return
        except Exception as exception:
            if not isinstance(exception, ProtocolError):
                logger.exception("A subscription has failed")
            self.end()
            return
        self._snapshot, self._checked = snapshot, monotonic()
        if found != self._list:
            self._list = found
            self._send("notifications/tools/list_changed")

    def _send(self, method: str, acknowledged: JSONObject | None = None) -> None:
        if acknowledged is not None:
            params = {"_meta": self.meta, "notifications": acknowledged if self._follows else {}}
        elif self._follows:
            params = {"_meta": self.meta}
        else:
            return
        self._context.stream.send({"method": method, "params": params})

    def _authenticate(self, snapshot: Snapshot) -> None:
        """Read the caller again. Raises ProtocolError if the credential does not hold any more."""
        request = self._context.request
        authenticate(request, anonymous=conf.allow_anonymous and snapshot.has_public)
        user = request.user
        if isinstance(user, get_user_model()):
            # Not every authentication class reads the user again.
            user = type(user)._default_manager.filter(pk=user.pk).first()
        if user is None or not is_accepted(user) or user.pk != self._context.user.pk:
            raise errors.ForbiddenError("Forbidden: the user may not log in.")
        context = copy(self._context)
        vars(context).update(user=user, auth=request.auth, scratch={})
        self._context = context

    def _fingerprint(self) -> int:
        """Return a hash of the list that the caller sees."""
        pages: list[bytes] = []
        params: JSONObject = {}
        with override(self._language):
            while True:
                page = tools.page(self._endpoint, params, self._context, self._revision)
                pages.append(page.tools)
                if page.next_cursor is None:
                    return hash(tuple(pages))
                params = {"cursor": page.next_cursor}


def _poll() -> None:
    """Check the listeners once a second, as long as there are any."""
    global _poller
    while True:
        threading.Event().wait(INTERVAL)
        with _lock:
            listeners = [*_listeners]
            if not listeners:
                _poller = None
                return
        try:
            snapshot = registry.snapshot
            for each in listeners:
                each.check(snapshot)
        except Error:
            logger.warning("The list of tools could not be read", exc_info=True)
        except Exception:
            logger.exception("The list of tools could not be read")
        close_old_connections()


@cache
def end_with_process() -> None:
    """End all subscriptions when the process is asked to stop: servers wait for open responses."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        if callable(before):
            signal.signal(number, _stopping(before))


def _stopping(before: Any) -> Any:
    def stop(number: int, frame: Any) -> None:
        for each in [*_listeners]:
            each.end()
        before(number, frame)

    return stop


CAPABILITIES: Final[JSONObject] = {"tools": {"listChanged": True}}
METHODS: Final[Methods] = {"subscriptions/listen": listen}

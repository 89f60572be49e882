"""
Subscriptions to changes of the lists of features (MCP 2026-07-28, "Subscriptions").

One thread of the process reads the administrators' settings once a second if there are listeners.
A listener is notified only if the list that it sees has changed. It holds neither a thread nor a
database connection; the same thread checks its credential again.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from time import monotonic, sleep
from typing import Any, Final

from django.apps import apps
from django.db import Error, close_old_connections
from django.utils.translation import override

from mcp_bridge.access.policy import caller_of
from mcp_bridge.concurrency.places import in_thread, on_loop
from mcp_bridge.concurrency.threads import release_thread
from mcp_bridge.conf import imported
from mcp_bridge.features import Context
from mcp_bridge.protocol import TASKS, JSONObject, ProtocolError, Request, errors
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
_FOLLOWED: Final = "mcp_bridge.tasks.methods.Followed"
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

# By the name in notifications: the kind of a list's features, and the members of its results.
_LISTS: Final = {
    "tools": ("tool", "tools"),
    "resources": ("resource", "resources", "resourceTemplates"),
    "prompts": ("prompt", "prompts"),
}

_lock: Final = threading.Lock()
_listeners: Final[set[Listener]] = set()
_poller: threading.Thread | None = None


async def listen(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """
    Send a notification whenever one of the caller's lists changes, until the credential ends.

    Raises InvalidParamsError, NotAcceptableError for a client that does not accept a stream, and
    TooManyRequestsError.
    """
    wanted = request.params.get("notifications")
    if not isinstance(wanted, Mapping):
        raise errors.InvalidParamsError("Invalid params: notifications must be an object.")
    if context.stream is None or context.stream.readmit is None:
        raise errors.NotAcceptableError(
            "Not acceptable: subscriptions are streams; send Accept: application/json, "
            "text/event-stream."
        )
    await in_thread()
    kinds = endpoint.snapshot.kinds | {"tool"}
    followed = [
        each
        for each, (kind, *_) in _LISTS.items()
        if kind in kinds and wanted.get(f"{each}ListChanged") is True
    ]
    tasks = None
    if "taskIds" in wanted and request.declares(TASKS) and apps.is_installed("mcp_bridge.tasks"):
        tasks = imported(_FOLLOWED)(wanted["taskIds"], context)
    listener = Listener(endpoint, request, context, followed, tasks)
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
        self,
        endpoint: Endpoint,
        request: Request,
        context: Context,
        followed: Sequence[str],
        tasks: Any = None,
    ) -> None:
        self.ended = asyncio.Event()
        self.meta: JSONObject = {_SUBSCRIPTION: request.id}
        self._request, self._stream, self._followed = request, context.stream, followed
        self._tasks = tasks
        self._language, self._caller = context.language, caller_of(context)
        self._lists = self._fingerprints(endpoint, context)
        # Compared at once, since it may have changed in the meantime.
        self._snapshot: Snapshot | None = None
        self._checked = monotonic()

    def join(self) -> None:
        """Acknowledge the subscription, on the event loop. Raises TooManyRequestsError."""
        global _poller
        self._loop = asyncio.get_running_loop()
        with _lock:
            if sum(each._caller == self._caller for each in _listeners) >= MOST_OF_CALLER:
                text = f"Too many subscriptions: {MOST_OF_CALLER} of this caller are open."
                raise errors.TooManyRequestsError(text, 30)
            if len(_listeners) >= MOST_OF_PROCESS:
                text = f"Too many subscriptions: the process has {MOST_OF_PROCESS}."
                raise errors.TooManyRequestsError(text, 30)
            granted: dict[str, Any] = {f"{each}ListChanged": True for each in self._followed}
            if self._tasks is not None:
                granted["taskIds"] = self._tasks.ids
            self._send("notifications/subscriptions/acknowledged", notifications=granted)
            _listeners.add(self)
            if _poller is None or not _poller.is_alive():
                _poller = threading.Thread(target=_poll, name="mcp_bridge_lists", daemon=True)
                _poller.start()

    def leave(self) -> None:
        """Forget the subscription."""
        with _lock:
            _listeners.discard(self)

    def end(self) -> None:
        """End the subscription with its result; callable from any thread."""
        # The loop may be closed already.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.ended.set)

    def check(self, snapshot: Snapshot) -> None:
        """Check the tasks; the credential and the lists if it is time or one may have changed."""
        try:
            for task in () if self._tasks is None else self._tasks.changed():
                self._send("notifications/tasks", **task)
            if snapshot is self._snapshot and monotonic() - self._checked < CREDENTIAL:
                return
            endpoint, context = self._stream.readmit(self._request)
            found = self._fingerprints(endpoint, context)
        except (Error, errors.UnavailableError, errors.TooManyRequestsError):
            # Checked again a second later.
            return
        except BaseException as exception:
            if not isinstance(exception, ProtocolError):
                logger.exception("A subscription has failed")
            self.leave()
            self.end()
            return
        self._snapshot, self._checked = snapshot, monotonic()
        for each in self._followed:
            if found[each] != self._lists[each]:
                self._send(f"notifications/{each}/list_changed")
        self._lists = found

    def _send(self, method: str, **members: Any) -> None:
        self._stream.send({"method": method, "params": {"_meta": self.meta, **members}})

    def _fingerprints(self, endpoint: Endpoint, context: Context) -> dict[str, int]:
        """Return a hash of each followed list as the caller sees it."""
        with override(self._language):
            return {
                followed: hash(tuple(self._pages(endpoint, context, *_LISTS[followed])))
                for followed in self._followed
            }

    def _pages(
        self, endpoint: Endpoint, context: Context, kind: str, *listings: str
    ) -> Iterator[bytes]:
        for listing in listings:
            params: JSONObject = {}
            while True:
                revision = self._request.revision
                page = tools.page(endpoint, params, context, revision, kind, listing)
                yield page.array
                if page.next_cursor is None:
                    break
                params = {"cursor": page.next_cursor}


def _poll() -> None:
    """Check the listeners once a second, as long as there are any."""
    global _poller
    while True:
        sleep(INTERVAL)
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
    # gunicorn stops its workers by SIGQUIT as well.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        before = signal.getsignal(number)
        if callable(before):
            signal.signal(number, _stopping(before))


def _stopping(before: Any) -> Any:
    def stop(number: int, frame: Any) -> None:
        for each in [*_listeners]:
            each.end()
        before(number, frame)

    return stop


CAPABILITIES: Final[JSONObject] = {each: {"listChanged": True} for each in _LISTS}
METHODS: Final[Methods] = {"subscriptions/listen": listen}

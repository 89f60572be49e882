"""
Switches the coroutine that answers a request between a thread and an event loop.

``await in_thread()`` continues in the thread of the request, for code that may block, and
``await on_loop()`` on an event loop. Both cost nothing if the coroutine is there already.
``drive`` runs such a coroutine for a caller without an event loop, as under WSGI: it stays in the
caller's thread, and parts on a loop run under asgiref's ``async_to_sync``. ``alternate`` runs it
on an event loop; consecutive parts in the thread do not return to the loop in between, since a
switch takes longer than the rest of a short call.

Slots limit how much a process does at once: calls of tools, and requests outside of calls. A slot
counts from when it is taken until it is freed, on any thread or event loop.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from itertools import repeat
from threading import Lock
from types import coroutine
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from asgiref.sync import async_to_sync, sync_to_async
from django.db import close_old_connections, connections
from django.http import HttpRequest

from mcp_bridge.concurrency.threads import own_thread, thread_of_request
from mcp_bridge.conf import conf
from mcp_bridge.protocol.errors import BusyError, TooManyRequestsError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# Yielded by a coroutine to switch; no other code yields these.
_THREAD: Final = object()
_LOOP: Final = object()


class _Here(threading.local):
    """
    The work in this thread: the part of a coroutine, or a Cancellation, if any.

    Its ``client_has_gone`` says if it is cancelled.
    """

    part: _Part[Any] | Cancellation | None = None


here: Final = _Here()

# The kind of caller (user, credential, address) and its key.
Caller: TypeAlias = tuple[str, str]
# Seconds that a request waits for its slot, and the Retry-After once that has passed.
PATIENCE: Final = 10
_RETRY: Final = 5

# Running calls in this process, by caller and in total; idle callers are not in the dict.
_running: Final[dict[Caller, int]] = {}
_all = 0
_lock: Final = Lock()
# Request slots by event loop (a process has one loop), with their number.
_slots: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[int, asyncio.Semaphore]]] = (
    WeakKeyDictionary()
)


@coroutine
def in_thread() -> Generator[object, None, None]:
    """Continue in the thread of the request, where code may block and query the database."""
    if _get_running_loop() is not None:
        yield _THREAD


@coroutine
def on_loop() -> Generator[object, None, None]:
    """Continue on the event loop. Raises CancelledError if the client has disconnected."""
    if _get_running_loop() is None:
        yield _LOOP


def check_cancelled() -> None:
    """Raise CancelledError, in a thread, if the client has disconnected."""
    if here.part is not None and here.part.client_has_gone:
        raise asyncio.CancelledError


def never_blocks(function: F) -> F:
    """Mark a function that neither blocks nor queries the database; it may run on a loop."""
    function.never_blocks = True  # type: ignore[attr-defined]
    return function


def may_block(*functions: object) -> bool:
    """Return whether a function lacks the ``never_blocks`` mark, as functions of a site do."""
    return not all(map(hasattr, functions, repeat("never_blocks")))


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that switches, in this thread; return its result."""
    try:
        # It yields _THREAD if an event loop runs in this thread, as in tests with Playwright.
        while work.send(None) is _THREAD:
            pass
    except StopIteration as ended:
        return cast(T, ended.value)
    # Later parts in the thread run in this one.
    return async_to_sync(_alternate)(work, here.part)


@coroutine
def alternate(
    work: Coroutine[Any, Any, T], slot: RequestSlot | None = None
) -> Generator[Any, Any, T]:
    """
    Run a coroutine that switches, from an event loop; return its result.

    It begins on the loop. A part in the thread is never interrupted: if the client disconnects,
    CancelledError is raised in the coroutine after that part, unless the part has ended it. The
    thread is that of asgiref's ``sync_to_async``, one per request. With a ``slot``, the first use
    of the thread takes it; if that fails, BusyError is raised in the coroutine.
    """
    step: Callable[[Any], object] = work.send
    value: Any = None
    is_cancelled = False
    while True:
        try:
            wanted = step(value)
        except StopIteration as ended:
            result: T = ended.value
            return result
        step, value = work.send, None
        if wanted is _THREAD:
            part: _Part[T] = _Part(work)
            try:
                if slot is not None:
                    yield from slot.take().__await__()
                yield from part.run_in_thread().__await__()
            except (Exception, asyncio.CancelledError) as raised:
                if part.has_ended:
                    raise
                step, value = work.throw, raised
                is_cancelled |= isinstance(raised, asyncio.CancelledError)
            else:
                if part.has_ended:
                    return part.result(is_cancelled)
        else:
            # An awaitable of the event loop, such as a future.
            try:
                value = yield wanted
            except BaseException as raised:
                step, value = work.throw, raised
                is_cancelled |= isinstance(raised, asyncio.CancelledError)


async def _alternate(work: Coroutine[Any, Any, T], part: object) -> T:
    if isinstance(part, Cancellation):
        part.reach(asyncio.current_task())
    return await alternate(work)


async def alternate_apart(work: Coroutine[Any, Any, T], slot: RequestSlot | None) -> T:
    """Run a coroutine with ``alternate`` in a task that may outlive the view that created it."""
    if thread_of_request() is not None or await _must_stay():
        return await alternate(work, slot)
    # Middleware needs the thread of the request before the call has ended.
    with own_thread():
        return await alternate(work, slot)


async def alternate_in_slot(work: Coroutine[Any, Any, T], request: HttpRequest) -> T:
    """Run all that answers a request with ``alternate``, in a slot. Raises BusyError."""
    slot = request.mcp_slot = RequestSlot()  # type: ignore[attr-defined]
    try:
        return await alternate(work, slot)
    finally:
        try:
            if slot.batch is not None or slot.others_wait and not slot.is_free:
                await sync_to_async(slot.let_connections_go)()
        finally:
            if slot.batch is not None:
                slot.batch.free()
            slot.free()


async def shield_from_cancellation(work: Awaitable[T]) -> T:
    """Return the result of the work despite cancellation, even repeated, as servers do it."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


class Cancellation:
    """Work that runs with ``drive`` in one thread, and that another thread may cancel."""

    def __init__(self) -> None:
        self.client_has_gone = False
        self._task: asyncio.Task[Any] | None = None

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work; see ``places.drive``. Raises CancelledError if it was cancelled."""
        here.part = self
        try:
            return drive(work)
        finally:
            here.part = None

    def reach(self, task: asyncio.Task[Any] | None) -> None:
        """Set the task that continues the work on an event loop."""
        self._task = task
        if self.client_has_gone:
            self.cancel()

    def cancel(self) -> None:
        """Cancel the work: its task, or in a thread when it next asks for ``client_has_gone``."""
        self.client_has_gone = True
        if self._task is not None:
            # The loop is closed if the work has ended.
            with suppress(RuntimeError):
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)


class _Part(Generic[T]):
    """A part of a coroutine in a thread, until it ends or switches to the event loop."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.client_has_gone = self._has_begun = False
        self.has_ended = False
        self._returned: T | None = None
        self._raised: BaseException | None = None

    async def run_in_thread(self) -> None:
        """Run it to its end, since threads cannot be stopped; then raise CancelledError, if any."""
        try:
            run = thread_of_request()
            await (_in_thread(self) if run is None else run(self.run))
        except asyncio.CancelledError:
            self.client_has_gone = True
            # The thread runs one job at a time: this waits for the running part, or runs it.
            await shield_from_cancellation(_in_thread(self))
            raise

    def run(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        before, here.part = here.part, self
        try:
            wanted = self._work.send(None)
            while wanted is not _LOOP:
                text = "A thread cannot await a future of an event loop: await on_loop() first."
                wanted = self._work.throw(RuntimeError(text))
        except StopIteration as ended:
            self._returned, self.has_ended = ended.value, True
        except BaseException as raised:
            # Not every exception may leave a thread: the event loop would hang or end.
            self._raised, self.has_ended = raised, True
        finally:
            here.part = before

    def result(self, is_cancelled: bool) -> T:
        """Return what the finished coroutine returned, or raise what it raised."""
        raised, self._raised = self._raised, None
        if isinstance(raised, asyncio.CancelledError) and not is_cancelled:
            raise RuntimeError("The work was cancelled from inside.") from raised
        if raised is not None:
            raise raised
        return cast(T, self._returned)


_in_thread = sync_to_async(_Part.run)


def must_stay() -> bool:
    """
    Return whether other threads cannot use the data of this one, as in tests.

    Else closes connections as CONN_MAX_AGE requires, since another thread may have its own.
    """
    used = connections.all(initialized_only=True)
    if any(each.in_atomic_block or each.allow_thread_sharing for each in used):
        return True
    close_old_connections()
    return False


_must_stay = sync_to_async(must_stay)


def close_connections() -> None:
    """Close this thread's connections to databases, except those in an open transaction."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close()


def request_slots() -> asyncio.Semaphore | None:
    """Return the slots of requests of the running event loop; None if unlimited."""
    most, loop = conf.MAX_PROCESS_REQUESTS, asyncio.get_running_loop()
    if most is None:
        return None
    known = _slots.get(loop)
    if known is None or known[0] != most:
        known = _slots[loop] = most, asyncio.Semaphore(most)
    return known[1]


class RequestSlot:
    """
    The slot that a request under ASGI needs to run in a thread.

    Threads usually hold database connections. A request frees its slot when its call starts, which
    takes a CallSlot, and does not take another one.
    """

    def __init__(self) -> None:
        self.slots: asyncio.Semaphore | None = None
        self.is_free = False
        # The slot of a batch, whose calls count as one to others: freed with the request.
        self.batch: CallSlot | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def others_wait(self) -> bool:
        """Whether all request slots are taken."""
        return self.slots is not None and self.slots.locked()

    def let_connections_go(self) -> None:
        """
        Close this thread's connections early if requests wait or other calls run.

        Django does it once the response is sent, which may be long after. Those that it keeps
        (CONN_MAX_AGE) are closed only if requests wait.
        """
        if self.others_wait:
            close_connections()
        elif _all > 1:
            close_old_connections()

    async def take(self) -> None:
        """
        Take the slot, on the event loop, in first-come order.

        Raises BusyError after PATIENCE seconds.
        """
        if self.is_free or self.slots is not None or (slots := request_slots()) is None:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await slots.acquire()
        except TimeoutError:
            text = f"The server is busy: the request has waited {PATIENCE} seconds."
            raise BusyError(f"{text} Retry after {_RETRY} seconds.", _RETRY) from None
        self.slots = slots

    def free(self) -> None:
        """Release the slot for other requests, for good; callable from any thread."""
        if self.slots is not None and not self.is_free:
            self._loop.call_soon_threadsafe(self.slots.release)
        self.is_free = True


class CallSlot:
    """A slot for one concurrent call, from its creation until it is freed."""

    def __init__(self, caller: Caller, request: RequestSlot | None) -> None:
        """
        Take a slot for the caller, and free that of the request, which exists under ASGI.

        Raises TooManyRequestsError if the caller has reached its limit, and BusyError if the
        process has.
        """
        global _all
        of_caller, of_all = conf.MAX_CONCURRENT_CALLS, conf.MAX_PROCESS_CALLS
        with _lock:
            count = _running.get(caller, 0)
            # The end of a call cannot be predicted, but most take less than a second.
            if of_caller is not None and count >= of_caller:
                text = f"Too many concurrent calls: {count} are running. Retry after 1 second."
                raise TooManyRequestsError(text, 1)
            if of_all is not None and _all >= of_all:
                text = f"The server is busy: it runs {of_all} calls at once. Retry after 1 second."
                raise BusyError(text, 1)
            _running[caller] = count + 1
            _all += 1
        self._caller, self._request = caller, request
        if request is not None:
            request.free()

    def free(self) -> None:
        """Free the slot, once; in a thread, let its connections go before."""
        global _all
        try:
            if self._request is not None and _get_running_loop() is None:
                self._request.let_connections_go()
        finally:
            with _lock:
                _all -= 1
                _running[self._caller] -= 1
                if not _running[self._caller]:
                    del _running[self._caller]

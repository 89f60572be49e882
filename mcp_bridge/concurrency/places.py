"""
Where the one coroutine that answers a request goes on, in a thread or on an event loop.

What may block goes on in the thread of the request after ``await in_thread()``, and what needs an
event loop on one after ``await on_loop()``. Both cost nothing where the coroutine is there already.
``drive`` runs such a coroutine for a caller that has no event loop, as under WSGI: it stays in the
caller's thread, and a part on a loop runs under asgiref's ``async_to_sync``. ``alternate`` runs it
on an event loop: parts that follow one another in the thread do so without coming back, since a
change takes longer than all else of a short call.

Slots bound how much a process does at once: calls of tools, and requests outside of these. Each
counts from when it is taken until it is freed, whatever thread or event loop that is on.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from threading import Lock
from types import coroutine
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections
from django.http import HttpRequest

from mcp_bridge.concurrency.threads import thread_of_request
from mcp_bridge.conf import conf
from mcp_bridge.protocol.errors import BusyError, TooManyRequestsError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# What a coroutine yields to say where it goes on; nothing else yields these.
_THREAD: Final = object()
_LOOP: Final = object()
# The part of a coroutine that runs in this thread, if one does.
_here: Final = threading.local()

# Who calls: what it is (a user, a credential, an address), and which one.
Caller: TypeAlias = tuple[str, str]
# For how many seconds a request waits for its slot, and after how many one may come again.
PATIENCE: Final = 10
_RETRY: Final = 5

# How many calls run now in this process, by caller, and of all; who has none is not in it.
_running: Final[dict[Caller, int]] = {}
_all = 0
_lock: Final = Lock()
# The slots of requests of each event loop, of which a process has one, and how many there are.
_slots: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[int, asyncio.Semaphore]]] = (
    WeakKeyDictionary()
)


@coroutine
def in_thread() -> Generator[object, None, None]:
    """Go on in the thread of the request, where code may block and query the database."""
    if _get_running_loop() is not None:
        yield _THREAD


@coroutine
def on_loop() -> Generator[object, None, None]:
    """Go on on the event loop. Raises CancelledError where the client has gone meanwhile."""
    if _get_running_loop() is None:
        yield _LOOP


def check_cancelled() -> None:
    """Raise CancelledError in a thread if the client has gone meanwhile."""
    part: _Part[Any] | None = getattr(_here, "part", None)
    if part is not None and part.client_has_gone:
        raise asyncio.CancelledError


def never_blocks(function: F) -> F:
    """Mark a function that neither blocks nor queries the database: it may run on an event loop."""
    function.never_blocks = True  # type: ignore[attr-defined]
    return function


def may_block(*functions: object) -> bool:
    """Return whether one of the functions has no mark of ``never_blocks``, as those of a site."""
    return any(not hasattr(each, "never_blocks") for each in functions)


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that says where it goes on, in this thread; return what it returns."""
    try:
        # It asks for a thread if an event loop runs in this one, as in tests with Playwright.
        while work.send(None) is _THREAD:
            pass
    except StopIteration as ended:
        return cast(T, ended.value)
    # What follows in the thread comes back to this one.
    return async_to_sync(_alternate)(work)


@coroutine
def alternate(
    work: Coroutine[Any, Any, T], slot: RequestSlot | None = None
) -> Generator[Any, Any, T]:
    """
    Run a coroutine that says where it goes on, from an event loop; return what it returns.

    It begins on the loop. A part in the thread is never broken off: where the client has gone,
    CancelledError is raised after that part, in the coroutine if it has not ended with it. The
    thread is that of asgiref's ``sync_to_async``, one for each request, which needs the ``slot``
    for it if there is one: BusyError is raised in the coroutine that gets none.
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
            # What the event loop waits for, such as a future.
            try:
                value = yield wanted
            except BaseException as raised:
                step, value = work.throw, raised
                is_cancelled |= isinstance(raised, asyncio.CancelledError)


async def _alternate(work: Coroutine[Any, Any, T]) -> T:
    return await alternate(work)


async def alternate_in_slot(work: Coroutine[Any, Any, T], request: HttpRequest) -> T:
    """Do the same for all that answers a request, with a slot for it. Raises BusyError."""
    slot = request.mcp_slot = RequestSlot()  # type: ignore[attr-defined]
    try:
        return await alternate(work, slot)
    finally:
        if slot.slots is not None and not slot.is_free:
            try:
                if slot.slots.locked():
                    # Django does it once the client has the answer, which may be long after, or
                    # keeps them, which CONN_MAX_AGE is for.
                    await _close_connections()
            finally:
                slot.free()


async def shield_from_cancellation(work: Awaitable[T]) -> T:
    """Return what the work returns, however often it is cancelled: a server may cancel twice."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


class _Part(Generic[T]):
    """A part of a coroutine in a thread, up to where it ends or goes on on the event loop."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.client_has_gone = self._has_begun = False
        self.has_ended = False
        self._returned: T | None = None
        self._raised: BaseException | None = None

    async def run_in_thread(self) -> None:
        """Run it to its end, since no thread can be stopped. Raises CancelledError after that."""
        try:
            run = thread_of_request()
            await (_in_thread(self) if run is None else run(self.run))
        except asyncio.CancelledError:
            self.client_has_gone = True
            # One thread does one after another: this waits for what runs, or runs it.
            await shield_from_cancellation(_in_thread(self))
            raise

    def run(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        _here.part = self
        try:
            wanted = self._work.send(None)
            while wanted is not _LOOP:
                text = "A thread cannot wait for what an event loop has: await on_loop() first."
                wanted = self._work.throw(RuntimeError(text))
        except StopIteration as ended:
            self._returned, self.has_ended = ended.value, True
        except BaseException as raised:
            # Not every exception may leave a thread: an event loop would hang, or end.
            self._raised, self.has_ended = raised, True
        finally:
            _here.part = None

    def result(self, is_cancelled: bool) -> T:
        """Return what the coroutine returned that has ended, or raise what it raised."""
        raised, self._raised = self._raised, None
        if isinstance(raised, asyncio.CancelledError) and not is_cancelled:
            raise RuntimeError("The work was cancelled from inside.") from raised
        if raised is not None:
            raise raised
        return cast(T, self._returned)


_in_thread = sync_to_async(_Part.run)


@sync_to_async
def _close_connections() -> None:
    """Close the connections of the request's thread, but in a transaction of somebody else's."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close()


def request_slots() -> asyncio.Semaphore | None:
    """Return the slots of requests of the running event loop; None if there is no limit."""
    most, loop = conf.MAX_PROCESS_REQUESTS, asyncio.get_running_loop()
    if most is None:
        return None
    known = _slots.get(loop)
    if known is None or known[0] != most:
        known = _slots[loop] = most, asyncio.Semaphore(most)
    return known[1]


class RequestSlot:
    """
    The slot of a request under ASGI, which it needs to go on in a thread.

    Such a thread mostly has connections to databases. A request frees its slot when its call
    begins, for which a CallSlot stands, and waits for none again.
    """

    def __init__(self) -> None:
        self.slots: asyncio.Semaphore | None = None
        self.is_free = False
        self._loop = asyncio.get_running_loop()

    async def take(self) -> None:
        """
        Take the slot, on the event loop, after those who have waited longer.

        Raises BusyError if the request has waited too long.
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
        """Let another request have the slot, for good; from any thread."""
        if self.slots is not None and not self.is_free:
            self._loop.call_soon_threadsafe(self.slots.release)
        self.is_free = True


class CallSlot:
    """The place of a call among those that run at once, from when it is made until it is freed."""

    def __init__(self, caller: Caller, request: RequestSlot | None) -> None:
        """
        Take a place for the caller, and free that of the request, which has one under ASGI.

        Raises TooManyRequestsError where the caller has none left, and BusyError where the process
        has none.
        """
        global _all
        of_caller, of_all = conf.MAX_CONCURRENT_CALLS, conf.MAX_PROCESS_CALLS
        with _lock:
            count = _running.get(caller, 0)
            # Nobody knows when a call ends, and most take no longer than a second.
            if of_caller is not None and count >= of_caller:
                text = f"Too many calls at once: {count} of yours run. Retry after 1 second."
                raise TooManyRequestsError(text, 1)
            if of_all is not None and _all >= of_all:
                text = f"The server is busy: it runs {of_all} calls at once. Retry after 1 second."
                raise BusyError(text, 1)
            _running[caller] = count + 1
            _all += 1
        self._caller = caller
        if request is not None:
            request.free()

    def free(self) -> None:
        """Give the place back, once."""
        global _all
        with _lock:
            _all -= 1
            left = _running[self._caller] - 1
            if left:
                _running[self._caller] = left
            else:
                del _running[self._caller]

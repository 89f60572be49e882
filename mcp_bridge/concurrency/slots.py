"""
How much a process does at once: calls of tools, and requests outside of these.

Each counts from when it takes its slot until it frees it, whatever thread or event loop it is on.
"""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from mcp_bridge.conf import conf
from mcp_bridge.protocol import BusyError, TooManyRequestsError

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
        self._is_free = False
        self._loop = asyncio.get_running_loop()

    @property
    def is_taken(self) -> bool:
        return self.slots is not None and not self._is_free

    async def take(self) -> None:
        """
        Take the slot, on the event loop, after those who have waited longer.

        Raises BusyError if the request has waited too long.
        """
        if self._is_free or self.slots is not None or (slots := request_slots()) is None:
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
        if self.is_taken and self.slots is not None:
            self._loop.call_soon_threadsafe(self.slots.release)
        self._is_free = True


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

"""
How much a process does at once: calls of tools, and requests outside of these.

Each counts from when it takes its slot until it frees it, whatever thread or event loop it is on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from threading import Lock
from typing import Final, TypeAlias

from django.http import HttpRequest

from mcp_bridge.conf import conf
from mcp_bridge.protocol import BusyError, TooManyRequestsError

# Who calls: what it is (a user, a credential, an address), and which one.
Caller: TypeAlias = tuple[str, str]

# How many requests wait at most for each that has a slot, and for how long, in seconds.
LINE: Final = 20
PATIENCE: Final = 10
# When one that is refused may come again, in seconds.
_RETRY: Final = 5

# How many calls run now in this process, by caller, and of all; who has none is not in it.
_running: Final[dict[Caller, int]] = {}
_all = 0
# How many requests have a slot that is not lent, and those that wait for one, the first one first.
_requests = 0
waiting: Final[deque[asyncio.Future[None]]] = deque()
_lock: Final = Lock()


class RequestSlot:
    """
    The slot of a request under ASGI, which it needs to go on in a thread while it runs no call.

    Such a thread mostly has connections to databases. The request has the slot to its end, but
    while it runs a call: the CallSlot stands for it then.
    """

    # Of the class, since an __init__ would cost every request.
    is_taken = is_in_call = False

    async def take(self) -> None:
        """
        Take the slot, on the event loop, after those who have waited longer.

        Raises BusyError where too many wait, or it has waited too long.
        """
        global _requests
        most = conf.MAX_PROCESS_REQUESTS
        if self.is_taken or self.is_in_call or most is None:
            return
        with _lock:
            if _requests < most:
                _requests += 1
                self.is_taken = True
                return
            if len(waiting) >= LINE * most:
                raise _busy(f"{len(waiting)} requests wait already")
            turn = asyncio.get_running_loop().create_future()
            waiting.append(turn)
        try:
            async with asyncio.timeout(PATIENCE):
                await turn
        except BaseException as raised:
            with _lock:
                if turn in waiting:
                    waiting.remove(turn)
                elif not turn.cancelled():
                    # Its turn has come at the same time.
                    _leave()
            if isinstance(raised, TimeoutError):
                raise _busy(f"the request has waited {PATIENCE} seconds") from None
            raise
        self.is_taken = True

    def free(self) -> None:
        """Let another request have the slot, if it was taken."""
        if self.is_taken:
            with _lock:
                _leave()


class CallSlot:
    """The place of a call among those that run at once. Whoever makes one frees it in any case."""

    _caller: Caller | None = None

    def __init__(self, request: RequestSlot | None) -> None:
        # That of the request which makes the call; None where it is not under ASGI.
        self.request = request

    def take(self, caller: Caller) -> None:
        """
        Take a place for the caller, and lend that of the request.

        Raises TooManyRequestsError where the caller has none left, and BusyError where the process
        has none.
        """
        global _all
        of_caller, of_all = conf.MAX_CONCURRENT_CALLS, conf.MAX_PROCESS_CALLS
        with _lock:
            count = _running.get(caller, 0)
            if of_caller is not None and count >= of_caller:
                kind, text = TooManyRequestsError, f"Too many calls at once: {count} of yours run."
            elif of_all is not None and _all >= of_all:
                kind, text = BusyError, f"The server is busy: it runs {of_all} calls at once."
            else:
                _running[caller] = count + 1
                _all += 1
                self._caller = caller
                if self.request is not None:
                    self.request.is_in_call = True
                    if self.request.is_taken:
                        _leave()
                return
        # Nobody knows when a call ends, and most take no longer.
        raise kind(f"{text} Retry after 1 second.", 1)

    def free(self) -> None:
        """Give the place back, if one was taken."""
        global _all, _requests
        if self._caller is None:
            return
        with _lock:
            _all -= 1
            left = _running[self._caller] - 1
            if left:
                _running[self._caller] = left
            else:
                del _running[self._caller]
            if self.request is not None:
                self.request.is_in_call = False
                if self.request.is_taken:
                    # It has a connection by now, and so does not wait once more.
                    _requests += 1
        self._caller = None


def slot_of(request: HttpRequest | None) -> RequestSlot | None:
    """Return the slot of a request; None where it has none, as under WSGI."""
    slot: RequestSlot | None = getattr(request, "mcp_slot", None)
    return slot


def _leave() -> None:
    """Count a request no more, and let the first one in line in. To be called under the lock."""
    global _requests
    _requests -= 1
    most = conf.MAX_PROCESS_REQUESTS
    while waiting and (most is None or _requests < most):
        turn = waiting.popleft()
        try:
            turn.get_loop().call_soon_threadsafe(_let_in, turn)
        except RuntimeError:
            # Its event loop has ended.
            continue
        _requests += 1


def _let_in(turn: asyncio.Future[None]) -> None:
    """Tell a request, on its event loop, that it has a slot."""
    if turn.done():
        # It has been given up meanwhile.
        with _lock:
            _leave()
    else:
        turn.set_result(None)


def _busy(reason: str) -> BusyError:
    return BusyError(f"The server is busy: {reason}. Retry after {_RETRY} seconds.", _RETRY)

"""
The site's own code around requests and calls: the setting INTERCEPTORS.

An interceptor is a class with up to three methods, ``request``, ``call`` and ``result``, or a
function, which is its ``call``. Methods that it lacks cost nothing. Its methods run in the thread
of the request, unless it has ``blocks = False``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import lru_cache
from time import perf_counter
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeAlias

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import connections

from mcp_bridge.concurrency.places import in_thread
from mcp_bridge.conf import conf, imported
from mcp_bridge.exceptions import RejectError, causes
from mcp_bridge.features import Context, ToolCall
from mcp_bridge.protocol import CallToolResult, CreateTaskResult, InputRequiredResult, Request
from mcp_bridge.protocol.exchange import internal_error
from mcp_bridge.protocol.logs import get_logger

logger = get_logger("mcp_bridge.interceptors")

# Seconds that a method may take before a warning is logged.
LONG: Final = 0.1

CallResult: TypeAlias = CallToolResult | InputRequiredResult | CreateTaskResult
Around: TypeAlias = Generator[ToolCall, CallResult, object]


class Interceptor(NamedTuple):
    """A method of the interceptor at a dotted path."""

    path: str
    method: Callable[..., Any]
    blocks: bool

    async def run(self, function: Callable[..., Any], *given: Any) -> Any:
        """Run the interceptor's code, in the thread if it may block; see ``run_here``."""
        if self.blocks:
            await in_thread()
        return self.run_here(function, *given)

    def run_here(self, function: Callable[..., Any], *given: Any) -> Any:
        """
        Run the interceptor's code, and log it if it takes long.

        Raises an exception of ``given`` that it passes on, a RejectError that is among the causes
        of what it raises, and InternalError for any other exception, which is logged.
        """
        began = perf_counter()
        try:
            return function(*given)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            if any(raised is each for each in given):
                raise
            rejected = (each for each in causes(raised) if isinstance(each, RejectError))
            error = next(rejected, None) or internal_error(f"The interceptor {self.path}")
        finally:
            if (seconds := perf_counter() - began) > LONG:
                logger.warning("The interceptor %s took %d ms", self.path, seconds * 1000)
        # After the "except", so that its cause does not become its context.
        raise error


@lru_cache(maxsize=1)
def _made() -> tuple[tuple[str, Any], ...]:
    made = []
    for path in conf.INTERCEPTORS:
        given = imported(path)
        try:
            made.append((path, given() if isinstance(given, type) else SimpleNamespace(call=given)))
        except Exception as error:
            raise ImproperlyConfigured(f"The interceptor {path} cannot be made: {error}") from error
    return tuple(made)


@lru_cache(maxsize=8)
def having(method: str) -> tuple[Interceptor, ...]:
    """Return the interceptors with a method of that name, in the order of the setting."""
    return tuple(
        Interceptor(path, getattr(each, method), getattr(each, "blocks", True))
        for path, each in _made()
        if hasattr(each, method)
    )


def _forget(**changed: object) -> None:
    _made.cache_clear()
    having.cache_clear()


setting_changed.connect(_forget)


async def see_request(request: Request, context: Context) -> None:
    """Show a request to the interceptors before it is dispatched. Raises ProtocolError."""
    for each in having("request"):
        await each.run(_see, each.method, request, context)


def change_result(call: ToolCall, result: CallToolResult) -> CallToolResult:
    """Return the result of a tool as interceptors change it. Raises ProtocolError."""
    for each in having("result"):
        result = each.run_here(_change, each.method, call, result)
    return result


class CallsAround:
    """The ``call`` generators of interceptors around one call, each at its ``yield``."""

    # The call as the generators begun so far have changed it.
    call: ToolCall

    def __init__(self) -> None:
        self._begun: list[tuple[Interceptor, Around]] = []

    async def begin(self, call: ToolCall) -> CallToolResult | None:
        """Run the generators to their ``yield``; return the result if one of them answers."""
        self.call = call
        for each in having("call"):
            begun, given = await each.run(_begin, each.method, self.call)
            if begun is None:
                return given  # type: ignore[no-any-return]
            self._begun.append((each, begun))
            self.call = self.call._replace(sent=given)
        return None

    async def end(self, outcome: CallResult | Exception) -> CallResult:
        """Run the generators to their end, the last first; return the result, or raise."""
        while self._begun:
            each, begun = self._begun[-1]
            try:
                outcome = await each.run(_end, begun, self.call, outcome)
            except Exception as raised:
                outcome = raised
            self._begun.pop()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        """Close the generators of a call that was cancelled."""
        for each, begun in reversed(self._begun):
            each.run_here(begun.close)


def _see(method: Callable[..., object], request: Request, context: Context) -> None:
    if method(request, context) is not None:
        raise TypeError("request() must return None.")


def _change(method: Callable[..., object], call: ToolCall, result: CallResult) -> CallToolResult:
    return _result(call, method(call, result))


def _begin(method: Callable[[ToolCall], Around], call: ToolCall) -> tuple[Any, Any]:
    """Return the generator and the arguments that it yields, or None and its result."""
    begun, open_before = method(call), _open_transactions()
    try:
        given = next(begun)
    except StopIteration as ended:
        return None, _result(call, ended.value)
    if not (isinstance(given, ToolCall) and isinstance(given.sent, dict)):
        begun.close()
        raise TypeError("call() must yield the call, whose `sent` is a dict.")
    if _open_transactions() != open_before:
        begun.close()
        raise RuntimeError("call() must not have a transaction open at its yield.")
    return begun, given.sent


def _open_transactions() -> list[tuple[str, int]]:
    used = connections.all(initialized_only=True)
    return [(each.alias, len(each.savepoint_ids)) for each in used if each.in_atomic_block]


def _end(begun: Around, call: ToolCall, outcome: CallResult | Exception) -> CallResult:
    try:
        begun.throw(outcome) if isinstance(outcome, Exception) else begun.send(outcome)
    except StopIteration as ended:
        is_question = isinstance(ended.value, InputRequiredResult)
        return ended.value if is_question else _result(call, ended.value)
    begun.close()
    raise RuntimeError("call() must yield once.")


def _result(call: ToolCall, value: object) -> CallToolResult:
    """Return an interceptor's result. Raises TypeError or ValueError if it cannot be sent."""
    result = None if value is None else call.tool.encode(value)
    if not isinstance(result, CallToolResult):
        raise TypeError(f"It must return a result of the tool, not {type(value).__name__}.")
    if len(result.to_json(call.context.revision)) > conf.MAX_RESULT_BYTES:
        raise ValueError("Its result is larger than MAX_RESULT_BYTES.")
    return result

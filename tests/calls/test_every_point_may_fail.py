"""
A failure at any point of a request: an answer, at most one run, and a good next call.

The points are statements, uses of the cache, log messages and receivers of signals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache.backends.locmem import LocMemCache
from django.db import OperationalError, connection

from mcp_bridge import mcp_tool, signals
from mcp_bridge.access import throttling
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient, text_of
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.confirming import FORM, RUNS, YES, wipe
from tests.support.wire import compact, strict

pytestmark = pytest.mark.django_db(transaction=True)

MARKER = "SECRET-MARKER"
SIGNALS = [
    *(signals.tool_call_started, signals.tool_call_finished),
    *(signals.tool_call_refused, signals.tools_changed),
]


class Points:
    """Counts the points that are passed and makes the n-th one fail (0: none)."""

    fails = count = 0

    def begin(self, fails: int) -> None:
        self.fails, self.count = fails, 0

    def pass_one(self, error: type[Exception]) -> None:
        self.count += 1
        if self.count == self.fails:
            raise error(MARKER)


points = Points()


class FailingCache(LocMemCache):
    """A cache in memory, any use of which may fail."""

    passes = False

    def validate_key(self, key: str) -> None:
        # Each use starts with this method.
        if self.passes:
            points.pass_one(ConnectionError)
        super().validate_key(key)


class FailingHandler(logging.Handler):
    """A handler that raises its errors in the code that logs."""

    def __init__(self, emit: Callable[[], None]) -> None:
        super().__init__()
        self._emit = emit

    def emit(self, record: logging.LogRecord) -> None:
        self._emit()


def refuse_to_log() -> None:
    raise RuntimeError(MARKER)


@contextmanager
def statements() -> Iterator[None]:
    def pass_and_execute(execute: Callable[..., Any], *args: Any) -> Any:
        points.pass_one(OperationalError)
        return execute(*args)

    with connection.execute_wrapper(pass_and_execute):
        yield


@contextmanager
def uses_of_the_cache() -> Iterator[None]:
    FailingCache.passes = True
    try:
        yield
    finally:
        FailingCache.passes = False


def pass_a_log() -> None:
    points.pass_one(RuntimeError)


@contextmanager
def logs(emit: Callable[[], None] = pass_a_log) -> Iterator[None]:
    """Pass everything that the package logs, down to DEBUG, to the failing handler."""
    logger, handler = logging.getLogger("mcp_bridge"), FailingHandler(emit)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def statements_without_logs() -> Iterator[None]:
    """Make statements fail while logging fails too."""
    with statements(), logs(refuse_to_log):
        yield


@contextmanager
def receivers() -> Iterator[None]:
    def receive(**kwargs: Any) -> None:
        points.pass_one(RuntimeError)

    for each in SIGNALS:
        each.connect(receive)
    try:
        yield
    finally:
        for each in SIGNALS:
            each.disconnect(receive)


def act(name: str) -> str:
    """Write a group."""
    RUNS.append(name)
    return str(Group.objects.create(name=name).name)


def read(name: str) -> int:
    """Count the records."""
    RUNS.append(name)
    return ToolCallRecord.objects.count()


def broken(name: str) -> str:
    """Fail, which is logged."""
    RUNS.append(name)
    raise RuntimeError(MARKER)


# Requests without a call neither log nor send signals.
WITHOUT_POINTS = {
    *((receivers, kind) for kind in ["list"]),
    *((logs, kind) for kind in ("list", "read", "act", "confirmed")),
}


class Caller:
    """Sends requests and checks that each answer is a permitted one."""

    def __init__(self, client: MCPClient) -> None:
        self.client = client

    def post(self, method: str, **params: Any) -> dict[str, Any]:
        message = self.client.message(method, **params)
        sent = self.client.mirrored(message)
        response = self.client.send(compact(message).encode(), sent)
        assert response.headers["Content-Type"] == "application/json"
        assert MARKER.encode() not in response.content
        assert response.status_code in (200, 503), response.content
        answer = strict(response.content)
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)
        if "error" in answer:
            assert answer["error"]["code"] == -32603
        return dict(answer.get("result", {}))

    def call(self, tool: str, **more: Any) -> dict[str, Any]:
        return self.post("tools/call", name=tool, arguments={"name": "all"}, **more)

    def confirm(self) -> dict[str, Any]:
        asked = self.call("wipe")
        if "requestState" not in asked:
            return asked
        return self.call("wipe", requestState=asked["requestState"], inputResponses=YES)


REQUESTS: dict[str, Callable[[Caller], dict[str, Any]]] = {
    "list": lambda caller: caller.post("tools/list"),
    "read": lambda caller: caller.call("read"),
    "act": lambda caller: caller.call("act"),
    "confirmed": Caller.confirm,
    "broken": lambda caller: caller.call("broken"),
}
USER, TOOLS = (
    "rest_framework.throttling.UserRateThrottle",
    f"{throttling.__name__}.ToolRateThrottle",
)


@pytest.fixture
def caller(settings: Any, user: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    """A client with a token, of a site that counts calls, and whose points may fail."""
    monkeypatch.setattr(throttling, "PAUSE", 0)
    settings.CACHES = {
        "default": {"BACKEND": f"{__name__}.FailingCache", "LOCATION": __name__},
    }
    settings.MCP_BRIDGE = {
        "THROTTLE_CLASSES": [USER, TOOLS],
        "THROTTLE_RATES": {"user": "9999/day", "tools": "9999/day"},
    }
    server = serve(settings, read, read_only=True)
    for function, options in ((act, {}), (broken, {}), (wipe, {"confirm": True})):
        server.register_procedure(mcp_tool(**options)(function))
    _, secret = Token.objects.issue(user=user, name="t")
    points.begin(0)
    yield Caller(MCPClient(token=secret, capabilities=FORM))
    points.begin(0)


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize(
    "where", [statements, statements_without_logs, uses_of_the_cache, logs, receivers]
)
def test_any_point_can_fail(
    where: Callable[[], AbstractContextManager[None]], kind: str, caller: Caller
) -> None:
    ask = REQUESTS[kind]

    def answers(fails: int) -> dict[str, Any]:
        RUNS.clear()
        ToolCallRecord.objects.all().delete()
        Group.objects.all().delete()
        # So that its use is recorded again and the settings are read again.
        Token.objects.update(last_used_at=None)
        registry.forget()
        points.begin(fails)
        with where():
            return ask(caller)

    # The first approves the tools.
    answers(0)
    good = answers(0)
    last = points.count
    assert good
    assert last or (where, kind) in WITHOUT_POINTS
    for fails in range(1, last + 1):
        answer = answers(fails)
        assert points.count >= fails
        is_good = bool(answer) and not answer.get("isError", False)
        assert len(RUNS) <= 1
        if kind == "act":
            assert Group.objects.count() == is_good
        if where is uses_of_the_cache and kind == "confirmed":
            # A tool that requires confirmation never runs uncounted.
            assert answer.keys() == good.keys() or "cannot be counted" in text_of(answer)
        elif where in (uses_of_the_cache, logs, receivers):
            # Counting, logging and receivers never change the answer.
            assert answer.keys() == good.keys()
            assert answer.get("isError") == good.get("isError")
            # Recorded in the same way as without a failure.
            assert ToolCallRecord.objects.count() == (kind != "list") + (kind == "confirmed")
    again = answers(0)
    assert again.get("isError") == good.get("isError")
    assert again.keys() == good.keys()

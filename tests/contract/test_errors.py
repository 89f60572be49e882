from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import connections
from django.http import Http404
from django.test import AsyncClient
from django.utils import translation
from django.utils.translation import gettext_lazy
from modernrpc.exceptions import RPCException, RPCInvalidParams
from rest_framework import exceptions as drf

from mcp_bridge import ToolError
from mcp_bridge.features import Context
from mcp_bridge.server.perform import acall
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import served
from tests.support.values import label

MARKER = "SECRET-MARKER"


def raising(exception: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise exception

    return fail


def reference_in(text: str) -> str:
    """Return the reference id that a model reads of a fault."""
    found = re.search(r"reference ([0-9a-f]{8,})", text)
    assert found is not None, text
    return found[1]


@pytest.mark.off_rest
@pytest.mark.parametrize(
    ("exception", "text"),
    [
        (ToolError("Say please."), "Say please."),
        (ToolError("Two\nlines."), "Two\nlines."),
        (ToolError(), "The tool could not do that."),
        (RPCException(-32050, "The ledger is closed."), "The ledger is closed."),
        (RPCInvalidParams("b must be larger"), "Invalid parameters: b must be larger"),
        (ValidationError("Too long."), "Too long."),
        (ValidationError(["Too long.", "Too dull."]), "Too long.\nToo dull."),
        (
            ValidationError({"name": ["Too long.", "Too dull."], "age": ["Too low."]}),
            "name: Too long.\nname: Too dull.\nage: Too low.",
        ),
        (ValidationError("At most %(most)s.", params={"most": 3}), "At most 3."),
        (PermissionDenied("Not today."), "Not today."),
        (PermissionDenied(), "You do not have permission to do that."),
        (Http404("No such page."), "No such page."),
        (Http404(), "Not found."),
        (ObjectDoesNotExist("No book."), "No book."),
        (Group.DoesNotExist("There is no such group."), "There is no such group."),
        (drf.NotFound("No such row."), "No such row."),
        (drf.APIException("Later."), "Later."),
        (drf.ValidationError({"a": ["Bad."], "b": {"c": ["Worse."]}}), "a: Bad.\nb: c: Worse."),
        (drf.ValidationError(["Bad.", "Worse."]), "Bad.\nWorse."),
        (NotImplementedError("Next week."), "Next week."),
        (NotImplementedError(), "This tool is not implemented yet."),
    ],
    ids=label,
)
def test_texts_for_callers_reach_the_model(
    exception: Exception, text: str, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, raising(exception))
    result = modern.call_tool("fail")
    assert result["isError"] is True
    assert text_of(result) == text
    assert modern.response.status_code == 200


@pytest.mark.off_rest
def test_failure_is_a_result_in_every_revision(client: CheckedClient) -> None:
    result = client.call_tool("fail", {"how": "tool"})
    assert (result["isError"], text_of(result)) == (True, "Say please.")
    assert "structuredContent" not in result
    assert client.response.status_code == 200


def test_lazy_text_is_in_the_language_of_the_request(modern: CheckedClient, settings: Any) -> None:
    serve(settings, raising(ToolError(gettext_lazy("Yes"))))
    with translation.override("de"):
        assert text_of(modern.call_tool("fail")) == "Ja"


UNEXPECTED = [
    RuntimeError(MARKER),
    ValueError(MARKER),
    KeyError(MARKER),
    TypeError(f"fail() got an unexpected keyword argument '{MARKER}'"),
    AttributeError(MARKER),
    OSError(2, "No such file", f"/etc/{MARKER}"),
    RecursionError(MARKER),
    MemoryError(MARKER),
    ExceptionGroup(MARKER, [ValueError(MARKER)]),
    UnicodeDecodeError("utf-8", MARKER.encode(), 0, 1, MARKER),
    SystemExit(MARKER),
    SystemExit(3),
    AssertionError(MARKER),
    type(f"Error{MARKER.replace('-', '')}", (Exception,), {})(MARKER),
]


@pytest.mark.off_rest
@pytest.mark.requirement("tools.outputs-sanitised")
@pytest.mark.parametrize("exception", UNEXPECTED, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("debug", [False, True], ids=["", "DEBUG"])
def test_unexpected_exceptions_are_only_logged(
    exception: BaseException,
    asynchronous: bool,
    debug: bool,
    modern: CheckedClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.DEBUG = debug
    serve(settings, raising(exception), asynchronous=asynchronous)
    result = modern.call_tool("fail")
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert result["isError"] is True
    assert reference_in(text_of(result)) in record.getMessage()
    assert record.exc_info is not None
    assert "SECRET" not in modern.response.content.decode()
    assert type(exception).__name__ not in modern.response.content.decode()


@pytest.mark.parametrize("exception", UNEXPECTED, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_coroutine_function_fails_the_same_way(
    exception: BaseException, asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    async def fail() -> None:
        raise exception

    serve(settings, fail, asynchronous=asynchronous)
    assert reference_in(text_of(modern.call_tool("fail")))
    assert "SECRET" not in modern.response.content.decode()


class GoneError(BaseException):
    """A BaseException, and not one of Python's own."""


@pytest.mark.parametrize(
    "exception",
    [GeneratorExit(MARKER), GoneError(MARKER), BaseExceptionGroup("more", [GoneError(MARKER)])],
    ids=lambda each: type(each).__name__,
)
def test_base_exceptions_of_a_coroutine_are_answered(
    exception: BaseException, settings: Any
) -> None:
    async def fail() -> None:
        raise exception

    async def fail_between() -> AsyncIterator[int]:
        yield 1
        raise exception

    for function in (fail, fail_between):
        serve(settings, function, asynchronous=True, public=True)
        assert reference_in(text_of(CheckedClient().call_tool(function.__name__)))


class Never:
    """An awaitable that never ends, without an event loop."""

    def __await__(self) -> Iterator[None]:
        yield


def test_closed_coroutine_has_not_failed(settings: Any) -> None:
    """Python closes coroutines that still wait when an event loop ends."""
    raised: list[BaseException] = []

    async def wait() -> None:
        try:
            await Never()
        except BaseException as exit_:
            raised.append(exit_)
            raise

    async def main() -> None:
        work = acall(served("wait"), {}, Context(user=None))
        while work.send(None) is not None:
            await asyncio.sleep(0.01)
        # ``close()`` would raise RuntimeError for a coroutine that continues.
        work.close()

    settings.MCP_BRIDGE = {"AUDIT": None}
    serve(settings, wait, public=True, read_only=True)
    asyncio.run(main())
    assert [*map(type, raised)] == [GeneratorExit]


def next_of_nothing() -> int:
    return next(iter([]))


async def anext_of_nothing() -> int:
    return next(iter([]))


@pytest.mark.parametrize("function", [next_of_nothing, anext_of_nothing])
def test_stop_iteration_is_an_ordinary_failure(
    function: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, function)
    assert reference_in(text_of(modern.call_tool(function.__name__)))


@pytest.mark.parametrize("function", [next_of_nothing, anext_of_nothing])
def test_stop_iteration_does_not_hang_an_async_request(function: Any, settings: Any) -> None:
    serve(settings, function, asynchronous=True, public=True)
    client = CheckedClient()
    message = client.message("tools/call", name=function.__name__)

    async def post() -> Any:
        sent = AsyncClient().post(
            "/mcp", message, content_type="application/json", headers=client.mirrored(message)
        )
        return await asyncio.wait_for(sent, timeout=5)

    answer = async_to_sync(post)().json()
    assert reference_in(text_of(answer["result"]))


@pytest.mark.off_tasks
@pytest.mark.off_lane
@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("is_coroutine", [False, True], ids=["function", "coroutine"])
def test_base_exceptions_of_tools_do_not_end_threads(
    kind: type[BaseException], is_coroutine: bool, settings: Any
) -> None:
    async def afail() -> None:
        raise kind(MARKER)

    settings.MCP_BRIDGE = {"AUDIT": None}
    fail = afail if is_coroutine else raising(kind(MARKER))
    serve(settings, fail, public=True, read_only=True)

    def call() -> Any:
        try:
            return CheckedClient().call_tool(fail.__name__)
        finally:
            connections.close_all()

    # A threaded server would end its process, and with it the calls of all other clients.
    with ThreadPoolExecutor(1) as pool:
        assert reference_in(text_of(pool.submit(call).result(timeout=5)))


def test_interrupting_coroutine_does_not_end_the_event_loop(settings: Any) -> None:
    async def fail() -> None:
        raise KeyboardInterrupt(MARKER)

    settings.MCP_BRIDGE = {"AUDIT": None}
    serve(settings, fail, public=True, read_only=True, asynchronous=True)
    assert reference_in(text_of(CheckedClient().call_tool("fail")))


def test_interrupting_a_command_stops_its_tool(settings: Any) -> None:
    serve(settings, raising(KeyboardInterrupt()), public=True, read_only=True)
    with pytest.raises(KeyboardInterrupt):
        CheckedClient().call_tool("fail")


def test_every_failure_has_a_unique_reference(modern: CheckedClient) -> None:
    texts = [text_of(modern.call_tool("fail", {"how": "bug"})) for _ in range(3)]
    assert len({reference_in(text) for text in texts}) == 3


def test_line_breaks_in_exceptions_are_escaped_in_logs(
    modern: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    serve(settings, raising(RuntimeError("x\nERROR forged")))
    modern.call_tool("fail")
    assert all("\n" not in record.getMessage() for record in caplog.records)


def test_infinite_recursion_is_a_failure(modern: CheckedClient, settings: Any) -> None:
    def endless() -> int:
        return endless()

    serve(settings, endless)
    assert reference_in(text_of(modern.call_tool("endless")))


def test_type_error_in_the_body_is_an_ordinary_failure(
    client: CheckedClient,
) -> None:
    result = client.call_tool("type_error")
    assert reference_in(text_of(result))
    assert "arameter" not in text_of(result)
    assert "mcp-bridge/errors" not in result.get("_meta", {})


@pytest.mark.parametrize("name", ["echo", "add", "fail", "no\r\nERROR forged", "unmarked"])
def test_client_errors_are_not_logged_as_errors(
    name: str, legacy: CheckedClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = legacy.message("tools/call", name=name, arguments={"text": MARKER, "how": 1})
    legacy.send(json.dumps(body).encode())
    ours = [each for each in caplog.records if each.name.startswith("mcp_bridge")]
    assert [each for each in ours if each.levelno >= logging.ERROR] == []
    assert MARKER not in caplog.text
    assert "\nERROR forged" not in caplog.text


def test_tool_works_again_after_a_failure(modern: CheckedClient) -> None:
    modern.call_tool("fail", {"how": "exit"})
    assert modern.call_tool("add", {"a": 1})["isError"] is False


def test_librarys_not_implemented_error_is_only_logged(
    modern: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def later() -> None:
        """Come later."""
        raise NotImplementedError("Not before May.")

    async def alater() -> None:
        """Come later, in a coroutine."""
        raise NotImplementedError("Not before June.")

    def abstract() -> None:
        """Use what is abstract."""
        logging.Handler().emit(logging.makeLogRecord({"msg": MARKER}))

    serve(settings, later, alater, abstract)
    assert text_of(modern.call_tool("later")) == "Not before May."
    assert text_of(modern.call_tool("alater")) == "Not before June."
    text = text_of(modern.call_tool("abstract"))
    assert "emit must be implemented" not in text
    assert reference_in(text) in caplog.text

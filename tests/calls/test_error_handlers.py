from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import path
from modernrpc.exceptions import RPCException, RPCInternalError
from modernrpc.server import RpcServer

from mcp_bridge import ToolError, mcp_tool
from mcp_bridge.features import ToolCall
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from tests.contract.test_errors import MARKER, raising, reference_in
from tests.support.values import label


def handled(settings: Any, handler: Any, exception: Exception) -> None:
    """Serve a procedure that raises, on a server with an error handler."""
    server = RpcServer(error_handler=handler)
    server.register_procedure(mcp_tool(raising(exception)))
    route(settings, path("rpc", server.view))


def test_error_handler_of_the_server_receives_the_failure(
    modern: CheckedClient, settings: Any
) -> None:
    seen: list[Any] = []
    problem = RuntimeError(MARKER)
    handled(settings, lambda exception, context: seen.append((exception, context)), problem)
    assert reference_in(text_of(modern.call_tool("fail")))
    ((exception, context),) = seen
    assert exception is problem
    assert context.request.user.username == "ada"
    assert context.server.error_handler is not None


def raise_rpc(exception: Any, context: Any) -> None:
    raise RPCException(-32001, "The handler's own words.")


def raise_internal(exception: Any, context: Any) -> None:
    raise RPCInternalError(MARKER)


def raise_bug(exception: Any, context: Any) -> None:
    raise KeyError(MARKER)


def test_error_handler_can_replace_the_text(modern: CheckedClient, settings: Any) -> None:
    handled(settings, raise_rpc, RuntimeError(MARKER))
    assert text_of(modern.call_tool("fail")) == "The handler's own words."


@pytest.mark.parametrize("handler", [raise_internal, raise_bug])
def test_failing_error_handler_leaks_nothing(
    handler: Any, modern: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    handled(settings, handler, RuntimeError(MARKER))
    assert reference_in(text_of(modern.call_tool("fail")))
    assert MARKER not in modern.response.content.decode()
    assert any(record.exc_info for record in caplog.records)


class Mute(RPCException):
    """An exception whose text raises."""

    @property
    def message(self) -> str:
        raise KeyError(MARKER)

    @message.setter
    def message(self, text: str) -> None: ...


def test_unprintable_exception_is_an_ordinary_failure(modern: CheckedClient, settings: Any) -> None:
    serve(settings, raising(Mute(-32000, MARKER)))
    assert reference_in(text_of(modern.call_tool("fail")))
    assert MARKER not in modern.response.content.decode()


def mapper(exception: Exception, call: ToolCall) -> Any:
    """Map by the exception's text, as the setting ERROR_MAPPER."""
    assert call.tool.name == "fail"
    assert call.context.user.username == "ada"
    answers: dict[str, Any] = {"mapped": "A better text.", "none": None, "empty": "", "number": 5}
    return answers[str(exception)]


@pytest.mark.parametrize("problem", [RuntimeError("mapped"), ToolError("mapped")], ids=label)
def test_error_mapper_returns_the_text(
    problem: Exception, modern: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"ERROR_MAPPER": "tests.calls.test_error_handlers.mapper"}
    serve(settings, raising(problem))
    result = modern.call_tool("fail")
    assert (result["isError"], text_of(result)) == (True, "A better text.")


@pytest.mark.parametrize("how", ["none", "empty", "number", "unknown key"])
def test_failing_or_empty_error_mapper_is_ignored(
    how: str, modern: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"ERROR_MAPPER": "tests.calls.test_error_handlers.mapper"}
    serve(settings, raising(ToolError(how)))
    assert text_of(modern.call_tool("fail")) == how
    serve(settings, raising(RuntimeError(how)))
    assert reference_in(text_of(modern.call_tool("fail")))
    assert json.dumps(how) not in modern.response.content.decode()

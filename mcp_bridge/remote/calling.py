"""Call a tool of a remote server in the thread of the request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any, Final

from mcp_bridge.concurrency.places import close_connections
from mcp_bridge.exceptions import Cancelled, InputRequired, ToolError
from mcp_bridge.features import Context, ToolCall
from mcp_bridge.outbound.client import OutboundError
from mcp_bridge.protocol import CallToolResult, JSONObject
from mcp_bridge.protocol.headers import parameter_headers
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut
from mcp_bridge.remote.client import Exchange, RemoteError
from mcp_bridge.remote.gateway import CONNECT_TIMEOUT, UPSTREAM, Gateway, Unsendable, status_class
from mcp_bridge.remote.results import questions_in, read_result
from mcp_bridge.sources.operations.answers import MAYBE

logger = get_logger("mcp_bridge.remote")

# How often a server may ask for its own state again in one call.
MAX_STATES: Final = 3
# Characters of the message of a server's progress.
MAX_MESSAGE: Final = 1000
# Seconds for which a call that waits keeps its connections to databases.
HELD: Final = 1.0


def call_tool(gateway: Gateway, remote_name: str, call: ToolCall) -> CallToolResult:
    """
    Return the result of a remote tool.

    Raises ToolError with a sentence that names the server, InputRequired for its questions, and
    Cancelled.
    """
    context = call.context
    try:
        headers = gateway.checked_headers(context)
    except Unsendable as why:
        raise _error(gateway, str(why)) from why
    params = _params(remote_name, call)
    for _ in range(MAX_STATES):
        exchange = Exchange(
            method="tools/call",
            params=params,
            name=remote_name,
            headers=parameter_headers(call.tool.headers, call.sent),
            capabilities=_capabilities(context),
            on_progress=None if context.stream is None else partial(_report, context),
            check=_Waiting(context),
            may_last=True,
        )
        result = ask(gateway, headers, exchange, context, may_repeat=call.tool.is_read_only)
        if result.get("resultType") != "input_required":
            break
        if result.get("inputRequests") or "requestState" not in result:
            raise _asked(gateway, result, context)
        # The server only needs its state sent back.
        params = {**params, "requestState": result["requestState"]}
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        raise _error(gateway, f"asked for its state {MAX_STATES} times without a result")
    if kind != "complete":
        text = f"returned a result of the type {cut(str(kind), 60)!r}, which this site lacks"
        raise _error(gateway, text)
    try:
        return read_result(result)
    except ValueError as why:
        raise _error(gateway, f"returned a result that is not MCP ({why})") from why


def ask(
    gateway: Gateway,
    headers: Mapping[str, str],
    exchange: Exchange,
    context: Context,
    *,
    may_repeat: bool,
) -> JSONObject:
    """
    Return the result of a request to the server.

    The server and the class of its HTTP status are noted for the record of the call. Raises
    ToolError if the server does not answer, or answers with an error.
    """
    server = gateway.server
    context.scratch[UPSTREAM] = server.slug, status_class(0)
    try:
        gateway.check_open()
    except Unsendable as why:
        raise _error(gateway, str(why)) from why
    began = monotonic()
    try:
        result = gateway.client(headers).request(exchange)
    except RemoteError as why:
        gateway.breaker.note(is_failure=exchange.status >= 500)
        more = f": {cut(str(why), 500)}" if str(why) else ""
        raise _error(gateway, f"answered with an error{more}") from why
    except OutboundError as why:
        # Any other answer comes from a server that works, or from this site's limits.
        gateway.breaker.note(is_failure=why.is_outage or exchange.status >= 500)
        logger.warning("Remote server %s %s", server.slug, why, exc_info=why.__cause__)
        more = f". {MAYBE}" if why.is_sent and not may_repeat else ""
        raise _error(gateway, f"{why}{more}") from why
    except Cancelled:
        # The time limit of the call may be shorter than that of the server.
        if not exchange.status and monotonic() - began > CONNECT_TIMEOUT:
            gateway.breaker.note(is_failure=True)
        raise
    else:
        gateway.breaker.note(is_failure=False)
        return result
    finally:
        context.scratch[UPSTREAM] = server.slug, status_class(exchange.status)
        logger.debug(
            "Remote server %s: %s, status %d, %.1f ms",
            *(server.slug, exchange.method, exchange.status, (monotonic() - began) * 1000),
        )


def _error(gateway: Gateway, text: str) -> ToolError:
    return ToolError(gateway.sentence(text))


def _params(remote_name: str, call: ToolCall) -> dict[str, Any]:
    params: dict[str, Any] = {"name": remote_name, "arguments": dict(call.sent)}
    state = call.context.tool_state
    if isinstance(state, Mapping):
        # The client has answered the server's questions.
        answers = call.context.input_responses
        params["inputResponses"] = {key: answers[key] for key in state["asked"] if key in answers}
        if state["state"] is not None:
            params["requestState"] = state["state"]
    return params


def _capabilities(context: Context) -> JSONObject:
    """Return the capabilities of the client with which it can answer the server's questions."""
    if not context.revision.input_required:
        return {}
    known = context.client.capabilities
    return {name: known[name] for name in ("elicitation", "sampling", "roots") if name in known}


def _report(context: Context, params: JSONObject) -> None:
    done, total, message = (params.get(name) for name in ("progress", "total", "message"))
    if isinstance(done, int | float) and not isinstance(done, bool):
        is_number = isinstance(total, int | float) and not isinstance(total, bool)
        text = cut(str(message or ""), MAX_MESSAGE)
        context.progress(done, total if is_number else None, text)


class _Waiting:
    """Called while a call waits: ends it if its client has gone, and lends its connections."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._until = monotonic() + HELD

    def __call__(self) -> None:
        if self._context.cancelled:
            raise Cancelled
        if monotonic() > self._until:
            # Others may need the database meanwhile.
            self._until = math.inf
            close_connections()


def _asked(gateway: Gateway, result: JSONObject, context: Context) -> BaseException:
    """Return the questions of the server for the client, or an error if it cannot answer them."""
    try:
        requests = questions_in(result)
    except ValueError as why:
        return _error(gateway, f"asked for input that is not MCP ({why})")
    known = context.client.capabilities if context.revision.input_required else {}
    if not requests or not all(each.is_declared(known) for each in requests.values()):
        return _error(gateway, "asked for input that this client cannot give")
    state = {"state": result.get("requestState"), "asked": list(requests)}
    return InputRequired(requests, tool_state=state)

"""Call an operation: send its request to the service and read the response."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

import mcp_bridge
from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import ToolCall
from mcp_bridge.outbound.client import Outbound, OutboundError
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.protocol.headers import FIELD_NAME, FIELD_VALUE
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.sources.operations.answers import MAYBE, Answer, read_answer
from mcp_bridge.sources.operations.mapping import MappedOperation, OperationRequest
from mcp_bridge.sources.secrets import check_credential

# A function that returns the headers that identify the caller of a call to the service.
Headers = Callable[[ToolCall], Mapping[str, str]]

# Characters that need no encoding in the literal parts of a path.
_LITERAL: Final = "/:@!$&'()*+,;=-._~%?"
_PARAMETER: Final = re.compile(r"\{([^{}]*)\}")

logger = get_logger("mcp_bridge.ext.openapi")


def call_service(
    outbound: Outbound, hook: Headers | None, mapped: MappedOperation, call: ToolCall
) -> CallToolResult:
    """Return a service's response as a result. Raises as read_answer() and the hook do."""
    request, operation = mapped.request(call.arguments), mapped.operation
    headers = _headers(request, {} if hook is None else hook(call), call)
    body = request.body if request.content_type is not None else None
    if body is None and operation.method in ("post", "put", "patch"):
        # Some servers require a Content-Length.
        body = b""
    try:
        method, place = operation.method.upper(), target(operation.path, request)
        received = outbound.send(method, place, headers, body)
    except OutboundError as why:
        logger.warning("Tool %r: the service %s", call.tool.name, why, exc_info=why.__cause__)
        more = f" {MAYBE}" if why.is_sent and not call.tool.is_read_only else ""
        raise ToolError(f"The service {why}.{more}") from why
    refuses = received.status in (401, 403, 407)
    if refuses or received.status >= 500:
        logger.warning("Tool %r: the service answered %d", call.tool.name, received.status)
    if refuses:
        raise ToolError("The service refused the site.")
    answer = Answer(status=received.status, headers=received.headers, body=received.body)
    return read_answer(answer, mapped)


def _headers(request: OperationRequest, given: Mapping[str, str], call: ToolCall) -> dict[str, str]:
    """Return all headers of a request; those of the hook override those from the model."""
    headers = {
        "accept": "application/json, */*;q=0.1",
        "user-agent": f"django-mcp-bridge/{mcp_bridge.__version__}",
        **{name.lower(): text for name, text in request.headers.items()},
    }
    if request.content_type is not None:
        headers["content-type"] = request.content_type
    for name, text in given.items():
        if not FIELD_NAME.fullmatch(name) or not FIELD_VALUE.fullmatch(text):
            # Without the value, which is a secret.
            raise ValueError(f"the header {name!r} has a character that is not allowed in headers")
        check_credential(call.context, name, text)
        headers[name.lower()] = text
    return headers


def target(path: str, request: OperationRequest) -> str:
    """Return the path of an operation with its values, and the query string."""
    # Every second part is the name of a parameter.
    written = "".join(
        request.path.get(part, "") if number % 2 else quote(part, safe=_LITERAL)
        for number, part in enumerate(_PARAMETER.split(path))
    )
    if not request.query:
        return written
    return f"{written}{'&' if '?' in written else '?'}{request.query}"

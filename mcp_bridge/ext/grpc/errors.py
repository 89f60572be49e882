"""Convert the status of a failed gRPC call to an error for the model or the site's log."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import grpc
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from grpc_status import rpc_status

from mcp_bridge.exceptions import ArgumentError, InvalidArguments, ToolError
from mcp_bridge.features import ToolCall
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut, pointer

logger = get_logger("mcp_bridge.ext.grpc")

_Code: Final = grpc.StatusCode
# Statuses whose messages are meant for callers.
_TOLD: Final = {
    _Code.INVALID_ARGUMENT: "The service refuses these arguments.",
    _Code.NOT_FOUND: "Not found.",
    _Code.ALREADY_EXISTS: "It already exists.",
    _Code.FAILED_PRECONDITION: "The service cannot do that in its current state.",
    _Code.OUT_OF_RANGE: "The arguments are out of range.",
    _Code.ABORTED: "The service aborted the call because of a concurrent change: try again.",
    _Code.PERMISSION_DENIED: "You do not have permission to do that.",
    _Code.RESOURCE_EXHAUSTED: "A limit of the service has been reached: try again later.",
}
# Statuses whose details, such as addresses and certificates, go only to the site's log.
_UNREACHED: Final = {
    _Code.DEADLINE_EXCEEDED: "The service did not answer in time.",
    _Code.UNAVAILABLE: "The service cannot be reached just now.",
    _Code.CANCELLED: "The call was cancelled.",
}
_UNSURE: Final = "The action may or may not have been performed: check before you retry."
_LONGEST: Final = 2000
_MOST: Final = 25
# The parts of a path such as ``lines[0].labels["a"]``.
_PART: Final = re.compile(r"""\["?([^\]"]*)"?\]|([^.\[\]]+)""")


def convert_error(exception: Exception, call: ToolCall) -> Exception:
    """
    Return the error for the model instead of gRPC's own.

    The statuses UNKNOWN, INTERNAL and DATA_LOSS are not converted, since their text may come from
    any exception in the service: it is logged, and the model receives a generic sentence.
    """
    error: Any = exception
    if not isinstance(error, grpc.RpcError):
        return exception
    code, text = error.code(), cut(error.details() or "", _LONGEST)
    if code is _Code.RESOURCE_EXHAUSTED and "larger than max" in text:
        text = "The request or its answer is too large: request less, or in parts."
        return ToolError(text)
    if code in _TOLD:
        if code is _Code.INVALID_ARGUMENT and (errors := list(_field_errors(error))):
            return InvalidArguments(errors[:_MOST])
        text = text or _TOLD[code]
        if code is _Code.RESOURCE_EXHAUSTED:
            for retry in _details(error, RetryInfo):
                seconds = max(1, math.ceil(retry.retry_delay.ToTimedelta().total_seconds()))
                text += f" Retry after {seconds} second{'s' * (seconds > 1)}."
        return ToolError(text)
    if code is _Code.UNAUTHENTICATED:
        logger.error("The service of tool %r refused the site: %s", call.tool.name, text)
        return ToolError("The service refused the site.")
    if code is _Code.UNIMPLEMENTED:
        logger.error("The service of tool %r does not implement it: %s", call.tool.name, text)
        return ToolError("This tool is not implemented yet.")
    if code in _UNREACHED:
        logger.warning("Tool %r: %s, %s", call.tool.name, code.name, text)
        told = _UNREACHED[code]
        return ToolError(told if call.tool.is_read_only else f"{told} {_UNSURE}")
    return exception


def _details(error: Any, kind: Any) -> Iterator[Any]:
    """Yield the details of a kind from a status (google.rpc.Status)."""
    # A service may send arbitrary details.
    with suppress(Exception):
        status = rpc_status.from_call(error)
        for each in status.details if status is not None else ():
            detail = kind()
            if each.Unpack(detail):
                yield detail


def _field_errors(error: Any) -> Iterator[ArgumentError]:
    for request in _details(error, BadRequest):
        for each in request.field_violations:
            place = [index or name for index, name in _PART.findall(each.field)]
            text = cut(each.description or "is not valid", _LONGEST)
            yield ArgumentError(path=pointer(place), type="service", message=text)

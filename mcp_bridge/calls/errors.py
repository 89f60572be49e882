"""Turn an exception into the result for the model and the error of the call record."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from traceback import walk_tb
from typing import Final, NamedTuple, NoReturn

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404
from django.utils.module_loading import import_string
from rest_framework.exceptions import APIException

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import (
    InvalidArguments,
    RejectError,
    TimedOut,
    ToolError,
    UnsendableResult,
    causes,
)
from mcp_bridge.features import ToolCall
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.protocol import ERRORS_KEY, CallToolResult, ProtocolError, errors
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut

logger = get_logger("mcp_bridge.calls")

# Errors that other backends raise as OperationalError: a missing table or column, or a read-only
# database such as a standby (PostgreSQL, "Error Codes"; MySQL's error number).
_UNAVAILABLE: Final = frozenset({"42P01", "42703", "25006"})
_MISSING_TABLE: Final = (1146,)
# PostgreSQL's code for a statement that exceeded statement_timeout.
_STOPPED: Final = "57014"


class HandledError(NamedTuple):
    """The result for the model; the error code, log reference and cause for the record."""

    result: CallToolResult
    error_code: str = ErrorCode.TOOL_ERROR
    reference: str = ""
    cause: BaseException | None = None


def handle_error(call: ToolCall, exception: Exception | TimedOut) -> HandledError:
    """
    Return the model's result and the record's error for an exception that a call raised.

    The source's error handler and ERROR_MAPPER are applied first. Raises ProtocolError if the
    tool or its error handler raised one.
    """
    if isinstance(exception, RejectError | errors.InternalError):
        raise exception
    if isinstance(exception, TimedOut) or _ran_out_of_time(call, exception):
        seconds = call.context._running.seconds
        stopped = CallToolResult.error(
            f"The {call.tool.kind} {call.tool.name} was stopped after its time limit of "
            f"{seconds:g} seconds. "
            "Request less in one call; repeating the call unchanged will not help."
        )
        return HandledError(stopped, ErrorCode.TIMED_OUT)
    if isinstance(exception, UnsendableResult):
        what = "returned a result that cannot be sent"
        return log_error(call, what, exception.__cause__, ErrorCode.UNSENDABLE)
    try:
        exception = call.tool.convert_error(exception, call)
    except Exception:
        logger.exception("The error handler of tool %r raised", call.tool.name)
    if isinstance(exception, ProtocolError):
        raise exception
    text: object = None
    if conf.ERROR_MAPPER is not None:
        try:
            text = import_string(conf.ERROR_MAPPER)(exception, call)
        except Exception:
            logger.exception("ERROR_MAPPER %r raised", conf.ERROR_MAPPER)
    if not isinstance(text, str) or not text:
        text = _explained(exception, call)
    if text is not None:
        result = CallToolResult.error(text)
        if isinstance(exception, InvalidArguments) and text == str(exception):
            result = invalid_result(exception)
        if len(result.to_json(call.context.revision)) > conf.MAX_RESULT_BYTES:
            # A character takes up to 6 bytes in JSON.
            result = CallToolResult.error(cut(text, conf.MAX_RESULT_BYTES // 8))
        return HandledError(result)
    if is_database_unavailable(exception):
        what = "could not use the site's database"
        return log_error(call, what, exception, ErrorCode.UNAVAILABLE)
    return log_error(call, "failed", exception)


def invalid_result(refused: InvalidArguments) -> CallToolResult:
    """Return the result for invalid arguments, with each error in its ``_meta``."""
    return CallToolResult.error(str(refused), {ERRORS_KEY: [*map(asdict, refused.errors)]})


def log_error(
    call: ToolCall, what: str, cause: BaseException | None, code: str = ErrorCode.INTERNAL_ERROR
) -> HandledError:
    """Log an internal error in full, and return one sentence about it for the model."""
    (kind, name), reference = call.tool.key, secrets.token_hex(6)
    told = kind.capitalize(), name, what, reference
    logger.error("%s %r %s (reference %s)", *told, exc_info=cause)
    advice = "repeating the call unchanged will not help"
    if code == ErrorCode.UNAVAILABLE:
        advice = "the same call may succeed later"
    text = (
        f"The {kind} {name} {what}: the site's log says why under the reference {reference}, "
        f"and {advice}."
    )
    return HandledError(CallToolResult.error(text), code, reference, cause)


def _ran_out_of_time(call: ToolCall, exception: BaseException) -> bool:
    """Return whether the database has stopped a statement at the time limit of the call."""
    running = call.context._running
    is_late = running is not None and running.is_late
    return is_late and any(
        getattr(each, "sqlstate", None) == _STOPPED for each in causes(exception)
    )


def is_database_unavailable(exception: BaseException) -> bool:
    """Return whether the database is unavailable: unreachable, not migrated, or read-only."""
    if isinstance(exception, OperationalError | InterfaceError):
        return True
    code = getattr(exception.__cause__, "sqlstate", None)
    return isinstance(exception, DatabaseError) and (
        code in _UNAVAILABLE or exception.args[:1] == _MISSING_TABLE
    )


def reraise(exception: Exception) -> NoReturn:
    """
    Raise an exception of a request in a form that the transport accepts.

    Raises UnavailableError if the database is unavailable, and RuntimeError for a StopIteration,
    which a future cannot hold, so that it must not leave a thread.
    """
    if is_database_unavailable(exception):
        logger.error("The database is unavailable", exc_info=exception)
        text = "The server cannot reach its database just now: try again later."
        raise errors.UnavailableError(text) from exception
    if isinstance(exception, StopIteration):
        # Without "from": contextlib would take it for the same exception.
        raise RuntimeError("The site's code raised StopIteration.")
    raise exception


def _explained(exception: Exception, call: ToolCall) -> str | None:
    """Return the text of an exception that is meant for callers (Django, DRF, tools), or None."""
    match exception:
        case ToolError() | ObjectDoesNotExist():
            return str(exception) or "The tool could not do that."
        case ValidationError():
            by_field = exception.message_dict if hasattr(exception, "error_dict") else {}
            lines = [f"{field}: {each}" for field, found in by_field.items() for each in found]
            return "\n".join(lines or exception.messages)
        case PermissionDenied():
            return str(exception) or "You do not have permission to do that."
        case Http404():
            return str(exception) or "Not found."
        case NotImplementedError():
            # The text is for callers only if the tool itself raised it, not a library it uses.
            frames = [frame for frame, _ in walk_tb(exception.__traceback__)]
            if frames and frames[-1].f_code is call.tool.code:
                return str(exception) or "This tool is not implemented yet."
        case APIException():
            return _detail(exception.detail)
    return None


def _detail(detail: object) -> str:
    """Return DRF's detail as text: it is a string, a list or a dict by field, nested freely."""
    if isinstance(detail, dict):
        return "\n".join(f"{field}: {_detail(each)}" for field, each in detail.items())
    if isinstance(detail, list):
        return "\n".join(_detail(each) for each in detail)
    return str(detail)

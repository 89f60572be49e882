"""What a model reads of an exception, and what a record says of it."""

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
from mcp_bridge.exceptions import InvalidArguments, ToolError, UnsendableResult
from mcp_bridge.features import ToolCall
from mcp_bridge.models.outcomes import ERRORS_KEY, ErrorCode
from mcp_bridge.protocol import CallToolResult, ProtocolError, errors
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut

logger = get_logger("mcp_bridge.calls")

# What other databases have an OperationalError for: a table or a column that is missing, and a
# database that takes no changes, as a standby's (PostgreSQL, "Error Codes"; MySQL's number).
_UNAVAILABLE: Final = frozenset({"42P01", "42703", "25006"})
_MISSING_TABLE: Final = (1146,)


class HandledError(NamedTuple):
    """The result for the model; the error code and the reference into the log for the record."""

    result: CallToolResult
    error_code: str = ErrorCode.TOOL_ERROR
    reference: str = ""


def handle_error(call: ToolCall, exception: Exception) -> HandledError:
    """
    Return what the model and the record say of an exception that a call raised.

    The source's own error handler and ERROR_MAPPER see what the tool raised first. Raises
    ProtocolError where that is what the tool, or its error handler, raised.
    """
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
            # JSON writes a character in up to 6 bytes.
            result = CallToolResult.error(cut(text, conf.MAX_RESULT_BYTES // 8))
        return HandledError(result)
    if is_database_unavailable(exception):
        what = "could not use the site's database"
        return log_error(call, what, exception, ErrorCode.UNAVAILABLE)
    return log_error(call, "failed", exception)


def invalid_result(refused: InvalidArguments) -> CallToolResult:
    """Return the result of a call whose arguments are invalid, with each error in its ``_meta``."""
    return CallToolResult.error(str(refused), {ERRORS_KEY: [*map(asdict, refused.errors)]})


def log_error(
    call: ToolCall, what: str, cause: BaseException | None, code: str = ErrorCode.INTERNAL_ERROR
) -> HandledError:
    """Log an error that is the site's own in full, and return one sentence on it for the model."""
    name, reference = call.tool.name, secrets.token_hex(6)
    logger.error("Tool %r %s (reference %s)", name, what, reference, exc_info=cause)
    advice = "repeating the call unchanged will not help"
    if code == ErrorCode.UNAVAILABLE:
        advice = "the same call may succeed later"
    text = (
        f"The tool {name} {what}: the site's log says why under the reference {reference}, "
        f"and {advice}."
    )
    return HandledError(CallToolResult.error(text), code, reference)


def is_database_unavailable(exception: BaseException) -> bool:
    """Return whether the database could not be asked: away, not migrated, or read-only."""
    if isinstance(exception, OperationalError | InterfaceError):
        return True
    code = getattr(exception.__cause__, "sqlstate", None)
    return isinstance(exception, DatabaseError) and (
        code in _UNAVAILABLE or exception.args[:1] == _MISSING_TABLE
    )


def reraise(exception: Exception) -> NoReturn:
    """
    Raise an exception of a request as the transport can take it, or as it is.

    Raises UnavailableError where the database could not be asked, and RuntimeError for a
    StopIteration: no future takes one, so that it may not leave a thread.
    """
    if is_database_unavailable(exception):
        logger.error("The database could not be asked", exc_info=exception)
        text = "The server cannot reach its database just now: try again later."
        raise errors.UnavailableError(text) from exception
    if isinstance(exception, StopIteration):
        # Without "from", by which contextlib would tell that it is the same.
        raise RuntimeError("The site's own code raised StopIteration.")
    raise exception


def _explained(exception: Exception, call: ToolCall) -> str | None:
    """Return the text of an exception that Django, DRF or a tool means for callers, or None."""
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
            return str(exception) or "There is no such thing."
        case NotImplementedError():
            # One that a library has raised, which the tool has called, is not for callers.
            frames = [frame for frame, _ in walk_tb(exception.__traceback__)]
            if frames and frames[-1].f_code is call.tool.code:
                return str(exception) or "This tool is not implemented yet."
        case APIException():
            return _detail(exception.detail)
    return None


def _detail(detail: object) -> str:
    """Return DRF's detail, which may be a text, a list, or errors by field, nested to any depth."""
    if isinstance(detail, dict):
        return "\n".join(f"{field}: {_detail(each)}" for field, each in detail.items())
    if isinstance(detail, list):
        return "\n".join(_detail(each) for each in detail)
    return str(detail)

"""
Recording and signalling of calls and refusals: the one place that does either.

A call of a tool that is not read-only is recorded before it runs, as "started", and again when it
has ended: in the tool's own transaction where that is committed, so that the one is not without the
other. A call of a read-only tool is recorded when it has ended, as is a refusal; AUDIT["WRITE"]
says whether at once. A record that cannot be written is logged as an error and changes no answer,
but for the setting AUDIT["REQUIRED"].
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.utils import timezone
from pydantic_core import to_json

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import (
    CallToolResult,
    HeaderMismatchError,
    ProtocolError,
    without_unprintable,
)
from mcp_bridge.protocol.headers import decoded
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.records import rows
from mcp_bridge.registry.registry import has_database, registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.signals import tool_call_finished, tool_call_refused, tool_call_started

logger = get_logger("mcp_bridge.records")

# By the status of a tool that its caller does not see, which is answered as if it were not there.
_UNSEEN: Final = {
    None: ErrorCode.UNKNOWN_TOOL,
    ToolStatus.DISABLED: ErrorCode.DISABLED,
    ToolStatus.NEW: ErrorCode.WITHHELD,
    ToolStatus.CHANGED: ErrorCode.WITHHELD,
}
# Refusals that a caller gets again and again: those of a minute are one row.
_REPEATED: Final = frozenset({ErrorCode.THROTTLED, *_UNSEEN.values(), ErrorCode.FORBIDDEN})
# The most characters of an error's text on record.
MAX_ERROR: Final = 500


@dataclass(slots=True, kw_only=True)
class StartedCall:
    """A call that runs; ``record`` is None where the site keeps none."""

    call: ToolCall
    started: float
    record: dict[str, Any] | None
    # Of its row, where that is written already.
    key: object
    # Whether its success is recorded in the tool's transaction.
    is_in_transaction: bool = False

    def finish_in(self, result: CallToolResult, databases: Sequence[str]) -> None:
        """
        Record the success in the tool's transaction, which is about to be committed.

        Where that cannot be, ``finish`` records it afterwards: it must follow in any case.
        """
        # What was not on record before it ran is so at the latest with what it has done.
        if self.key is not None or self.record is not None and not self.call.tool.is_read_only:
            values = {
                "outcome": Outcome.SUCCEEDED,
                "duration_ms": round((perf_counter() - self.started) * 1000, 3),
                "result_bytes": len(result.to_json(self.call.context.revision)),
            }
            if self.key is None:
                values = {**(self.record or {}), **values}
            self.is_in_transaction = rows.write_in(databases, self.key, values)


def start(call: ToolCall) -> StartedCall:
    """
    Record and signal that a call starts; ``finish`` must follow.

    Raises CallRefused where no record could be written and AUDIT["REQUIRED"] forbids the call.
    """
    tool, audit = call.tool, conf.audit
    record, key = _record(Outcome.STARTED, tool.name, call.sent, call.context, tool), None
    if record is not None and call.approval is not None:
        record["pending_call_id"] = call.approval
    if record is not None and _is_written_ahead(tool):
        key = rows.insert(record, unsynced=not audit.REQUIRED)
    if key is None and audit.REQUIRED and not tool.is_read_only:
        text = (
            f"The tool {tool.name} was not run: this site keeps a record of what is done and could "
            "not write one just now. The same call may succeed later."
        )
        raise CallRefused(CallToolResult.error(text), ErrorCode.UNRECORDED)
    if tool_call_started.receivers:
        tool_call_started.send_robust(Tool, call=call)
    return StartedCall(call=call, started=perf_counter(), record=record, key=key)


def _is_written_ahead(tool: Tool) -> bool:
    """Return whether calls of the tool are recorded before it runs."""
    return not tool.is_read_only or conf.audit.WRITE == "ahead" or conf.audit.WRITE_AHEAD


def start_blocks(tool: Tool) -> bool:
    """Return whether it may block to record and signal that a call starts."""
    return _is_written_ahead(tool) or bool(tool_call_started.receivers)


def finish_blocks(started: StartedCall) -> bool:
    """Return whether it may block to record and signal how a call has ended."""
    if started.record is not None and not (started.key is None and rows.can_wait()):
        return True
    return bool(tool_call_finished.receivers)


def finish(
    started: StartedCall,
    outcome: Outcome,
    *,
    error_code: str = "",
    reference: str = "",
    result_bytes: int | None = None,
    error: object = None,
) -> None:
    """Record and signal how a call has ended; ``error`` is what the client has received of one."""
    duration = perf_counter() - started.started
    ended: dict[str, Any] = {
        "outcome": outcome,
        "error_code": error_code,
        "reference": reference,
        "result_bytes": result_bytes,
    }
    record, key = started.record, started.key
    # A commit that failed has made another outcome of it.
    is_recorded = started.is_in_transaction and outcome == Outcome.SUCCEEDED
    if record is not None and not is_recorded:
        values = {"duration_ms": round(duration * 1000, 3), **ended}
        if error is not None:
            call = started.call
            values |= _error(error, call.sent, call.tool.name, call.tool)
        if key is None:
            record |= values
            rows.insert_later(record)
        else:
            rows.amend(record["tool"], key, values)
    if tool_call_finished.receivers:
        tool_call_finished.send_robust(Tool, call=started.call, duration=duration, **ended)


def refuse(
    error_code: str,
    name: object,
    arguments: object,
    context: Context,
    *,
    tool: Tool | None = None,
    error: Exception | None = None,
) -> None:
    """
    Record and signal that a call was refused before its tool ran.

    ``name`` and ``arguments`` are as the client sent them; ``tool`` is None where the caller may
    not know of it. ``error`` is what refused it.
    """
    name = _text(name)
    if error_code == ErrorCode.UNKNOWN_TOOL:
        # The same work for every name, so that time does not give a hidden tool away.
        error_code = _UNSEEN.get(registry.statuses.get(name), ErrorCode.FORBIDDEN)
    # A database that has just failed is not asked again: its client waits for an answer.
    if error_code != ErrorCode.UNAVAILABLE and _is_wanted(error_code, context):
        # What nobody has logged in for, and is no tool of theirs, may be anything.
        is_made_up = tool is None and _is_stranger(context)
        kept = None if is_made_up else arguments
        record = _record(Outcome.REFUSED, name, kept, context, tool)
        if record is not None:
            record["error_code"] = error_code
            if isinstance(error, CallRefused):
                record |= {"reference": error.reference, "pending_call_id": error.pending_call}
            if not is_made_up:
                said = error.result if isinstance(error, CallRefused) else error
                # What says this says nothing of arguments, and may be said again and again.
                quotable = None if error_code in _REPEATED else arguments
                record |= _error(said, quotable, name, tool)
            if error_code in _REPEATED or getattr(error, "repeated", False):
                # A stranger can make up a new name for each call.
                named = "" if is_made_up else name
                is_bounded = error_code == ErrorCode.THROTTLED or _is_stranger(context)
                told = "" if is_bounded else record.get("arguments", "")
                digest = hashlib.sha256(told.encode()).digest()
                rows.insert_or_count(record, (named, record.get("pending_call_id"), digest))
            else:
                rows.insert_later(record)
    if tool_call_refused.receivers:
        known = {"tool": tool, "context": context, "request": context.request}
        tool_call_refused.send_robust(Tool, error_code=error_code, name=name, **known)


def request_refused(error: ProtocolError, request: HttpRequest) -> None:
    """Record and signal that a request was refused before its message was read."""
    name = request.META.get("HTTP_MCP_NAME", "")
    with suppress(HeaderMismatchError):
        name = decoded("Mcp-Name", name.strip(" \t"))
    context = Context(
        user=getattr(request, "user", None),
        auth=getattr(request, "auth", None),
        remote_address=request.META.get("REMOTE_ADDR", ""),
        user_agent=request.META.get("HTTP_USER_AGENT", ""),
    )
    if _is_wanted(error.refusal, context):
        record = _record(Outcome.REFUSED, name, None, context, None)
        if record is not None:
            # Which revision is spoken is in the message, and the name may be made up.
            rows.insert_or_count({**record, "error_code": error.refusal, "revision": ""})
    if tool_call_refused.receivers:
        known = {"tool": None, "context": None, "request": request}
        tool_call_refused.send_robust(Tool, error_code=error.refusal, name=name, **known)


def _is_stranger(context: Context) -> bool:
    """Return whether the caller is nobody who is known, by user or credential."""
    return context.auth is None and not getattr(context.user, "is_authenticated", False)


def _is_wanted(error_code: str, context: Context) -> bool:
    """Return whether a refusal is recorded: without AUDIT["UNAUTHENTICATED"], no stranger's is."""
    if conf.audit.UNAUTHENTICATED:
        return True
    is_of_strangers = error_code in _REPEATED or error_code == ErrorCode.UNAUTHENTICATED
    return not (is_of_strangers and _is_stranger(context))


def _record(
    outcome: Outcome, name: str, arguments: object, context: Context, tool: Tool | None
) -> dict[str, Any] | None:
    """Return what a record says, by column; None where the site keeps none."""
    if conf.AUDIT is None or not has_database():
        return None
    info = context.client.info
    values: dict[str, Any] = {
        "started_at": timezone.now(),
        "tool": _printable(name, 128),
        "outcome": outcome,
        "revision": context.revision.version,
        "remote_address": _printable(context.remote_address),
        # A legacy client names itself in a header alone.
        "client_name": _printable(info.get("name") or context.user_agent),
        "client_version": _printable(info.get("version")),
    }
    for part in (_user, _credential, partial(_arguments, arguments, name, tool)):
        try:
            values |= part(context)
        except Exception:
            # A user or credential of the site's own may raise when it is looked at.
            logger.exception("The record of a call of %r is not complete", name)
    return values


def _user(context: Context) -> dict[str, object]:
    user = context.user
    if user is None or not user.is_authenticated:
        return {}
    key = {"user_id": user.pk} if isinstance(user, get_user_model()) else {}
    return {"user_name": _printable(user.get_username(), 150), **key}


def _credential(context: Context) -> dict[str, object]:
    """Return the credential's name: never the credential itself, which some are as a text."""
    auth = context.auth
    if auth is None:
        return {}
    return {"credential": _printable(getattr(auth, "name", None)) or type(auth).__name__}


def _arguments(
    arguments: object, name: str, tool: Tool | None, context: Context
) -> dict[str, object]:
    if arguments is None:
        return {}
    try:
        size = len(to_json(arguments))
    except (ValueError, TypeError):
        size = None
    kept = conf.audit.ARGUMENTS
    if kept == "none":
        return {"arguments_bytes": size}
    # Imported here, since by default no record has arguments.
    from mcp_bridge.records.contents import redacted_arguments

    return {
        "arguments_bytes": size,
        "arguments": redacted_arguments(arguments, _known(name, tool)),
    }


def _error(error: object, arguments: object, name: str, tool: Tool | None) -> dict[str, object]:
    """Return what the client reads of a CallToolResult or a ProtocolError, without secrets."""
    if not conf.audit.ERRORS:
        return {}
    # Imported here, since few calls end in an error.
    from mcp_bridge.records.contents import redacted_error

    try:
        text, pointers = redacted_error(error, arguments, _known(name, tool))
    except Exception:
        logger.exception("The record of a call of %r has no error's text", name)
        return {}
    return {
        "error_text": _printable(text, MAX_ERROR),
        "invalid_arguments": "\n".join(map(_printable, pointers)),
    }


def _known(name: str, tool: Tool | None) -> Tool | None:
    """Return the tool: one that the caller may not know of has secret parameters as well."""
    return registry.known.tools.get(name) if tool is None and registry.known is not None else tool


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _printable(value: object, length: int = 100) -> str:
    """Return a text in one line, without characters that hide or turn round what follows."""
    text = _text(value)[:length]
    # Most are plain, which needs no call.
    return text if text.isascii() and text.isprintable() else without_unprintable(text)

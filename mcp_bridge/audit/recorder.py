"""
Recording and signalling of calls and refusals: the one place that does either.

A call of a tool that is not read-only is recorded before it runs, as "started", and again when it
has ended: in the tool's own transaction where that is committed, so that the one is not without the
other. A call of a read-only tool is recorded when it has ended, as is a refusal; AUDIT["WRITE"]
says whether at once. A record that cannot be written is logged as an error and changes no answer,
but for the setting AUDIT["REQUIRED"].
"""

from __future__ import annotations

import logging
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

from mcp_bridge.audit import rows
from mcp_bridge.calls.outcomes import ErrorCode, Outcome
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.protocol import CallToolResult, HeaderMismatchError, ProtocolError
from mcp_bridge.protocol.headers import decoded
from mcp_bridge.registry.registry import has_database, registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.signals import tool_call_finished, tool_call_refused, tool_call_started

logger = logging.getLogger("mcp_bridge.audit")

# The key in a context's scratch space of whether its last refusal for too many calls repeats one of
# the same window of time: the first is on record, so that many do not fill the table.
REPEATED: Final = "mcp_bridge.repeated"
# By the status of a tool that its caller does not see, which is answered as if it were not there.
_UNSEEN: Final = {
    None: ErrorCode.UNKNOWN_TOOL,
    ToolStatus.DISABLED: ErrorCode.DISABLED,
    ToolStatus.NEW: ErrorCode.WITHHELD,
    ToolStatus.CHANGED: ErrorCode.WITHHELD,
}


@dataclass(slots=True, kw_only=True)
class StartedCall:
    """A call that runs; ``record`` is None where there is none, or none could be written."""

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
        if self.key is not None:
            values = {
                "outcome": Outcome.SUCCEEDED,
                "duration_ms": round((perf_counter() - self.started) * 1000, 3),
                "result_bytes": len(result.to_json(self.call.context.revision)),
            }
            self.is_in_transaction = rows.amend_in(databases, self.key, values)


def start(call: ToolCall) -> StartedCall:
    """
    Record and signal that a call starts; ``finish`` must follow.

    Raises CallRefused where no record could be written and AUDIT["REQUIRED"] forbids the call.
    """
    tool, audit = call.tool, conf.audit
    record, key = _record(Outcome.STARTED, tool.name, call.sent, call.context, tool), None
    if record is not None and _is_written_ahead(tool):
        key = rows.insert(record, unsynced=not audit.REQUIRED)
        record = None if key is None else record
    if record is None and audit.REQUIRED and not tool.is_read_only:
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
) -> None:
    """Record and signal how a call has ended."""
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
    reference: str = "",
) -> None:
    """
    Record and signal that a call was refused before its tool ran.

    ``name`` and ``arguments`` are as the client sent them; ``tool`` is None where the caller may
    not know of it.
    """
    name = _text(name)
    if error_code == ErrorCode.UNKNOWN_TOOL:
        # The same work for every name, so that time does not give a hidden tool away.
        error_code = _UNSEEN.get(registry.statuses.get(name), ErrorCode.FORBIDDEN)
    # A database that has just failed is not asked again: its client waits for an answer.
    repeated = error_code == ErrorCode.THROTTLED and context.scratch.get(REPEATED)
    if error_code != ErrorCode.UNAVAILABLE and not repeated:
        record = _record(Outcome.REFUSED, name, arguments, context, tool)
        if record is not None:
            rows.insert_later({**record, "error_code": error_code, "reference": reference})
    if tool_call_refused.receivers:
        known = {"tool": tool, "context": context, "request": context.request}
        tool_call_refused.send_robust(Tool, error_code=error_code, name=name, **known)


def request_refused(error: ProtocolError, request: HttpRequest) -> None:
    """Record and signal that a request was refused before its message was read."""
    name = request.META.get("HTTP_MCP_NAME", "")
    with suppress(HeaderMismatchError):
        name = decoded("Mcp-Name", name.strip(" \t"))
    wanted = error.refusal != ErrorCode.UNAUTHENTICATED or conf.audit.UNAUTHENTICATED
    if wanted and not error.repeated:
        context = Context(
            user=getattr(request, "user", None),
            auth=getattr(request, "auth", None),
            remote_address=request.META.get("REMOTE_ADDR", ""),
            user_agent=request.META.get("HTTP_USER_AGENT", ""),
        )
        record = _record(Outcome.REFUSED, name, None, context, None)
        if record is not None:
            # Which revision is spoken is in the message.
            rows.insert_later({**record, "error_code": error.refusal, "revision": ""})
    if tool_call_refused.receivers:
        known = {"tool": None, "context": None, "request": request}
        tool_call_refused.send_robust(Tool, error_code=error.refusal, name=name, **known)


def _record(
    outcome: Outcome, name: str, arguments: object, context: Context, tool: Tool | None
) -> dict[str, Any] | None:
    """Return what a record says, by column; None where the site keeps none."""
    if conf.AUDIT is None or not has_database():
        return None
    info = context.client.info
    values: dict[str, Any] = {
        "started_at": timezone.now(),
        "tool": name,
        "outcome": outcome,
        "revision": context.revision.version,
        "remote_address": _text(context.remote_address),
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
    return {"user_name": _text(user.get_username()), **key}


def _credential(context: Context) -> dict[str, object]:
    """Return the credential's name: never the credential itself, which some are as a text."""
    auth = context.auth
    if auth is None:
        return {}
    return {"credential": _text(getattr(auth, "name", None)) or type(auth).__name__}


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
    from mcp_bridge.audit.redaction import redact_to_json, sensitive_fields

    # A tool that the caller may not know of has secret parameters as well.
    if tool is None and registry.known is not None:
        tool = registry.known.tools.get(name)
    secrets = sensitive_fields(tool, by_name=kept != "full")
    text = redact_to_json(arguments, limit=conf.audit.MAX_ARGUMENTS_BYTES, secrets=secrets)
    return {"arguments_bytes": size, "arguments": text}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _printable(value: object) -> str:
    text = _text(value)[:100]
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\ufffd" for each in text)

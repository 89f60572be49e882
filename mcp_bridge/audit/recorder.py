"""
Recording and signalling of calls and refusals: the one place that does either.

A call of a tool that is not read-only is recorded before it runs, as "started", and again when it
has ended; a call of a read-only tool when it has ended. Both are written outside of the tool's own
transaction. A record that cannot be written is logged as an error and changes no answer, but for
the setting AUDIT["REQUIRED"].
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeVar

from django.contrib.auth import get_user_model
from django.db import (
    InterfaceError,
    OperationalError,
    connections,
    router,
    transaction,
)
from django.http import HttpRequest
from django.utils import timezone

from mcp_bridge.audit.redaction import redact_to_json, sensitive_fields
from mcp_bridge.calls.outcomes import ErrorCode, Outcome
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import CallToolResult, HeaderMismatchError, ProtocolError
from mcp_bridge.protocol.headers import decoded
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.registry.registry import has_database, registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.signals import tool_call_finished, tool_call_refused, tool_call_started

logger = logging.getLogger("mcp_bridge.audit")

T = TypeVar("T")
# The key in a context's scratch space of whether its last refusal for too many calls repeats one of
# the same window of time: the first is on record, so that many do not fill the table.
REPEATED: Final = "mcp_bridge.repeated"


_UNRECORDED: Final = (
    "The tool {} was not run: this site keeps a record of what is done and could not write one "
    "just now. The same call may succeed later."
)


@dataclass(slots=True)
class _Record:
    """What a record says by column; ``key`` is the one that the database has given it."""

    values: dict[str, Any]
    key: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedCall:
    """A call that runs; ``record`` is None where there is none, or none could be written."""

    call: ToolCall
    started: float
    record: _Record | None


def start(call: ToolCall) -> StartedCall:
    """
    Record and signal that a call starts; ``finish`` must follow.

    Raises CallRefused where no record could be written and AUDIT["REQUIRED"] forbids the call.
    """
    tool = call.tool
    record = _record(Outcome.STARTED, tool.name, call.sent, call.context, tool)
    acts = not tool.annotations.get("readOnlyHint", False)
    if record is not None and (acts or conf.audit.WRITE_AHEAD):
        record = record if _write(record, keyed=True) else None
    if record is None and acts and conf.audit.REQUIRED:
        refusal = CallToolResult.error(_UNRECORDED.format(tool.name))
        raise CallRefused(refusal, ErrorCode.UNRECORDED)
    tool_call_started.send_robust(Tool, call=call)
    return StartedCall(call=call, started=perf_counter(), record=record)


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
    if started.record is not None:
        _write(started.record, **ended, duration_ms=round(duration * 1000, 3))
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
        error_code = _why_unseen(name)
    # A database that has just failed is not asked again: its client waits for an answer.
    repeated = error_code == ErrorCode.THROTTLED and context.scratch.get(REPEATED)
    if error_code != ErrorCode.UNAVAILABLE and not repeated:
        record = _record(Outcome.REFUSED, name, arguments, context, tool)
        if record is not None:
            _write(record, error_code=error_code, reference=reference)
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
            _write(record, error_code=error.refusal, revision="")
    known = {"tool": None, "context": None, "request": request}
    tool_call_refused.send_robust(Tool, error_code=error.refusal, name=name, **known)


def _why_unseen(name: str) -> str:
    """
    Return the code for a tool that its caller does not see, which is answered as if it were not.

    The work is the same for every name, so that time does not give a hidden tool away.
    """
    match registry.statuses.get(name):
        case None:
            return ErrorCode.UNKNOWN_TOOL
        case ToolStatus.DISABLED:
            return ErrorCode.DISABLED
        case ToolStatus.NEW | ToolStatus.CHANGED:
            return ErrorCode.WITHHELD
    return ErrorCode.FORBIDDEN


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _record(
    outcome: Outcome, name: str, arguments: object, context: Context, tool: Tool | None
) -> _Record | None:
    """Return a record that is not written yet; None where the site keeps none."""
    if conf.AUDIT is None or not has_database():
        return None
    values: dict[str, Any] = {
        "started_at": timezone.now(),
        "tool": name,
        "outcome": outcome,
        "revision": context.revision.version,
        "remote_address": _text(context.remote_address),
    }
    parts: tuple[Callable[[], dict[str, object]], ...] = (
        partial(_client, context),
        partial(_user, context),
        partial(_credential, context),
        # A tool that the caller may not know of has secret parameters as well.
        lambda: _arguments(arguments, tool or registry.discovered.tools.get(name)),
    )
    for part in parts:
        try:
            values |= part()
        except Exception:
            # A user or credential of the site's own may raise when it is looked at.
            logger.exception("The record of a call of %r is not complete", name)
    return _Record(values)


def _client(context: Context) -> dict[str, object]:
    """Return how a client names itself, in the message or, in legacy revisions, in a header."""
    info = context.client.info
    names = {
        "client_name": info.get("name") or context.user_agent,
        "client_version": info.get("version"),
    }
    return {
        column: "".join(each if each.isprintable() else "\ufffd" for each in _text(name)[:100])
        for column, name in names.items()
    }


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


def _arguments(arguments: object, tool: Tool | None) -> dict[str, object]:
    if arguments is None:
        return {}
    try:
        size = len(encode(arguments))
    except (ValueError, TypeError):
        size = None
    kept = conf.audit.ARGUMENTS
    if kept == "none":
        return {"arguments_bytes": size}
    secrets = sensitive_fields(tool, by_name=kept != "full")
    text = redact_to_json(arguments, limit=conf.audit.MAX_ARGUMENTS_BYTES, secrets=secrets)
    return {"arguments_bytes": size, "arguments": text}


def _write(record: _Record, *, keyed: bool = False, **values: Any) -> bool:
    """Write a record with these values as well; return whether it could be, and log a loss."""
    record.values.update(values)
    try:
        using = router.db_for_write(ToolCallRecord)
        if record.key is not None:
            _write_apart(using, partial(ToolCallRecord.amend, record.key, values, using))
        else:
            insert = partial(ToolCallRecord.insert, record.values, using, keyed=keyed)
            record.key = _write_apart(using, insert)
    except Exception:
        name = record.values["tool"]
        logger.exception("The record of a call of %r is lost: it was not written", name)
        return False
    return True


def _write_apart(using: str, write: Callable[[], T]) -> T:
    """Return what ``write`` returns, which writes in no transaction of the tool's."""
    connection = connections[using]
    if connection.in_atomic_block:
        # In one of somebody else's; a write that fails must leave the rest of it usable.
        with transaction.atomic(using=using):
            return write()
    try:
        return write()
    except (OperationalError, InterfaceError):
        # It may have died while the tool ran.
        if connection.connection is None or connection.is_usable():
            raise
    connection.close()
    return write()

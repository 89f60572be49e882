"""
What is written down of calls and refusals, and told to whoever listens: one place for both.

A call of a tool that is not read-only is written before it runs, as "started", and again when it
has ended; of one that only reads, a record is written when it has ended. Either is written outside
of the tool's own transaction. What cannot be written is logged as an error and changes no answer,
but for the setting AUDIT["REQUIRED"].
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import DatabaseError, connections, router, transaction
from django.dispatch import Signal

from mcp_bridge import approval
from mcp_bridge.conf import AUDIT, conf
from mcp_bridge.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import ProtocolError, Request
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.redaction import marked, storable, told
from mcp_bridge.registry import has_settings, registry
from mcp_bridge.signals import tool_call_finished, tool_call_refused, tool_call_started
from mcp_bridge.tools import Context, Tool, ToolCall

logger = logging.getLogger("mcp_bridge.audit")


class Unrecorded(Exception):
    """The record of a call could not be written, without which the call may not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A call that has begun; ``record`` is None where there is none, or none could be written."""

    call: ToolCall
    began: float
    record: Any


def begun(call: ToolCall, request: Request) -> Running:
    """
    Write down and tell that a call begins; ``ended`` must follow.

    Raises Unrecorded where AUDIT["REQUIRED"] forbids the call.
    """
    record = _record(call.context, request.params, Outcome.STARTED, call.tool)
    if record is not None and not call.tool.annotations.get("readOnlyHint", False):
        record = _saved(record)
        if record is None and _option("REQUIRED"):
            raise Unrecorded
    _send(tool_call_started, call=call)
    return Running(call=call, began=perf_counter(), record=record)


def ended(
    running: Running,
    outcome: Outcome,
    *,
    error_code: str = "",
    reference: str = "",
    result_bytes: int | None = None,
) -> None:
    """Write down and tell what a call came to."""
    duration = perf_counter() - running.began
    came: dict[str, Any] = {"outcome": outcome, "error_code": error_code, "reference": reference}
    came["result_bytes"] = result_bytes
    if running.record is not None:
        _saved(running.record, **came, duration_ms=round(duration * 1000, 3))
    _send(tool_call_finished, call=running.call, duration=duration, **came)


def refused(
    error_code: str,
    request: Request,
    context: Context,
    *,
    tool: Tool | None = None,
    reference: str = "",
) -> None:
    """
    Write down and tell that a call was refused before its tool ran.

    For whoever answers a refusal as a result; for a ProtocolError its ``refusal`` says the code,
    and the server calls this. ``tool`` is None where the caller may not know of it.
    """
    if error_code == ErrorCode.UNKNOWN_TOOL:
        error_code = _why_unseen(_text(request.params.get("name")))
    # A database that has just failed is not asked again: its client waits for an answer.
    if error_code != ErrorCode.UNAVAILABLE:
        record = _record(context, request.params, Outcome.REFUSED, tool)
        if record is not None:
            _saved(record, error_code=error_code, reference=reference)
    name = _text(request.params.get("name"))
    known = {"tool": tool, "context": context, "request": context.request}
    _send(tool_call_refused, error_code=error_code, name=name, **known)


def refused_at_the_door(error: ProtocolError, request: Any) -> None:
    """The same for an HttpRequest whose message is not read: no credential, too many requests."""
    name = request.META.get("HTTP_MCP_NAME", "")
    if error.refusal != ErrorCode.UNAUTHENTICATED or _option("UNAUTHENTICATED"):
        record = _record(None, {"name": name}, Outcome.REFUSED, None, request)
        if record is not None:
            _saved(record, error_code=error.refusal)
    known = {"tool": None, "context": None, "request": request}
    _send(tool_call_refused, error_code=error.refusal, name=name, **known)


def _send(signal: Signal, **told: Any) -> None:
    try:
        signal.send_robust(sender=Tool, **told)
    except Exception:
        # Django cannot name every receiver that raised, and raises then itself.
        logger.exception("A receiver of a signal failed")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _option(key: str) -> Any:
    """A key of AUDIT."""
    return (conf.AUDIT or {}).get(key, AUDIT[key])


def _why_unseen(name: str) -> str:
    """
    Why a caller sees no tool of that name, which is answered as if there were none.

    What is asked of the database is the same for every name, so that time does not tell either.
    """
    try:
        rows = apps.get_model("mcp_bridge", "ToolSetting")._default_manager
        setting = rows.filter(name=storable(name, 128)).first() if has_settings() else None
        tool = registry.discovered.get(name)
        standing = None if tool is None else approval.standing(tool, setting)
    except (LookupError, DatabaseError):
        logger.error("Why a tool was not seen could not be found out", exc_info=True)
        return ErrorCode.UNKNOWN_TOOL
    match standing:
        case None:
            return ErrorCode.UNKNOWN_TOOL
        case approval.Standing.DISABLED:
            return ErrorCode.DISABLED
        case approval.Standing.NEW | approval.Standing.CHANGED:
            return ErrorCode.WITHHELD
    return ErrorCode.FORBIDDEN


def _record(
    context: Context | None,
    params: Mapping[str, Any],
    outcome: Outcome,
    tool: Tool | None,
    request: Any = None,
) -> Any:
    """A record that is not written yet; None where none is wanted, or the site has no tables."""
    if conf.AUDIT is None or not has_settings():
        return None
    try:
        values = _caller(request) if context is None else _described(context)
        name = storable(params.get("name"), 128)
        # A tool that the caller may not know of has secret parameters as well.
        values |= _arguments(params.get("arguments"), tool or registry.discovered.get(name))
        model = apps.get_model("mcp_bridge", "ToolCallRecord")
        return model(tool=name, outcome=outcome, **values)
    except Exception:
        # A user or credential of the site's own may raise when it is looked at.
        logger.exception("The record of a call is lost: it could not be made")
        return None


def _described(context: Context) -> dict[str, Any]:
    user, info = context.user, context.client_info
    values = _caller(context.request)
    if user is not None and user.is_authenticated:
        values["user_name"] = storable(user.get_username(), 150)
        if isinstance(user, get_user_model()):
            values["user_id"] = user.pk
    if context.auth is not None:
        # Never the credential itself, which is what some are as a text.
        name = getattr(context.auth, "name", None)
        values["credential"] = storable(name, 100) or type(context.auth).__name__[:100]
    return {
        **values,
        "client_name": storable(info.get("name"), 100),
        "client_version": storable(info.get("version"), 100),
        "revision": context.revision.version,
    }


def _caller(request: Any) -> dict[str, Any]:
    """What is known of every request; commands and tests may have none."""
    meta = getattr(request, "META", {})
    return {"remote_address": storable(meta.get("REMOTE_ADDR"), 64)}


def _arguments(arguments: Any, tool: Tool | None) -> dict[str, Any]:
    if arguments is None:
        return {}
    try:
        size = len(encode(arguments))
    except (ValueError, TypeError):
        size = None
    kept = _option("ARGUMENTS")
    if kept == "none":
        return {"arguments_bytes": size}
    names = None if kept == "full" else _option("SENSITIVE_NAMES")
    known = frozenset() if tool is None else marked(tool)
    text = told(arguments, limit=_option("MAX_ARGUMENTS_BYTES"), marked=known, names=names)
    return {"arguments_bytes": size, "arguments": text}


def _saved(record: Any, **values: Any) -> Any:
    """The record with these values, written; None where it could not be, which is logged."""
    for name, value in values.items():
        setattr(record, name, value)
    try:
        using = router.db_for_write(type(record))
        connection = connections[using]
        inside = connection.in_atomic_block
        if not inside:
            # The tool may have found out that the connection is dead.
            connection.close_if_unusable_or_obsolete()
        # In a transaction of somebody else's a write that fails must leave the rest usable.
        with transaction.atomic(using=using) if inside else nullcontext():
            record.save(using=using, update_fields=values if record.pk else None)
    except Exception:
        logger.exception("The record of a call of %r is lost: it was not written", record.tool)
        return None
    return record

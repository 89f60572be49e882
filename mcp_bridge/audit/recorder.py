"""
What is written down of calls and refusals, and told to whoever listens: one place for both.

A call of a tool that is not read-only is written before it runs, as "started", and again when it
has ended; of one that only reads, a record is written when it has ended. Either is written outside
of the tool's own transaction. What cannot be written is logged as an error and changes no answer,
but for the setting AUDIT["REQUIRED"].
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import (
    InterfaceError,
    OperationalError,
    connections,
    router,
    transaction,
)
from django.utils import timezone

from mcp_bridge.audit.redaction import redact_to_json, sensitive_fields, storable
from mcp_bridge.calls.outcomes import ErrorCode, Outcome
from mcp_bridge.conf import conf
from mcp_bridge.features.context import Context
from mcp_bridge.features.tools import Tool, ToolCall
from mcp_bridge.protocol import ProtocolError, Request
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.registry.registry import has_database, registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.signals import tool_call_finished, tool_call_refused, tool_call_started

logger = logging.getLogger("mcp_bridge.audit")


class Unrecorded(Exception):
    """The record of a call could not be written, without which the call may not run."""


@dataclass(slots=True)
class _Record:
    """What a record says by column; ``key`` is the one that the database has given it."""

    values: dict[str, Any]
    key: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedCall:
    """A call that has begun; ``record`` is None where there is none, or none could be written."""

    call: ToolCall
    began: float
    record: _Record | None


def start(call: ToolCall, request: Request) -> StartedCall:
    """
    Write down and tell that a call begins; ``ended`` must follow.

    Raises Unrecorded where AUDIT["REQUIRED"] forbids the call.
    """
    record = _record(call.context, request.params, Outcome.STARTED, call.tool)
    acts = not call.tool.annotations.get("readOnlyHint", False)
    if record is not None and (acts or conf.audit("WRITE_AHEAD")):
        record = record if _is_written(record, keyed=True) else None
    if record is None and acts and conf.audit("REQUIRED"):
        raise Unrecorded
    tool_call_started.send_robust(Tool, call=call)
    return StartedCall(call=call, began=perf_counter(), record=record)


def finish(
    running: StartedCall,
    outcome: Outcome,
    *,
    error_code: str = "",
    reference: str = "",
    result_bytes: int | None = None,
) -> None:
    """Write down and tell what a call came to."""
    duration = perf_counter() - running.began
    came: dict[str, Any] = {
        "outcome": outcome,
        "error_code": error_code,
        "reference": reference,
        "result_bytes": result_bytes,
    }
    if running.record is not None:
        _is_written(running.record, **came, duration_ms=round(duration * 1000, 3))
    tool_call_finished.send_robust(Tool, call=running.call, duration=duration, **came)


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
            _is_written(record, error_code=error_code, reference=reference)
    name = _text(request.params.get("name"))
    known = {"tool": tool, "context": context, "request": context.request}
    tool_call_refused.send_robust(Tool, error_code=error_code, name=name, **known)


def request_refused(error: ProtocolError, request: Any) -> None:
    """The same for an HttpRequest whose message is not read: no credential, too many requests."""
    name = request.META.get("HTTP_MCP_NAME", "")
    if error.refusal != ErrorCode.UNAUTHENTICATED or conf.audit("UNAUTHENTICATED"):
        record = _record(None, {"name": name}, Outcome.REFUSED, None, request)
        if record is not None:
            _is_written(record, error_code=error.refusal)
    known = {"tool": None, "context": None, "request": request}
    tool_call_refused.send_robust(Tool, error_code=error.refusal, name=name, **known)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


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


def _record(
    context: Context | None,
    params: Mapping[str, Any],
    outcome: Outcome,
    tool: Tool | None,
    request: Any = None,
) -> _Record | None:
    """A record that is not written yet; None where none is wanted, or the site has no database."""
    if conf.AUDIT is None or not has_database():
        return None
    name = storable(params.get("name"), 128)
    values: dict[str, Any] = {"started_at": timezone.now(), "tool": name, "outcome": outcome}
    known: Any = context or request
    parts: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: _client(context, request),
        lambda: _user(known),
        lambda: _credential(known),
        # A tool that the caller may not know of has secret parameters as well.
        lambda: _arguments(params.get("arguments"), tool or registry.discovered.get(name)),
    )
    for tell in parts:
        try:
            values |= tell()
        except Exception:
            # A user or credential of the site's own may raise when it is looked at.
            logger.exception("The record of a call of %r has not all that was to be said", name)
    return _Record(values)


def _client(context: Context | None, request: Any) -> dict[str, Any]:
    """What a client says of itself in the message or, as those of legacy revisions, in a header."""
    info = {} if context is None else context.client_info
    # Commands and tests may have no request.
    meta = getattr(request if context is None else context.request, "META", {})
    return {
        "client_name": _shown(info.get("name") or meta.get("HTTP_USER_AGENT")),
        "client_version": _shown(info.get("version")),
        "revision": "" if context is None else context.revision.version,
        "remote_address": storable(meta.get("REMOTE_ADDR"), 64),
    }


def _shown(value: Any) -> str:
    """What a client calls itself, with nothing in it that a page does not show."""
    text = storable(value, 100)
    return text if text.isprintable() else "".join(map(_placeheld, text))


def _placeheld(character: str) -> str:
    return character if character.isprintable() else "\ufffd"


def _user(known: Any) -> dict[str, Any]:
    """Whom a request, or the context of one, is of."""
    user = getattr(known, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    key = {"user_id": user.pk} if isinstance(user, get_user_model()) else {}
    return {"user_name": storable(user.get_username(), 150), **key}


def _credential(known: Any) -> dict[str, Any]:
    """The credential's name: never the credential itself, which is what some are as a text."""
    auth = getattr(known, "auth", None)
    if auth is None:
        return {}
    name = storable(getattr(auth, "name", None), 100)
    return {"credential": name or storable(type(auth).__name__, 100)}


def _arguments(arguments: Any, tool: Tool | None) -> dict[str, Any]:
    if arguments is None:
        return {}
    try:
        size = len(encode(arguments))
    except (ValueError, TypeError):
        size = None
    kept = conf.audit("ARGUMENTS")
    if kept == "none":
        return {"arguments_bytes": size}
    secrets = sensitive_fields(tool, by_name=kept != "full")
    text = redact_to_json(arguments, limit=conf.audit("MAX_ARGUMENTS_BYTES"), secrets=secrets)
    return {"arguments_bytes": size, "arguments": text}


def _is_written(record: _Record, *, keyed: bool = False, **values: Any) -> bool:
    """Whether the record could be written with these values as well; a loss is logged."""
    record.values.update(values)
    try:
        model = apps.get_model("mcp_bridge", "ToolCallRecord")
        using = router.db_for_write(model)
        if record.key is not None:
            _lasting(using, partial(model.amend, record.key, values, using))
        else:
            record.key = _lasting(using, partial(model.insert, record.values, using, keyed=keyed))
    except Exception:
        name = record.values["tool"]
        logger.exception("The record of a call of %r is lost: it was not written", name)
        return False
    return True


def _lasting(using: str, write: Callable[[], Any]) -> Any:
    """What ``write`` returns, which has written in no transaction of the tool's."""
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

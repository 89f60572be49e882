"""
Recording and signalling of calls and refusals; only this module does either.

A call of a tool that is not read-only is recorded as "started" before it runs, and again when it
has ended: if possible in the tool's own transaction, so that both commit together. A call of a
read-only tool is recorded when it has ended, as is a refusal; AUDIT["WRITE"] says whether at
once. If a record cannot be written, an error is logged and the response is unchanged, unless
AUDIT["REQUIRED"] is set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter, time_ns
from typing import Final
from uuid import UUID

from django.contrib.auth import get_user_model
from django.http import HttpRequest
from pydantic_core import to_json

from mcp_bridge.concurrency.places import in_thread
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import Context, Feature, Tool, ToolCall, label_of
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import CallToolResult, ProtocolError, decoded_header
from mcp_bridge.records import rows
from mcp_bridge.records.record import Began, Caller, Record, new_tail
from mcp_bridge.registry.registry import has_database, registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.signals import tool_call_finished, tool_call_refused, tool_call_started

# By the status of a tool that is hidden from its caller; the caller gets "unknown tool".
_UNSEEN: Final = {
    None: ErrorCode.UNKNOWN_TOOL,
    ToolStatus.DISABLED: ErrorCode.DISABLED,
    ToolStatus.NEW: ErrorCode.WITHHELD,
    ToolStatus.CHANGED: ErrorCode.WITHHELD,
}
_NO_UPSTREAM: Final = ("", "")
# Refusals that a caller may repeat often; those within a minute share one row.
_REPEATED: Final = frozenset({ErrorCode.THROTTLED, *_UNSEEN.values(), ErrorCode.FORBIDDEN})


@dataclass(slots=True, kw_only=True)
class StartedCall:
    """
    A running call.

    ``began`` is None if the site does not keep records. ``is_begun`` says that its row may exist,
    ``may_wait`` that the writer thread may write the record.
    """

    call: ToolCall
    began: Began | None
    is_begun: bool
    may_wait: bool
    # The start of the tool, by perf_counter().
    started: float = 0.0
    # Whether its success was recorded in the tool's transaction; then nothing is left to record.
    is_in_transaction: bool = False
    is_finished: bool = False

    @property
    def key(self) -> UUID | None:
        """The primary key of its record, if the site keeps records."""
        return None if self.began is None else Record(self.began, Outcome.STARTED).key

    def finish_in(self, size: int, databases: Sequence[str]) -> None:
        """
        Record the success in the tool's transaction, which is about to be committed.

        ``size`` is that of the result in bytes.

        Unless ``is_finished``, ``finish`` must follow; it records what could not be recorded here.
        """
        # Even if the row could not be written before the call, it commits with the tool's changes.
        if self.began is not None and self.is_begun:
            duration = round((perf_counter() - self.started) * 1000, 3)
            record = Record(self.began, Outcome.SUCCEEDED, "", duration, size, is_begun=True)
            self.is_in_transaction = rows.write_in(databases, record)
            self.is_finished = self.is_in_transaction and not tool_call_finished.receivers


async def start(call: ToolCall) -> StartedCall:
    """
    Record and signal that a call starts; ``finish`` must follow, unless ``is_finished``.

    Switches to a thread if that may block; only coroutine functions start on the event loop.

    Raises CallRefused if the record could not be written and AUDIT["REQUIRED"] is set.
    """
    tool, audit = call.tool, conf.audit
    is_begun = not tool.is_read_only or audit.WRITE == "ahead" or audit.WRITE_AHEAD
    if tool.is_async and (is_begun or tool_call_started.receivers):
        await in_thread()
    began = _began(tool.name, call.sent, call.context, tool, call.approval)
    # Coroutine functions run outside the transactions of the thread that called them.
    may_wait = not is_begun and audit.WRITE == "together"
    may_wait = may_wait and (not tool.is_async or rows.writer.room() is not None)
    started = StartedCall(call=call, began=began, is_begun=is_begun, may_wait=may_wait)
    is_written = False
    if began is not None and is_begun:
        record = Record(began, Outcome.STARTED)
        is_written = rows.insert_now(record, unsynced=not audit.REQUIRED)
    if audit.REQUIRED and not is_written and not tool.is_read_only:
        text = (
            f"The tool {tool.name} was not run: this site requires a record of each call, and it "
            "could not be written. Retry the same call later."
        )
        raise CallRefused(CallToolResult.error(text), ErrorCode.UNRECORDED)
    if tool_call_started.receivers:
        tool_call_started.send_robust(Tool, call=call)
    started.started = perf_counter()
    return started


async def finish(
    started: StartedCall,
    outcome: Outcome,
    *,
    error_code: str = "",
    reference: str = "",
    result_bytes: int | None = None,
    error: object = None,
) -> None:
    """
    Record and signal the end of a call, in a thread if that may block.

    ``error`` is the error that the client received, if any.
    """
    duration = perf_counter() - started.started
    # Removed, since a call within another one shares its scratch.
    upstream: tuple[str, str] = started.call.context.scratch.pop("upstream", _NO_UPSTREAM)
    # If the commit failed, the outcome has changed.
    is_recorded = started.is_in_transaction and outcome == Outcome.SUCCEEDED
    if started.began is not None and not is_recorded:
        call, texts = started.call, ("", "")
        if error is not None:
            await in_thread()
            texts = _error(error, call.sent, call.tool.name, call.tool)
        ended = (outcome, error_code, round(duration * 1000, 3), result_bytes, reference, *texts)
        record = Record(started.began, *ended, 1, *upstream, started.is_begun)
        if not (started.may_wait and rows.writer.leave(record)):
            await in_thread()
            (rows.write_now if started.is_begun else rows.write_later)(record)
    if tool_call_finished.receivers:
        await in_thread()
        tool_call_finished.send_robust(
            Tool,
            call=started.call,
            duration=duration,
            outcome=outcome,
            error_code=error_code,
            reference=reference,
            result_bytes=result_bytes,
            upstream=upstream[0],
            upstream_status=upstream[1],
        )


def refuse(
    error_code: str,
    name: object,
    arguments: object,
    context: Context,
    *,
    kind: str = Tool.kind,
    tool: Feature | None = None,
    error: Exception | None = None,
) -> None:
    """
    Record and signal that a call was refused before its tool, or feature of another kind, ran.

    ``name`` and ``arguments`` are as sent by the client; ``tool`` is None if it is hidden from the
    caller. ``error`` is the refusal.
    """
    name = _masked(name) if isinstance(name, str) else ""
    if error_code == ErrorCode.UNKNOWN_TOOL:
        # The same work for every name, so that timing does not reveal hidden tools.
        error_code = _UNSEEN.get(registry.statuses.get((kind, name)), ErrorCode.FORBIDDEN)
    # A database that just failed is not queried again while the client waits.
    if error_code != ErrorCode.UNAVAILABLE and _is_wanted(error_code, context):
        # Anonymous callers can send arbitrary text as a tool's name.
        is_made_up = tool is None and _is_stranger(context)
        refused = error if isinstance(error, CallRefused) else None
        pending = refused.pending_call if refused else None
        given = None if is_made_up else arguments
        began = _began(name, given, context, tool, pending, kind)
        if began is not None:
            reference, texts = refused.reference if refused else "", ("", "")
            if not is_made_up:
                # These errors do not quote arguments, and may repeat often.
                quotable = None if error_code in _REPEATED else arguments
                texts = _error(error, quotable, name, _known(name, tool, kind))
            record = Record(began, Outcome.REFUSED, error_code, None, None, reference, *texts)
            if error_code in _REPEATED or getattr(error, "repeated", False):
                # An anonymous caller can invent a new name for each call.
                named = "" if is_made_up else name
                is_bounded = error_code == ErrorCode.THROTTLED or _is_stranger(context)
                told = "" if is_bounded else began.arguments
                digest = hashlib.sha256(told.encode()).digest()
                rows.write_or_count(record, (named, pending, digest))
            else:
                rows.write_later(record)
    if tool_call_refused.receivers:
        known = {"tool": tool, "context": context, "request": context.request}
        tool_call_refused.send_robust(Tool, error_code=error_code, name=name, **known)


def request_refused(error: ProtocolError, request: HttpRequest) -> None:
    """Record and signal that a request was refused before its message was parsed."""
    name = request.META.get("HTTP_MCP_NAME", "")
    with suppress(ProtocolError):
        name = decoded_header("Mcp-Name", name.strip(" \t"))
    name = _masked(name)
    context = Context(
        user=getattr(request, "user", None),
        auth=getattr(request, "auth", None),
        remote_address=request.META.get("REMOTE_ADDR", ""),
        user_agent=request.META.get("HTTP_USER_AGENT", ""),
    )
    if _is_wanted(error.refusal, context):
        began = _began(name, None, context, None)
        if began is not None:
            # The revision is in the unread message, and the name may be invented.
            began = began._replace(caller=began.caller._replace(revision=""))
            rows.write_or_count(Record(began, Outcome.REFUSED, error.refusal))
    if tool_call_refused.receivers:
        known = {"tool": None, "context": None, "request": request}
        tool_call_refused.send_robust(Tool, error_code=error.refusal, name=name, **known)


def _masked(name: str) -> str:
    """Return a name, or the scheme of a URI: the rest may be a secret, as arguments may."""
    scheme, mark, _ = name.partition("://")
    return f"{scheme}{mark}…" if mark else name


def _is_stranger(context: Context) -> bool:
    """Return whether the caller has neither a user nor a credential."""
    return context.auth is None and not getattr(context.user, "is_authenticated", False)


def _is_wanted(error_code: str, context: Context) -> bool:
    """Return whether a refusal is recorded; AUDIT["UNAUTHENTICATED"] excludes anonymous ones."""
    if conf.audit.UNAUTHENTICATED:
        return True
    is_of_strangers = error_code in _REPEATED or error_code == ErrorCode.UNAUTHENTICATED
    return not (is_of_strangers and _is_stranger(context))


def _began(
    name: str,
    arguments: object,
    context: Context,
    tool: Feature | None,
    pending: object = None,
    kind: str = Tool.kind,
) -> Began | None:
    """Return the start of a call's record; None if the site does not keep records."""
    if conf.AUDIT is None or not has_database():
        return None
    size, kept = None, ""
    if arguments is not None:
        with suppress(ValueError, TypeError):
            size = len(to_json(arguments))
        if conf.audit.ARGUMENTS != "none":
            # Imported late, since records do not have arguments by default.
            from mcp_bridge.records.redaction import kept_arguments

            kept = kept_arguments(arguments, name, _known(name, tool, kind))
    kind = kind if tool is None else tool.kind
    moment, tail, caller = time_ns() // 1000, new_tail(), _caller_of(name, context)
    return Began(moment, tail, name[:128], caller, size, kept, pending, kind)


def _caller_of(name: str, context: Context) -> Caller:
    """Return the caller, with the credential's name only: str() of some is the secret itself."""
    user_id, user_name, credential = None, "", ""
    # The site's user or credential class may raise on attribute access.
    try:
        user, auth = context.user, context.auth
        if user is not None and user.is_authenticated:
            user_name = _cut(user.get_username(), 150)
            user_id = user.pk if isinstance(user, get_user_model()) else None
        if auth is not None:
            credential = _cut(getattr(auth, "name", None)) or type(auth).__name__
    except Exception:
        rows.logger.exception("The record of a call of %r is incomplete", name)
    info = context.client.info
    return Caller(
        user_id,
        user_name,
        credential,
        # A legacy client sends its name only in a header.
        _cut(info.get("name") or context.user_agent),
        _cut(info.get("version")),
        context.revision.version,
        _cut(context.remote_address, 64),
    )


def _cut(value: object, length: int = 100) -> str:
    return value[:length] if isinstance(value, str) else ""


def _error(error: object, arguments: object, name: str, tool: Feature | None) -> tuple[str, str]:
    """Return the recorded text of an error and the arguments that it rejects."""
    if not conf.audit.ERRORS:
        return "", ""
    # Imported late, since few calls end in an error.
    from mcp_bridge.records.redaction import kept_error

    return kept_error(error, arguments, name, tool)


def _known(name: str, tool: Feature | None, kind: str) -> Feature | None:
    """Return the feature, even if it is hidden from the caller: its parameters may be secret."""
    if tool is not None or registry.known is None:
        return tool
    return registry.known.by_label.get(label_of(kind, name))

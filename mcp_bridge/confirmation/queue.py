"""
The approval queue: calls whose client cannot ask a person for confirmation.

A row's ``key`` is the binding of its call until it expires or one call has used it.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import partial
from typing import Any, Final

from django.db import IntegrityError, router, transaction
from django.db.models import QuerySet
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from mcp_bridge.conf import conf
from mcp_bridge.confirmation.decisions import approvable
from mcp_bridge.confirmation.notifying import notify_held
from mcp_bridge.confirmation.rendering import render_arguments
from mcp_bridge.exceptions import CallRefused, InvalidArguments, ToolError
from mcp_bridge.features import Context, Feature, ToolCall
from mcp_bridge.models import Generation, PendingCall
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.protocol import PENDING_KEY, CallToolResult, JSONObject
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

# More characters than a person reads, and the most pending calls of a user.
MAX_ARGUMENTS: Final = 64 * 1024
MOST_WAITING: Final = 100
_USED: Final = {"status": PendingCall.Status.DONE, "key": None}


def bound(call: ToolCall) -> ToolCall:
    """
    Return the call with its binding: SHA-256 of the user, the tool, its definition and arguments.

    The arguments count as sent, except for the order of members: another spelling makes another
    call, which must be confirmed again.
    """
    if call.binding:
        return call
    user, tool = call.context.user, call.tool
    key = str(user.pk) if user is not None and user.is_authenticated else None
    parts = [key, tool.label, fingerprint(canonical_definition(tool)), call.sent]
    text = json.dumps(parts, sort_keys=True)
    return call._replace(binding=hashlib.sha256(text.encode()).hexdigest())


def consume(call: ToolCall, *, agreed: bool) -> ToolCall:
    """Return the call with its approval consumed, if any. Raises CallRefused if refused."""
    row, now = _row_of(call), timezone.now()
    if row is None:
        return call._replace(confirmed_at=now) if agreed else call
    if not agreed:
        return _with_approval(call, row) or call
    # An approval that was given in the meantime is for this call as well.
    waiting = _rows().filter(pk=row.pk, status=PendingCall.Status.WAITING)
    if not (
        waiting.update(**_USED, used_at=now, decided_at=now, decided_by=call.context.user)
        or _with_approval(call, row)
    ):
        # It was decided in the meantime, perhaps refused.
        _row_of(call)
    return call._replace(confirmed_at=now)


def consume_own(call: ToolCall, pending: Any) -> ToolCall:
    """
    Return the call of a task with the approval that it has waited for, by its key, consumed.

    Raises CallRefused if that was refused, has expired, is for another call, or is gone.
    """
    call, row = bound(call), _rows().filter(pk=pending).first() if pending else None
    if row is not None and row.status == PendingCall.Status.REFUSED:
        raise _refusal(call, row)
    why = "request was deleted" if row is None else "has expired"
    if row is not None and not row.is_over:
        if approved := _with_approval(call, row):
            return approved
        why = "was used by another call, or is for other arguments"
    text = f"{_needs(call)}. Its approval {why}: call it again if it is still wanted."
    raise CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED, pending_call=pending)


def _with_approval(call: ToolCall, row: PendingCall) -> ToolCall | None:
    """Return the call with the approval in a row, which one call consumes; None without one."""
    approved = _rows().filter(pk=row.pk, status=PendingCall.Status.APPROVED, key=call.binding)
    is_used = approved.update(**_USED, used_at=timezone.now())
    return call._replace(confirmed_at=row.decided_at, approval=row.pk) if is_used else None


def shown_arguments(call: ToolCall) -> str:
    """
    Return the arguments, or the tool's preview, rendered for people.

    Raises CallRefused if they are too long, or if the tool already knows that it will fail.
    """
    try:
        preview = call.tool.preview
        text = render_arguments(call.tool, call.sent if preview is None else preview(call))
    except ToolError as why:
        raise CallRefused(
            CallToolResult.error(f"Nothing was run: {why}"), ErrorCode.UNCONFIRMED
        ) from why
    check_length(call, text)
    return text


def check_length(call: ToolCall, arguments: str) -> None:
    """Raise CallRefused if the arguments are too long for a person to read."""
    if len(arguments) > MAX_ARGUMENTS:
        text = (
            f"{_needs(call)}, and the arguments exceed the limit of {MAX_ARGUMENTS} characters "
            "for review. Split the task into smaller calls."
        )
        raise CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED, repeated=True)


def _needs(call: ToolCall) -> str:
    return f"Nothing was run: {call.tool.name} requires a person's approval"


def hold(call: ToolCall, arguments: str) -> CallRefused:
    """Queue the call for a person, unless it is queued; return the error that says so."""
    needs, rows = _needs(call), _rows()
    waiting = rows.filter(approvable(), user=call.context.user)
    with transaction.atomic(rows.db):
        # Locked: two concurrent counts would both find room for one.
        Generation.lock(rows.db)
        if waiting.count() >= MOST_WAITING and not waiting.filter(key=call.binding).exists():
            text = (
                f"{needs}, and {MOST_WAITING} calls of this user are already pending. Wait until "
                "some of them are decided."
            )
            return CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED)
        row, is_new = _get_or_create(call, arguments)
    if is_new:
        # If the site has an outer transaction, after its commit.
        transaction.on_commit(partial(notify_held, call, row), using=rows.db, robust=True)
    minutes = round(conf.CONFIRMATION_MAX_AGE / 60)
    who = "someone else with permission" if conf.FOUR_EYES else "someone with permission"
    within = f"{minutes} minutes" if minutes > 1 else f"{conf.CONFIRMATION_MAX_AGE:g} seconds"
    pending: dict[str, object] = {"id": row.pk}
    try:
        path = reverse("admin:mcp_bridge_pendingcall_change", args=[row.pk])
        address = call.context.absolute_url(path)
        pending["url"] = address
        where = f"at {address}. Ask the user to have it approved there"
    except NoReverseMatch:
        where = (
            f"as number {row.pk}. Ask the user (do not do it yourself) to have it approved "
            f"with `manage.py mcp_pending approve {row.pk} --user NAME` on the server"
        )
    text = (
        f"{needs}. The call is pending {where} by {who}. Then repeat it with the same arguments "
        f"within {within} of the approval; repeating it earlier has no effect."
    )
    result = CallToolResult.error(text, {PENDING_KEY: pending})
    return CallRefused(result, ErrorCode.UNCONFIRMED, pending_call=row.pk)


def approve_own(tool: Feature, arguments: JSONObject, context: Context) -> None:
    """Approve a call of the context's user, who just confirmed it on one of this server's pages."""
    # Does not override a refusal.
    if conf.FOUR_EYES:
        return
    try:
        tool.check(arguments)
    except InvalidArguments:
        # Nothing to approve: the call is refused.
        return
    call = bound(ToolCall(tool=tool, arguments={}, context=context, sent=arguments))
    with suppress(CallRefused):
        # Releases an expired row, so that a new one can be made.
        _row_of(call)
    row, _is_new = _get_or_create(call, render_arguments(tool, call.sent))
    row.decide(using=_rows().db, status=PendingCall.Status.APPROVED, decided_by=context.user)


def give_back(call: ToolCall) -> None:
    """Restore the approval of a call that did not run after all."""
    if call.approval is None:
        return
    rows = _rows()
    used = rows.filter(pk=call.approval, status=PendingCall.Status.DONE)
    # If the call was repeated in the meantime, that row is pending instead.
    with suppress(IntegrityError), transaction.atomic(using=rows.db):
        used.update(status=PendingCall.Status.APPROVED, key=call.binding, used_at=None)


def _row_of(call: ToolCall) -> PendingCall | None:
    """Return the row of the call, unless expired. Raises CallRefused if it was refused."""
    row = _rows().filter(key=call.binding).first()
    if row is not None and row.is_over:
        _rows().filter(pk=row.pk).update(key=None)
        return None
    if row is not None and row.status == PendingCall.Status.REFUSED:
        raise _refusal(call, row)
    return row


def _refusal(call: ToolCall, row: PendingCall) -> CallRefused:
    """Return the error that says that a person refused a call."""
    end = "" if row.reason.endswith((".", "!", "?", "…")) else "."
    reason = f" Reason: {row.reason}{end}" if row.reason else ""
    text = (
        f"Nothing was run: a person refused this call of {call.tool.name}.{reason} Do not "
        "repeat it unless the user wants it."
    )
    result, code = CallToolResult.error(text), ErrorCode.UNCONFIRMED
    return CallRefused(result, code, pending_call=row.pk, repeated=True)


def _get_or_create(call: ToolCall, arguments: str) -> tuple[PendingCall, bool]:
    # A legacy client sends its name only in a header.
    client = call.context.client.info.get("name") or call.context.user_agent
    values = {
        "tool": call.tool.label,
        "fingerprint": fingerprint(canonical_definition(call.tool)),
        "arguments": arguments,
        "user": call.context.user,
        "issuer_id": getattr(call.context.auth, "issued_by_id", None),
        "client": cut(repr(client)[1:-1], 120) if isinstance(client, str) else "",
    }
    return _rows().get_or_create(key=call.binding, defaults=values)


def _rows() -> QuerySet[PendingCall]:
    return PendingCall._default_manager.using(router.db_for_write(PendingCall))

"""
The approval queue: calls that wait for a person whom their client cannot ask.

A row's ``key`` is the binding of its call until its time is over or one call has used it up.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import partial
from typing import Final

from django.db import IntegrityError, router, transaction
from django.db.models import QuerySet
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from mcp_bridge.conf import conf
from mcp_bridge.confirmation.decisions import approvable
from mcp_bridge.confirmation.notifying import notify_held
from mcp_bridge.confirmation.rendering import render_arguments
from mcp_bridge.exceptions import CallRefused, InvalidArguments
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.models import Generation, PendingCall
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.protocol import CallToolResult, JSONObject
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

# More than a person reads; a user who has so many waiting has to wait.
MAX_ARGUMENTS: Final = 64 * 1024
MOST_WAITING: Final = 100


def bound(call: ToolCall) -> ToolCall:
    """
    Return the call with its binding: SHA-256 of the user, the tool, its definition and arguments.

    The arguments count as they were sent, but for the order of members: another spelling of them is
    another call, about which a person is asked again.
    """
    if call.binding:
        return call
    user, tool = call.context.user, call.tool
    key = str(user.pk) if user is not None and user.is_authenticated else None
    parts = [key, tool.name, fingerprint(canonical_definition(tool)), call.sent]
    text = json.dumps(parts, sort_keys=True)
    return call._replace(binding=hashlib.sha256(text.encode()).hexdigest())


def consume(call: ToolCall, *, agreed: bool) -> ToolCall:
    """Return a call with the yes of its user or the queue used up. Raises CallRefused for a no."""
    row, rows, status, now = _row_of(call), _rows(), PendingCall.Status, timezone.now()
    if row is None:
        return call._replace(confirmed_at=now) if agreed else call
    used = {"status": status.DONE, "key": None, "used_at": now}
    # An approval is consumed by one call alone; one of the meantime was for this call as well.
    approved = rows.filter(pk=row.pk, status=status.APPROVED, key=row.key)
    if not agreed:
        is_approved = approved.update(**used)
        return call._replace(confirmed_at=row.decided_at, approval=row.pk) if is_approved else call
    waiting = rows.filter(pk=row.pk, status=status.WAITING)
    if not (
        waiting.update(**used, decided_at=now, decided_by=call.context.user)
        or approved.update(**used)
    ):
        # It was decided in the meantime, which may have been a no.
        _row_of(call)
    return call._replace(confirmed_at=now)


def shown_arguments(call: ToolCall) -> str:
    """Return the arguments as people read them. Raises CallRefused for too many."""
    text = render_arguments(call.tool, call.sent)
    check_length(call, text)
    return text


def check_length(call: ToolCall, arguments: str) -> None:
    """Raise CallRefused for arguments that nobody would read through."""
    if len(arguments) > MAX_ARGUMENTS:
        text = (
            f"{_needs(call)}, and these arguments have more than the {MAX_ARGUMENTS} characters "
            "that a person is asked to read. Do it in parts."
        )
        raise CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED, repeated=True)


def _needs(call: ToolCall) -> str:
    return f"Nothing was run: {call.tool.name} needs the approval of a person"


def hold(call: ToolCall, arguments: str) -> CallRefused:
    """Have the call wait for a person, if it does not already; return the error that says so."""
    needs, rows = _needs(call), _rows()
    waiting = rows.filter(approvable(), user=call.context.user)
    with transaction.atomic(rows.db):
        # One at a time: two that count at once would both find room for one.
        Generation.lock(rows.db)
        if waiting.count() >= MOST_WAITING and not waiting.filter(key=call.binding).exists():
            text = (
                f"{needs}, and {MOST_WAITING} calls of this user wait for one already. Wait until "
                "some of them are decided."
            )
            return CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED)
        row, is_new = _get_or_create(call, arguments)
    if is_new:
        # Of a call within a transaction of the site's own, once that is committed.
        transaction.on_commit(partial(notify_held, call, row), using=rows.db, robust=True)
    minutes = round(conf.CONFIRMATION_MAX_AGE / 60)
    who = "somebody else who may" if conf.FOUR_EYES else "somebody who may"
    within = f"{minutes} minutes" if minutes > 1 else f"{conf.CONFIRMATION_MAX_AGE:g} seconds"
    try:
        path = reverse("admin:mcp_bridge_pendingcall_change", args=[row.pk])
        address = call.context.absolute_url(path)
        where = f"for it at {address}. Tell the user to have it approved there"
    except NoReverseMatch:
        where = (
            f"as number {row.pk}. Tell the user, and do not do it yourself, to have it approved "
            f"with `manage.py mcp_pending approve {row.pk} --user NAME` on the server"
        )
    text = (
        f"{needs}. The call waits {where} by {who}. Then repeat the call with the same arguments "
        f"within {within} of the approval; repeating it before changes nothing."
    )
    result = CallToolResult.error(text)
    return CallRefused(result, ErrorCode.UNCONFIRMED, pending_call=row.pk)


def approve_own(tool: Tool, arguments: JSONObject, context: Context) -> None:
    """Approve a call of the context's user, who has just agreed on a page of the server's own."""
    # A refusal stays.
    if conf.FOUR_EYES:
        return
    try:
        tool.check(arguments)
    except InvalidArguments:
        # There is nothing to approve: the call is refused.
        return
    call = bound(ToolCall(tool=tool, arguments={}, context=context, sent=arguments))
    with suppress(CallRefused):
        # For a row whose time is over: another can be made then.
        _row_of(call)
    row, _is_new = _get_or_create(call, render_arguments(tool, call.sent))
    row.decide(using=_rows().db, status=PendingCall.Status.APPROVED, decided_by=context.user)


def give_back(call: ToolCall) -> None:
    """Make the approval of a call that has not run after all count as before."""
    if call.approval is None:
        return
    rows = _rows()
    used = rows.filter(pk=call.approval, status=PendingCall.Status.DONE)
    # Where the call was repeated in the meantime, that one waits instead.
    with suppress(IntegrityError), transaction.atomic(using=rows.db):
        used.update(status=PendingCall.Status.APPROVED, key=call.binding, used_at=None)


def _row_of(call: ToolCall) -> PendingCall | None:
    """Return the row of the call, unless its time is over. Raises CallRefused if it is refused."""
    row = _rows().filter(key=call.binding).first()
    if row is not None and row.is_over:
        _rows().filter(pk=row.pk).update(key=None)
        return None
    if row is not None and row.status == PendingCall.Status.REFUSED:
        end = "" if row.reason.endswith((".", "!", "?", "…")) else "."
        reason = f" The reason: {row.reason}{end}" if row.reason else ""
        text = (
            f"Nothing was run: a person has refused this call of {call.tool.name}.{reason} Do not "
            "repeat it unless the user wants it."
        )
        result, code = CallToolResult.error(text), ErrorCode.UNCONFIRMED
        raise CallRefused(result, code, pending_call=row.pk, repeated=True)
    return row


def _get_or_create(call: ToolCall, arguments: str) -> tuple[PendingCall, bool]:
    # A client of a legacy revision names itself in a header alone.
    client = call.context.client.info.get("name") or call.context.user_agent
    values = {
        "tool": call.tool.name,
        "fingerprint": fingerprint(canonical_definition(call.tool)),
        "arguments": arguments,
        "user": call.context.user,
        "issuer_id": getattr(call.context.auth, "issued_by_id", None),
        "client": cut(repr(client)[1:-1], 120) if isinstance(client, str) else "",
    }
    return _rows().get_or_create(key=call.binding, defaults=values)


def _rows() -> QuerySet[PendingCall]:
    return PendingCall._default_manager.using(router.db_for_write(PendingCall))

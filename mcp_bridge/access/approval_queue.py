"""
The approval queue: calls that cannot be confirmed by their client wait for a person here.

A person reads all arguments of a call, uncut, but no secrets (see ``mcp_bridge.audit.redaction``):
nobody can agree to arguments that are not there.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from typing import Final

from django.db import IntegrityError, router, transaction
from django.db.models import QuerySet
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from mcp_bridge.audit.redaction import Redactor, sensitive_fields
from mcp_bridge.calls.outcomes import ErrorCode
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.models import PendingCall
from mcp_bridge.protocol import CallToolResult, JSONObject
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

HIDDEN: Final = "•••"
# More than a person reads; a user who has so many waiting has to wait.
MOST_WAITING: Final = 100
MAX_ARGUMENTS: Final = 64 * 1024
# Texts of JSON inside each other that are read; each may be as deep as a request.
_MAX_INSIDE: Final = 2
# Characters that Python takes to be printable, though a page shows nothing of them (Unicode,
# Default_Ignorable).
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def render_arguments(tool: Tool, arguments: JSONObject) -> str:
    """Return the arguments as indented JSON in which every character shows, without secrets."""
    redactor = Redactor(sensitive_fields(tool), hidden=HIDDEN, max_inside=_MAX_INSIDE)
    text = json.dumps(redactor.value(arguments), indent=2, ensure_ascii=False)
    hidden = {each for each in set(text) if not each.isprintable() or _BLANK.match(each)}
    # JSON has escaped the new lines in texts already: those that are left are its own.
    return text.translate({ord(each): json.dumps(each)[1:-1] for each in hidden - {"\n"}})


def binding(call: ToolCall) -> str:
    """Return a SHA-256 of the user, the tool's definition and the arguments of a call."""
    user = call.context.user
    known = user is not None and user.is_authenticated
    parts = [
        str(user.pk) if known else None,
        call.tool.name,
        fingerprint(canonical_definition(call.tool)),
        call.sent,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def enqueue(call: ToolCall, arguments: str) -> str:
    """Have the call wait for a person, if it does not already; return the text that says so."""
    needs = f"Nothing was run: {call.tool.name} needs the approval of a person"
    if len(arguments) > MAX_ARGUMENTS:
        return (
            f"{needs}, and these arguments have {len(arguments)} characters, more than the "
            f"{MAX_ARGUMENTS} that a person is asked to read. Do it in parts."
        )
    waiting = _rows().filter(user=call.context.user, status=PendingCall.Status.WAITING)
    if waiting.count() >= MOST_WAITING and not waiting.filter(key=binding(call)).exists():
        return (
            f"{needs}, and {MOST_WAITING} calls of this user wait for one already. Wait until some "
            "of them are decided."
        )
    row = _get_or_create(call, arguments)
    minutes = round(conf.CONFIRMATION_MAX_AGE / 60)
    who = "somebody else who may" if conf.FOUR_EYES else "somebody who may"
    within = f"{minutes} minutes" if minutes > 1 else f"{conf.CONFIRMATION_MAX_AGE:g} seconds"
    try:
        path = reverse("admin:mcp_bridge_pendingcall_change", args=[row.pk])
    except NoReverseMatch:
        where = (
            f"as number {row.pk}; this site has no page to approve it. Tell the user to ask "
            "whoever runs this site to have it approved"
        )
    else:
        address = call.context.absolute_url(path)
        where = f"for it at {address}. Tell the user to have it approved there"
    return (
        f"{needs}. The call waits {where} by {who}. Then repeat the call with the same arguments "
        f"within {within} of the approval; repeating it before changes nothing."
    )


def take(call: ToolCall) -> object:
    """
    Return the key of the row in which a person has approved the call, consumed by this call alone.

    Return None where nobody has. Raises CallRefused where a person has refused it.
    """
    row = _row(call)
    return row.pk if row is not None and _consume(row) else None


def give_back(call: ToolCall) -> None:
    """Make the approval of a call that has not run after all count as before."""
    if call.approval is None:
        return
    rows = _rows()
    used = rows.filter(pk=call.approval, status=PendingCall.Status.DONE)
    # Where the call was repeated in the meantime, that one waits instead.
    with suppress(IntegrityError), transaction.atomic(using=rows.db):
        used.update(status=PendingCall.Status.APPROVED, key=binding(call), used_at=None)


def close(call: ToolCall) -> None:
    """
    End the waiting of a call that the client's user has confirmed instead.

    Raises CallRefused where a person has refused it.
    """
    row = _row(call)
    if row is not None:
        status, now = PendingCall.Status, timezone.now()
        values = {"decided_at": now, "used_at": now, "decided_by": call.context.user}
        waiting = _rows().filter(pk=row.pk, status=status.WAITING)
        waiting.update(status=status.DONE, key=None, **values)
        # Approved in the meantime: that was for this call, and is consumed with it.
        _consume(row)


def approve_own(tool: Tool, arguments: dict[str, object], context: Context) -> None:
    """
    Approve a call that the user of the context is about to make, as that very person.

    For pages of the server's own, where the person has just agreed. A refusal stays; with the
    setting FOUR_EYES nothing is approved.
    """
    if conf.FOUR_EYES:
        return
    call = ToolCall(tool=tool, arguments={}, context=context, sent=arguments)
    _found(call)
    row = _get_or_create(call, render_arguments(tool, arguments))
    row.decide(using=_rows().db, status=PendingCall.Status.APPROVED, decided_by=context.user)


def _row(call: ToolCall) -> PendingCall | None:
    """Do the same as ``_found``. Raises CallRefused where a person has refused the call."""
    row = _found(call)
    if row is not None and row.status == PendingCall.Status.REFUSED:
        end = "" if row.reason.endswith((".", "!", "?", "…")) else "."
        reason = f" The reason: {row.reason}{end}" if row.reason else ""
        text = (
            f"Nothing was run: a person has refused this call of {call.tool.name}.{reason} Do not "
            "repeat it unless the user wants it."
        )
        raise CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED)
    return row


def _found(call: ToolCall) -> PendingCall | None:
    """Return the row of the call; None if there is none, or its time is over: its key is free."""
    rows = _rows()
    row = rows.filter(key=binding(call)).first()
    if row is not None and row.is_over:
        rows.filter(pk=row.pk).update(key=None)
        return None
    return row


def _get_or_create(call: ToolCall, arguments: str) -> PendingCall:
    client = call.context.client.info.get("name")
    values = {
        "tool": call.tool.name,
        "fingerprint": fingerprint(canonical_definition(call.tool)),
        "arguments": arguments,
        "user": call.context.user,
        "client": cut(repr(client)[1:-1], 120) if isinstance(client, str) else "",
    }
    return _rows().get_or_create(key=binding(call), defaults=values)[0]


def _consume(row: PendingCall) -> bool:
    """Consume the row's approval; return whether it had one that no other call has consumed."""
    status = PendingCall.Status
    approved = _rows().filter(pk=row.pk, status=status.APPROVED, key=row.key)
    return bool(approved.update(status=status.DONE, key=None, used_at=timezone.now()))


def _rows() -> QuerySet[PendingCall]:
    return PendingCall._default_manager.using(router.db_for_write(PendingCall))

"""The approval queue: calls of clients that cannot be asked, until a person has decided."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, cast

from django.apps import apps
from django.db import IntegrityError, router, transaction
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from mcp_bridge.access.confirmation.rendering import render_arguments
from mcp_bridge.access.confirmation.request_state import binding
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ToolError
from mcp_bridge.features.context import Context
from mcp_bridge.features.tools import Tool, ToolCall
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

# More than a person reads; who has so many waiting has to wait.
MOST_WAITING: Final = 100
MAX_ARGUMENTS: Final = 64 * 1024


def taken(call: ToolCall) -> Any:
    """
    The key of the row in which a person has approved the call: used up now, by this call alone.

    None where nobody has. Raises ToolError where a person has refused it.
    """
    row = _row(call)
    return row.pk if row is not None and _is_used_up(row) else None


def give_back(call: ToolCall) -> None:
    """The call has not run after all: what a person has approved counts as before."""
    if call.approval is None:
        return
    status, rows = _model().Status, _rows()
    used = rows.filter(pk=call.approval, status=status.DONE)
    # Where the call was repeated in the meantime, that one waits instead.
    with suppress(IntegrityError), transaction.atomic(using=rows.db):
        used.update(status=status.APPROVED, key=binding(call), used_at=None)


def enqueue(call: ToolCall, arguments: str) -> ToolError:
    """The error that says that the call waits for a person; it waits from now on, if it did not."""
    name = call.tool.name
    if len(arguments) > MAX_ARGUMENTS:
        return ToolError(
            f"Nothing was run: {name} needs the approval of a person, and these arguments have "
            f"{len(arguments)} characters, more than the {MAX_ARGUMENTS} that a person is asked "
            "to read. Do it in parts."
        )
    model, rows = _model(), _rows()
    key = binding(call)
    waiting = rows.filter(user=call.context.user, status=model.Status.WAITING)
    if waiting.count() >= MOST_WAITING and not waiting.filter(key=key).exists():
        return ToolError(
            f"Nothing was run: {name} needs the approval of a person, and {MOST_WAITING} calls of "
            "this user wait for one already. Wait until some of them are decided."
        )
    row, _ = rows.get_or_create(key=key, defaults=_values(call, arguments))
    minutes = round(conf.CONFIRMATION_MAX_AGE / 60)
    who = "somebody else who may" if conf.FOUR_EYES else "somebody who may"
    within = f"{minutes} minutes" if minutes > 1 else f"{conf.CONFIRMATION_MAX_AGE:g} seconds"
    return ToolError(
        f"Nothing was run: {name} needs the approval of a person. The call waits {_at(call, row)} "
        f"by {who}. Then repeat the call with the same arguments within {within} of the approval; "
        "repeating it before changes nothing."
    )


def close(call: ToolCall) -> None:
    """
    A call that waits was approved by the client's user instead: it waits no longer.

    Raises ToolError where a person has refused it.
    """
    status, now, row = _model().Status, timezone.now(), _row(call)
    if row is not None:
        waiting = _rows().filter(pk=row.pk, status=status.WAITING)
        values = {"decided_at": now, "used_at": now, "decided_by": call.context.user}
        waiting.update(status=status.DONE, key=None, **values)
        # Approved in the meantime: that was for this call, and is used up with it.
        _is_used_up(row)


def approve_own(tool: Tool, arguments: dict[str, Any], context: Context) -> None:
    """
    Approve a call that the user of the context is about to make, as that very person.

    For pages of the server's own, where the person has just agreed. A refusal stays; with the
    setting FOUR_EYES nothing is approved.
    """
    if conf.FOUR_EYES:
        return
    call = ToolCall(tool=tool, arguments={}, context=context, sent=arguments)
    model, rows = _model(), _rows()
    text = render_arguments(tool, arguments)
    _found(call)
    row, _ = rows.get_or_create(key=binding(call), defaults=_values(call, text))
    row.decide(using=rows.db, status=model.Status.APPROVED, decided_by=context.user)


def _row(call: ToolCall) -> Any:
    """
    The row of the call; None if there is none, or its time is over.

    Raises ToolError where a person has refused the call.
    """
    row = _found(call)
    if row is not None and row.status == row.Status.REFUSED:
        raise ToolError(
            f"Nothing was run: a person has refused this call of {call.tool.name}."
            f"{_because(row.reason)} Do not repeat it unless the user wants it."
        )
    return row


def _is_used_up(row: Any) -> bool:
    """Whether the row was approved, and is used up by now, by this call alone."""
    approved = _rows().filter(pk=row.pk, status=row.Status.APPROVED, key=row.key)
    return bool(approved.update(status=row.Status.DONE, key=None, used_at=timezone.now()))


def _found(call: ToolCall) -> Any:
    """The row of the call, whose key is free again where its time is over."""
    rows = _rows()
    row = rows.filter(key=binding(call)).first()
    if row is not None and row.is_over:
        rows.filter(pk=row.pk).update(key=None)
        return None
    return row


def _values(call: ToolCall, arguments: str) -> dict[str, Any]:
    client = call.context.client_info.get("name")
    return {
        "tool": call.tool.name,
        "fingerprint": fingerprint(canonical_definition(call.tool)),
        "arguments": arguments,
        "user": call.context.user,
        "client": cut(repr(client)[1:-1], 120) if isinstance(client, str) else "",
    }


def _because(reason: str) -> str:
    """The reason, if there is one, as a sentence."""
    end = "" if reason.endswith((".", "!", "?", "…")) else "."
    return f" The reason: {reason}{end}" if reason else ""


def _at(call: ToolCall, row: Any) -> str:
    """Where the call waits and what the user has to do; a site without the admin has no page."""
    try:
        path = reverse("admin:mcp_bridge_pendingcall_change", args=[row.pk])
    except NoReverseMatch:
        return (
            f"as number {row.pk}; this site has no page to approve it. Tell the user to ask "
            "whoever runs this site to have it approved"
        )
    request = call.context.request
    address = path if request is None else request.build_absolute_uri(path)
    return f"for it at {address}. Tell the user to have it approved there"


def _model() -> Any:
    # Imported by its name: tools are also used where the app is not installed.
    return cast("Any", apps.get_model("mcp_bridge", "PendingCall"))


def _rows() -> Any:
    model = _model()
    return model._default_manager.using(router.db_for_write(model))

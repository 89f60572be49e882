"""The approval queue: calls of clients that cannot be asked, until a person has decided."""

from __future__ import annotations

from typing import Any, Final, cast

from django.apps import apps
from django.db import router
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from mcp_bridge.conf import conf
from mcp_bridge.confirmation.states import binding
from mcp_bridge.confirmation.wording import in_words
from mcp_bridge.exceptions import ToolError
from mcp_bridge.fingerprints import fingerprint, portrait
from mcp_bridge.protocol.jsonrpc import cut
from mcp_bridge.tools import Context, Tool, ToolCall

# More than a person reads; who has so many waiting has to wait.
MOST_WAITING: Final = 100
MAX_ARGUMENTS: Final = 64 * 1024


def taken(call: ToolCall) -> bool:
    """
    Whether a person has approved the call: then that is used up, by this process alone.

    Raises ToolError where a person has refused it.
    """
    status, rows, row = _model().Status, _rows(), _row(call)
    if row is None or row.status != status.APPROVED:
        return False
    approved = rows.filter(pk=row.pk, status=status.APPROVED, key=row.key)
    return bool(approved.update(status=status.DONE, key=None, used_at=timezone.now()))


def held(call: ToolCall, arguments: str) -> ToolError:
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
        f"Nothing was run: {name} needs the approval of a person. The call waits{_at(call, row)}. "
        f"Tell the user to have it approved there by {who}. Then repeat the call with the same "
        f"arguments within {within} of the approval; repeating it before changes nothing."
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
    text = in_words(tool, arguments)
    row, _ = rows.get_or_create(key=binding(call), defaults=_values(call, text))
    row.decide(using=rows.db, status=model.Status.APPROVED, decided_by=context.user)


def _row(call: ToolCall) -> Any:
    """
    The row of the call; None if there is none, or its time is over.

    Raises ToolError where a person has refused the call.
    """
    rows = _rows()
    row = rows.filter(key=binding(call)).first()
    if row is not None and row.is_over:
        rows.filter(pk=row.pk).update(key=None)
        return None
    if row is not None and row.status == row.Status.REFUSED:
        raise ToolError(
            f"Nothing was run: a person has refused this call of {call.tool.name}. The reason: "
            f"{row.reason} Do not repeat it unless the user wants it."
        )
    return row


def _values(call: ToolCall, arguments: str) -> dict[str, Any]:
    client = call.context.client_info.get("name")
    return {
        "tool": call.tool.name,
        "fingerprint": fingerprint(portrait(call.tool)),
        "arguments": arguments,
        "user": call.context.user,
        "client": cut(repr(client)[1:-1], 120) if isinstance(client, str) else "",
    }


def _at(call: ToolCall, row: Any) -> str:
    """Where a person approves the call; nowhere, if the site has no admin."""
    try:
        path = reverse("admin:mcp_bridge_heldcall_change", args=[row.pk])
    except NoReverseMatch:
        return f" as number {row.pk} (this site has no page to approve it)"
    request = call.context.request
    address = path if request is None else request.build_absolute_uri(path)
    return f" for it at {address}"


def _model() -> Any:
    # Imported by its name: tools are also used where the app is not installed.
    return cast("Any", apps.get_model("mcp_bridge", "HeldCall"))


def _rows() -> Any:
    model = _model()
    return model._default_manager.using(router.db_for_write(model))

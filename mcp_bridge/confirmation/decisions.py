"""A person's decision on a call that waits in the approval queue, wherever it is made."""

from __future__ import annotations

from typing import Final

from django.apps import apps
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.messages import constants
from django.db import router, transaction
from django.db.models import Q
from django.forms.utils import to_current_timezone
from django.utils.formats import date_format
from django.utils.translation import gettext

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.models import Generation, PendingCall
from mcp_bridge.protocol.text import storable
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus

Status = PendingCall.Status
# Characters of a reason, since a model reads it.
MAX_REASON: Final = 2_000


def obstacle_to(pending: PendingCall, user: AbstractBaseUser | None = None) -> str:
    """Return why the user, or anybody, cannot approve a call; empty where it can be approved."""
    if conf.FOUR_EYES and user is not None:
        if pending.user_id == user.pk:
            return gettext("You cannot approve it: it is your own call, and another person has to.")
        if pending.issuer_id == user.pk:
            return gettext(
                "You cannot approve it: it was called with a token that you issued, and another "
                "person has to."
            )
    tool = registry.snapshot.tools.get(pending.tool)
    if tool is None:
        status = registry.statuses.get((Tool.kind, pending.tool), ToolStatus.GONE)
        return gettext(
            "It cannot be approved: nobody can call the tool at present (%(status)s)."
        ) % {"status": status.label}
    if fingerprint(canonical_definition(tool)) != pending.fingerprint:
        return gettext(
            "It cannot be approved: the tool has another definition than when it was called. The "
            "caller has to call it again."
        )
    return ""


def approvable(user: AbstractBaseUser | None = None) -> Q:
    """Return the condition that a call waits for a decision by the user, or by anybody."""
    waits = Q(status=Status.WAITING, fingerprint__in=_fingerprints())
    if not conf.FOUR_EYES or user is None:
        return waits
    return waits & ~Q(user=user.pk) & ~Q(issuer=user.pk)


def set_aside() -> Q:
    """Return the condition that nobody can approve a call any more, and that it will not run."""
    # Its tool is gone, off or has changed, or it was approved and not repeated in time.
    is_outdated = Q(status=Status.WAITING) & ~Q(fingerprint__in=_fingerprints())
    return is_outdated | Q(PendingCall.over(), status=Status.APPROVED)


def _fingerprints() -> list[str]:
    """Return the fingerprints of the tools that ask first, as they are served now."""
    tools = [tool for tool in registry.snapshot if tool.options.confirm]
    return [fingerprint(canonical_definition(tool)) for tool in tools]


def approve(pending: PendingCall, user: AbstractBaseUser) -> tuple[str, int]:
    """
    Approve a call, unless it cannot be approved or somebody has decided before.

    Returns the message to the person, and its level (django.contrib.messages): SUCCESS alone says
    that the decision is written.
    """
    obstacle = obstacle_to(pending, user)
    if obstacle:
        return obstacle, constants.ERROR
    text = gettext(
        "The call is approved: it runs when its caller repeats it, by %(time)s at the latest."
    )
    return _written(pending, user, Status.APPROVED, "", gettext("Approved."), text)


def refuse(pending: PendingCall, user: AbstractBaseUser, reason: str) -> tuple[str, int]:
    """Refuse a call, with a reason that the caller reads; returns the same as ``approve``."""
    reason = storable(reason, MAX_REASON).strip()
    if not reason:
        return gettext("Say why it is refused: the caller reads it."), constants.ERROR
    text = gettext("The call is refused, which its caller is told.")
    logged = gettext("Refused: %(reason)s") % {"reason": reason}
    return _written(pending, user, Status.REFUSED, reason, logged, text)


def _written(
    pending: PendingCall, user: AbstractBaseUser, status: str, reason: str, logged: str, text: str
) -> tuple[str, int]:
    using = router.db_for_write(PendingCall)
    with transaction.atomic(using):
        Generation.lock(using)
        if not pending.decide(using=using, status=status, reason=reason, decided_by=user):
            rows = PendingCall.objects.using(using).select_related("decided_by")
            present = rows.filter(pk=pending.pk).first()
            text = gettext("Nothing was changed: somebody has deleted the call in the meantime.")
            if present is not None:
                by, status = present.decided_by or gettext("somebody"), present.get_status_display()
                text = gettext("Nothing was changed: %(user)s has decided before (%(status)s).")
                text %= {"user": by, "status": status}
            return text, constants.WARNING
        pending.refresh_from_db(using=using)
        if apps.is_installed("django.contrib.admin"):
            from django.contrib.admin.models import CHANGE, LogEntry

            LogEntry.objects.log_actions(user.pk, [pending], CHANGE, logged)
    return text % {"time": end_of(pending)}, constants.SUCCESS


def end_of(pending: PendingCall) -> str:
    """Return until when the decision on a call counts, as people read a time; empty before it."""
    until = pending.counts_until
    return "" if until is None else date_format(to_current_timezone(until), "DATETIME_FORMAT")

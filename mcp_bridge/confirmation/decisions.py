"""Decisions on calls in the approval queue, for the admin and commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
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
from mcp_bridge.features import Feature, key_of
from mcp_bridge.models import Generation, PendingCall
from mcp_bridge.protocol.text import storable
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.signals import tool_call_decided

Status = PendingCall.Status
# The most characters of a reason, since a model reads it.
MAX_REASON: Final = 2_000


def obstacle_to(pending: PendingCall, user: AbstractBaseUser | None = None) -> str:
    """Return why the user (None: anyone) cannot approve a call, or "" if possible."""
    if conf.FOUR_EYES and user is not None:
        if pending.user_id == user.pk:
            return gettext("You cannot approve your own call. Another person must approve it.")
        if pending.issuer_id == user.pk:
            return gettext(
                "You cannot approve this call: it was made with a token that you issued. Another "
                "person must approve it."
            )
    tool = registry.snapshot.by_label.get(pending.tool)
    if tool is None:
        status = registry.statuses.get(key_of(pending.tool), ToolStatus.GONE)
        return gettext("This call cannot be approved: it is not available now (%(status)s).") % {
            "status": status.label
        }
    if fingerprint(canonical_definition(tool)) != pending.fingerprint:
        return gettext(
            "This call cannot be approved: the definition has changed since. The caller must "
            "repeat it."
        )
    return ""


def approvable(user: AbstractBaseUser | None = None) -> Q:
    """Return the condition that a call can be approved by the user, or by anyone."""
    waits = Q(status=Status.WAITING, fingerprint__in=_fingerprints())
    if not conf.FOUR_EYES or user is None:
        return waits
    return waits & ~Q(user=user.pk) & ~Q(issuer=user.pk)


def set_aside() -> Q:
    """Return the condition that a call can no longer be approved and will not run."""
    # Its tool is gone, disabled or changed, or its approval has expired.
    is_outdated = Q(status=Status.WAITING) & ~Q(fingerprint__in=_fingerprints())
    return is_outdated | Q(PendingCall.over(), status=Status.APPROVED)


def _fingerprints() -> list[str]:
    """Return the fingerprints of the served tools that require confirmation."""
    tools = [tool for tool in registry.snapshot if tool.options.confirm]
    return [fingerprint(canonical_definition(tool)) for tool in tools]


def ending(tools: Iterable[Feature]) -> Counter[str]:
    """Return by label the number of open calls of its other definitions, which cannot run."""
    current = {tool.label: fingerprint(canonical_definition(tool)) for tool in tools}
    is_open = Q(status=Status.WAITING) | Q(status=Status.APPROVED) & ~PendingCall.over()
    rows = PendingCall.objects.filter(is_open, tool__in=current).values_list("tool", "fingerprint")
    return Counter(name for name, definition in rows if definition != current.get(name, definition))


def approve(pending: PendingCall, user: AbstractBaseUser) -> tuple[str, int]:
    """
    Approve a call, unless that is not possible or a decision exists.

    Returns the message for the person, and its level (django.contrib.messages): only SUCCESS means
    that the decision was saved.
    """
    obstacle = obstacle_to(pending, user)
    if obstacle:
        return obstacle, constants.ERROR
    text = gettext(
        "The call was approved. It runs now if it is a task that was not cancelled, otherwise when "
        "its caller repeats it, by %(time)s at the latest."
    )
    return _written(pending, user, Status.APPROVED, "", gettext("Approved."), text)


def refuse(pending: PendingCall, user: AbstractBaseUser, reason: str) -> tuple[str, int]:
    """Refuse a call with a reason for the caller; returns the same as ``approve``."""
    reason = storable(reason, MAX_REASON).strip()
    if not reason:
        return gettext("Enter a reason for the refusal; the caller reads it."), constants.ERROR
    text = gettext("The call was refused. Its caller receives the reason.")
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
            text = gettext("Nothing was changed: the call has been deleted in the meantime.")
            if present is not None:
                by, status = present.decided_by or gettext("someone"), present.get_status_display()
                text = gettext("Nothing was changed: %(user)s has already decided (%(status)s).")
                text %= {"user": by, "status": status}
            return text, constants.WARNING
        pending.refresh_from_db(using=using)
        decided = partial(tool_call_decided.send_robust, PendingCall, pending=pending)
        transaction.on_commit(decided, using=using, robust=True)
        if apps.is_installed("django.contrib.admin"):
            from django.contrib.admin.models import CHANGE, LogEntry

            LogEntry.objects.log_actions(user.pk, [pending], CHANGE, logged)
    return text % {"time": end_of(pending)}, constants.SUCCESS


def end_of(pending: PendingCall) -> str:
    """Return the localised expiry of the decision on a call, or "" if there is none yet."""
    until = pending.counts_until
    return "" if until is None else date_format(to_current_timezone(until), "DATETIME_FORMAT")

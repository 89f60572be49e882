"""A person's decision on a call that waits in the approval queue, wherever it is made."""

from __future__ import annotations

from typing import Final

from django.apps import apps
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.messages import constants
from django.db import router, transaction
from django.utils.translation import gettext

from mcp_bridge.conf import conf
from mcp_bridge.models import Generation, PendingCall
from mcp_bridge.protocol.text import storable
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.registry.registry import registry

Status = PendingCall.Status
# Characters of a reason, since a model reads it.
MAX_REASON: Final = 2_000


def obstacle_to(pending: PendingCall, user: AbstractBaseUser | None = None) -> str:
    """Return why the user, or anybody, cannot approve a call; empty where it can be approved."""
    if conf.FOUR_EYES and user is not None and pending.user_id == user.pk:
        return gettext("You cannot approve it: it is your own call, and another person has to.")
    tool = registry.snapshot.tools.get(pending.tool)
    if tool is None:
        return gettext("It cannot be approved: nobody can call the tool at present.")
    if fingerprint(canonical_definition(tool)) != pending.fingerprint:
        return gettext(
            "It cannot be approved: the tool has another definition than when it was called. The "
            "caller has to call it again."
        )
    return ""


def approve(pending: PendingCall, user: AbstractBaseUser) -> tuple[str, int]:
    """
    Approve a call, unless it cannot be approved or somebody has decided before.

    Returns the message to the person, and its level (django.contrib.messages): SUCCESS alone says
    that the decision is written.
    """
    obstacle = obstacle_to(pending, user)
    if obstacle:
        return obstacle, constants.ERROR
    text = gettext("The call is approved: it runs when its caller repeats it.")
    return _written(pending, user, Status.APPROVED, "", "Approved.", text)


def refuse(pending: PendingCall, user: AbstractBaseUser, reason: str) -> tuple[str, int]:
    """Refuse a call, with a reason that the caller reads; returns the same as ``approve``."""
    reason = storable(reason, MAX_REASON).strip()
    if not reason:
        return gettext("Say why it is refused: the caller reads it."), constants.ERROR
    text = gettext("The call is refused, which its caller is told.")
    return _written(pending, user, Status.REFUSED, reason, f"Refused: {reason}", text)


def _written(
    pending: PendingCall, user: AbstractBaseUser, status: str, reason: str, logged: str, text: str
) -> tuple[str, int]:
    using = router.db_for_write(PendingCall)
    with transaction.atomic(using):
        Generation.lock(using)
        if not pending.decide(using=using, status=status, reason=reason, decided_by=user):
            text = gettext("Nothing was changed: somebody has decided in the meantime.")
            return text, constants.WARNING
        if apps.is_installed("django.contrib.admin"):
            from django.contrib.admin.models import CHANGE, LogEntry

            LogEntry.objects.log_actions(user.pk, [pending], CHANGE, logged)
    return text, constants.SUCCESS

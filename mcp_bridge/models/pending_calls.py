"""Calls that wait for a person's confirmation, and the request states that were used."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_bridge.conf import conf

# A used state is remembered for this many times the age at which it expires anyway.
_KEPT: Final = 10


def _ago(times: int = 1) -> datetime:
    """Return the moment that is CONFIRMATION_MAX_AGE, or some times that, in the past."""
    return timezone.now() - times * timedelta(seconds=conf.CONFIRMATION_MAX_AGE)


class PendingCall(models.Model):
    """
    A call that runs only after a person has approved it.

    ``key`` identifies the caller, the tool and the arguments; it is null once the call has run or
    its decision has expired, so that the same call can wait again. ``arguments`` are for people to
    read.
    """

    class Status(models.TextChoices):
        WAITING = "waiting", _("waits for a decision")
        APPROVED = "approved", _("approved, not repeated yet")
        REFUSED = "refused", _("refused")
        DONE = "done", _("has been run")

    key = models.CharField(max_length=64, unique=True, null=True, editable=False)
    tool = models.CharField(_("tool"), max_length=128, db_index=True)
    fingerprint = models.CharField(max_length=64, editable=False)
    arguments = models.TextField(_("arguments"))
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("asked by"),
        on_delete=models.SET_NULL,
        related_name="+",
        null=True,
    )
    client = models.CharField(_("client"), max_length=128, blank=True)
    status = models.CharField(
        _("status"), max_length=8, choices=Status.choices, default=Status.WAITING, db_index=True
    )
    asked_at = models.DateTimeField(_("asked"), default=timezone.now)
    decided_at = models.DateTimeField(_("decided"), null=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("decided by"),
        on_delete=models.SET_NULL,
        related_name="+",
        null=True,
    )
    reason = models.TextField(_("reason"), blank=True)
    used_at = models.DateTimeField(_("run"), null=True)

    class Meta:
        verbose_name = _("pending call")
        verbose_name_plural = _("pending calls")
        ordering = ["-asked_at", "-pk"]
        # Rows come from calls.
        default_permissions = ("view", "change", "delete")

    def __str__(self) -> str:
        return f"{self.tool} ({self.pk})"

    @property
    def is_over(self) -> bool:
        """Return whether the decision has expired, CONFIRMATION_MAX_AGE after it was made."""
        return self.decided_at is not None and self.decided_at < _ago()

    @classmethod
    def settled(cls, before: datetime, *, using: str) -> models.QuerySet[PendingCall]:
        """
        Return the calls that were decided before a time and whose decision has expired.

        Calls that wait are not among them, however old: nobody has decided on them.
        """
        return cls._default_manager.using(using).filter(decided_at__lt=min(before, _ago()))

    def decide(self, *, using: str, **values: object) -> bool:
        """Write a decision, by column, unless there is one; return whether it was written."""
        rows = type(self)._default_manager.using(using)
        waiting = rows.filter(pk=self.pk, status=self.Status.WAITING)
        return bool(waiting.update(decided_at=timezone.now(), **values))


class UsedState(models.Model):
    """The nonce of a ``requestState`` that a client has sent back, which is accepted once."""

    nonce = models.CharField(max_length=32, primary_key=True)
    used_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.nonce

    @classmethod
    def forget(cls, *, using: str) -> int:
        """Delete those whose state has expired in any case; return how many there were."""
        return cls._default_manager.using(using).filter(used_at__lt=_ago(_KEPT)).delete()[0]

"""The records of calls, and calls that require confirmation."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_bridge.conf import conf
from mcp_bridge.features import label_of
from mcp_bridge.models.keys import uuid7
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.models.users import optional_user


class ToolCallRecord(models.Model):
    """
    One call of a tool, or one refusal; written only by ``mcp_bridge.records``.

    Data from the client (its name, the name of an unknown tool) is kept as text and proves
    nothing. ``user_name`` remains when the user is deleted. ``arguments`` is JSON text, empty if
    not kept. ``error_text`` is the error that the model received, with an internal exception, which
    it did not receive, on a second line; ``invalid_arguments`` are the JSON pointers of invalid
    arguments, one a line; both without secrets. ``times`` is more than 1 if a row stands for
    several refusals. ``upstream`` is the short name of the remote server that the call reached, and
    ``upstream_status`` the class of its HTTP status: "2xx" to "5xx", "error" without a response.
    The key contains the time: later calls have greater keys.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    started_at = models.DateTimeField(_("time"), default=timezone.now)
    # The kind of feature; also a database default, for processes with older code.
    kind = models.CharField(max_length=16, default="tool", db_default="tool")
    tool = models.CharField(_("tool"), max_length=128, blank=True)
    # Without a constraint, so that a record never prevents deleting a user, and a user deleted
    # during the call does not prevent the record. Without an index, which costs every call:
    # records are searched by the user's name.
    user = optional_user(_("user"), db_constraint=False, db_index=False)
    user_name = models.CharField(_("user's name"), max_length=150, blank=True)
    credential = models.CharField(_("signed in with"), max_length=100, blank=True)
    client_name = models.CharField(_("client"), max_length=100, blank=True)
    client_version = models.CharField(_("client's version"), max_length=100, blank=True)
    revision = models.CharField(_("protocol version"), max_length=10, blank=True)
    outcome = models.CharField(_("outcome"), max_length=16, choices=Outcome)
    error_code = models.CharField(_("error code"), max_length=32, choices=ErrorCode, blank=True)
    # Also a database default, for processes with older code.
    times = models.PositiveIntegerField(_("times"), default=1, db_default=1)
    reference = models.CharField(_("reference"), max_length=32, blank=True)
    error_text = models.CharField(_("error"), max_length=500, blank=True, default="", db_default="")
    invalid_arguments = models.CharField(
        _("invalid arguments"), max_length=500, blank=True, default="", db_default=""
    )
    # It may be deleted before the record is; it is never searched by.
    pending_call = models.ForeignKey(
        "PendingCall",
        models.DO_NOTHING,
        verbose_name=_("pending call"),
        related_name="+",
        null=True,
        db_constraint=False,
        db_index=False,
    )
    duration_ms = models.FloatField(_("duration (ms)"), null=True)
    arguments = models.TextField(_("arguments"), blank=True)
    arguments_bytes = models.BigIntegerField(_("size of the arguments (bytes)"), null=True)
    result_bytes = models.BigIntegerField(_("size of the result (bytes)"), null=True)
    remote_address = models.CharField(_("remote address"), max_length=64, blank=True)
    upstream = models.CharField(
        _("remote server"), max_length=24, blank=True, default="", db_default=""
    )
    upstream_status = models.CharField(
        _("its HTTP status"), max_length=5, blank=True, default="", db_default=""
    )

    class Meta:
        verbose_name = _("call")
        verbose_name_plural = _("calls")
        ordering = ["-started_at", "-pk"]
        # Rows come from calls, and are deleted by "manage.py mcp_audit prune".
        default_permissions = ("view",)
        # Each index serves a page of the admin, and slows down every call.
        indexes = [
            models.Index(fields=["started_at"], name="mcp_record_time"),
            models.Index(fields=["tool", "started_at"], name="mcp_record_tool"),
            models.Index(fields=["user_name", "started_at"], name="mcp_record_user"),
        ]

    def __str__(self) -> str:
        return f"{self.label or '—'}, {self.get_outcome_display()}"

    @property
    def label(self) -> str:
        """The kind and name as one text (Feature.label)."""
        return label_of(self.kind, self.tool)


# A used state is kept for this many times the age at which it expires.
_KEPT: Final = 10


def _ago(times: int = 1) -> datetime:
    """Return the moment that is ``times`` CONFIRMATION_MAX_AGE in the past."""
    return timezone.now() - times * timedelta(seconds=conf.CONFIRMATION_MAX_AGE)


class PendingCall(models.Model):
    """
    A call that runs only after a person has approved it.

    ``key`` identifies the caller, the tool and the arguments; it is null once the call has run or
    its decision has expired, so that the same call can be queued again. ``arguments`` are rendered
    for people.
    """

    class Status(models.TextChoices):
        WAITING = "waiting", _("waits for a decision")
        APPROVED = "approved", _("approved, not run yet")
        REFUSED = "refused", _("refused")
        DONE = "done", _("has been run")

    key = models.CharField(max_length=64, unique=True, null=True, editable=False)
    tool = models.CharField(_("tool"), max_length=128, db_index=True)
    fingerprint = models.CharField(max_length=64, editable=False)
    arguments = models.TextField(_("arguments"))
    user = optional_user(_("asked by"))
    # The user who issued the credential of the call, if another one.
    issuer = optional_user(_("token issued by"), db_constraint=False)
    client = models.CharField(_("client"), max_length=128, blank=True)
    status = models.CharField(
        _("status"), max_length=8, choices=Status.choices, default=Status.WAITING, db_index=True
    )
    asked_at = models.DateTimeField(_("asked"), default=timezone.now)
    decided_at = models.DateTimeField(_("decided"), null=True)
    decided_by = optional_user(_("decided by"))
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

    @property
    def counts_until(self) -> datetime | None:
        """Return when the decision expires; None without a decision."""
        return self.decided_at and self.decided_at + timedelta(seconds=conf.CONFIRMATION_MAX_AGE)

    @classmethod
    def over(cls) -> Q:
        """Return the condition that a decision has expired."""
        return Q(decided_at__lt=_ago())

    @classmethod
    def settled(cls, before: datetime, *, using: str) -> models.QuerySet[PendingCall]:
        """Return the calls decided before a time whose decision has expired."""
        return cls.objects.using(using).filter(decided_at__lt=min(before, _ago()))

    def decide(self, *, using: str, **values: object) -> bool:
        """Save a decision, by column, unless one exists; return whether it was saved."""
        waiting = PendingCall.objects.using(using).filter(pk=self.pk, status=self.Status.WAITING)
        return bool(waiting.update(decided_at=timezone.now(), **values))


class UsedState(models.Model):
    """The nonce of a ``requestState`` that a client has sent back; it is accepted once."""

    nonce = models.CharField(max_length=32, primary_key=True)
    used_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        default_permissions = ()

    @classmethod
    def forget(cls, *, using: str) -> int:
        """Delete the nonces of expired states; return how many there were."""
        return cls.objects.using(using).filter(used_at__lt=_ago(_KEPT)).delete()[0]

"""The record of a call: who called what, when, and what it came to."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_bridge.outcomes import ErrorCode, Outcome


class ToolCallRecord(models.Model):
    """
    One call of a tool, or one refusal; written by ``mcp_bridge.audit`` alone.

    What a client said of itself (its name, a tool that is none) is kept as text and proves nothing.
    ``user_name`` stays when the user is deleted. ``arguments`` is JSON text, empty where they are
    not kept.
    """

    started_at = models.DateTimeField(_("time"), default=timezone.now)
    tool = models.CharField(_("tool"), max_length=128, blank=True)
    # Without a constraint: a record is no reason to refuse what is done to users, or to wait for
    # it, and a user who is gone by now is no reason to lose a record.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        on_delete=models.SET_NULL,
        related_name="+",
        null=True,
        db_constraint=False,
    )
    user_name = models.CharField(_("user's name"), max_length=150, blank=True)
    credential = models.CharField(_("credential"), max_length=100, blank=True)
    client_name = models.CharField(_("client"), max_length=100, blank=True)
    client_version = models.CharField(_("client's version"), max_length=100, blank=True)
    revision = models.CharField(_("revision"), max_length=10, blank=True)
    outcome = models.CharField(_("outcome"), max_length=16, choices=Outcome)
    error_code = models.CharField(_("error code"), max_length=32, choices=ErrorCode, blank=True)
    reference = models.CharField(_("reference"), max_length=32, blank=True)
    duration_ms = models.FloatField(_("duration (ms)"), null=True)
    arguments = models.TextField(_("arguments"), blank=True)
    arguments_bytes = models.BigIntegerField(_("size of the arguments"), null=True)
    result_bytes = models.BigIntegerField(_("size of the result"), null=True)
    remote_address = models.CharField(_("remote address"), max_length=64, blank=True)

    class Meta:
        # Found with the models of the app, which import it.
        app_label = "mcp_bridge"
        verbose_name = _("call")
        verbose_name_plural = _("calls")
        ordering = ["-started_at", "-pk"]
        # Rows come from calls, and go with "manage.py mcp_audit prune".
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["started_at"], name="mcp_record_time"),
            models.Index(fields=["tool", "started_at"], name="mcp_record_tool"),
            models.Index(
                fields=["started_at"],
                condition=Q(outcome=Outcome.STARTED),
                name="mcp_record_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool or '—'}, {self.outcome}"

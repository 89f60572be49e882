"""The OAuth scopes that administrators define."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_bridge.models.tool_settings import validate_scope


class Scope(models.Model):
    """A scope and its description for people; overrides the setting SCOPES."""

    name = models.CharField(_("name"), max_length=100, unique=True, validators=[validate_scope])
    description = models.CharField(
        _("description"),
        max_length=300,
        help_text=_("Describes on the consent page what a client with this scope can do."),
    )

    class Meta:
        verbose_name = _("scope")
        verbose_name_plural = _("scopes")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

"""
The administrators' settings of each tool, and the generation that changes with each of them.

Code that changes a row first writes a new generation, in the same transaction: a process whose
generation is current does not read anything else.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models, router, transaction
from django.db.models.signals import m2m_changed, pre_delete, pre_save
from django.utils.translation import gettext_lazy as _

from mcp_bridge.features import Key, label_of
from mcp_bridge.features.marks import SCOPE
from mcp_bridge.features.rates import parse_rate
from mcp_bridge.models.users import optional_user
from mcp_bridge.signals import tools_changed


def validate_rate(value: str) -> None:
    """Raise Django's ValidationError for a text that is not a rate, such as "20/min"."""
    try:
        parse_rate(value)
    except ValueError:
        raise ValidationError(
            _("Enter a number, a slash and s, min, hour or day, such as 20/min.")
        ) from None


# The kinds of features, in words.
KINDS: Final = {"tool": _("tool"), "resource": _("resource"), "prompt": _("prompt")}
# RFC 6749, section 3.3.
validate_scope = RegexValidator(
    rf"^{SCOPE.pattern}\Z", _("Write one name, without spaces, quotes and backslashes.")
)
validate_scopes = RegexValidator(
    rf"^{SCOPE.pattern}( {SCOPE.pattern})*\Z",
    _("Write names with one space between them, without quotes and backslashes."),
)


class Generation(models.Model):
    """
    Random texts that are replaced on every change: of a ToolSetting in the row ``SETTINGS``.

    A source whose tools are rows renews the row ``SOURCES`` (see ``Source.version``).
    """

    SETTINGS, SOURCES = 1, 2

    value = models.CharField(max_length=32)

    class Meta:
        default_permissions = ()

    @classmethod
    def current(cls) -> dict[int, str]:
        """Return the current texts by row, from the database for writes."""
        using = router.db_for_write(cls)
        return dict(cls._default_manager.using(using).values_list("pk", "value"))

    @classmethod
    def lock(cls, using: str) -> None:
        """
        Take the write lock in the open transaction, by a write that changes nothing.

        SQLite lets a transaction that begins with a write wait for its turn. It fails at once
        ("database is locked") on a write after a read if another connection wrote in between.
        """
        cls._write(using, models.F("value"))

    @classmethod
    def renew(cls, using: str, row: int = SETTINGS, **kwargs: object) -> None:
        """
        Begin a new generation of a row in the open transaction of the database ``using``.

        A concurrent transaction waits here until this one has ended. Sends ``tools_changed`` now
        and again after the commit. Also a signal receiver; ignores the signal's arguments.
        """
        cls._write(using, secrets.token_hex(16), row)
        announce = partial(tools_changed.send_robust, sender=ToolSetting)
        announce()
        transaction.on_commit(announce, using=using)

    @classmethod
    def _write(cls, using: str, value: object, row: int = SETTINGS) -> None:
        rows = cls._default_manager.using(using).filter(pk=row)
        # Written before anything is read: see lock().
        if not rows.update(value=value):
            rows.get_or_create(pk=row)
            rows.update(value=value)


class ToolSettingQuerySet(models.QuerySet["ToolSetting"]):
    """A queryset that renews the generation for bulk writes too, which send no signals."""

    def update(self, **values: Any) -> int:
        with _renewed():
            return super().update(**values)

    def bulk_create(self, *args: Any, **kwargs: Any) -> list[ToolSetting]:
        with _renewed():
            return super().bulk_create(*args, **kwargs)


@contextmanager
def _renewed() -> Iterator[None]:
    """Commit the writes of the block together with a new generation."""
    using = router.db_for_write(ToolSetting)
    with transaction.atomic(using):
        Generation.renew(using)
        yield


class ToolSetting(models.Model):
    """
    The administrators' settings of a feature, by its kind and name; without a row the defaults.

    ``chosen`` says that an administrator has enabled a candidate of this name: it is a tool while
    ``enabled`` is true as well, which is the default for tools marked in code. ``approved`` is the
    definition approved last, as JSON text, empty before the first approval; ``fingerprint`` is its
    SHA-256, and ``guarded`` says whether it required approval.
    """

    # Also a database default, for processes with older code.
    kind = models.CharField(max_length=16, default="tool", db_default="tool", editable=False)
    name = models.CharField(_("name"), max_length=128, editable=False)
    enabled = models.BooleanField(
        _("enabled"),
        default=True,
        help_text=_("If disabled, it is not listed and cannot be called."),
    )
    restricted = models.BooleanField(
        _("only for groups"),
        default=False,
        help_text=_(
            "Limits access to members of the groups below, superusers included. They need the "
            "required permissions as well. Without a group, it is hidden from everyone."
        ),
    )
    groups = models.ManyToManyField(
        Group, verbose_name=_("groups"), related_name="mcp_tools", blank=True
    )
    scopes = models.CharField(
        _("scopes"),
        max_length=500,
        blank=True,
        validators=[validate_scopes],
        help_text=_(
            "Names with spaces between them, such as articles:write. A client that was connected "
            "by OAuth needs them as well as those in the code."
        ),
    )
    rate = models.CharField(
        _("rate"),
        max_length=32,
        blank=True,
        validators=[validate_rate],
        help_text=_("How often each caller may call it, such as 20/min, 100/hour or 5/day."),
    )
    confirm = models.BooleanField(
        _("requires confirmation"),
        default=False,
        help_text=_(
            "Each call waits for a person's approval. A tool that requires it in code always does."
        ),
    )
    # Also a database default, for processes with older code.
    never_task = models.BooleanField(
        _("never as a task"),
        default=False,
        db_default=False,
        help_text=_("Each call runs inside its request, unless it waits for a person's approval."),
    )
    title = models.CharField(
        _("title"), max_length=200, blank=True, help_text=_("Replaces the title in the code.")
    )
    description = models.TextField(
        _("description"),
        blank=True,
        help_text=_("Replaces the description in the code, for models."),
    )
    note = models.TextField(
        _("note"),
        blank=True,
        help_text=_("For colleagues: the reason for these settings. Models do not see it."),
    )
    chosen = models.BooleanField(default=False, editable=False)
    approved = models.TextField(editable=False, blank=True)
    fingerprint = models.CharField(max_length=64, editable=False, blank=True)
    guarded = models.BooleanField(default=False, editable=False)
    approved_at = models.DateTimeField(_("approved"), null=True, editable=False)
    approved_by = optional_user(_("approved by"), editable=False)

    objects = ToolSettingQuerySet.as_manager()

    class Meta:
        verbose_name = _("tool")
        verbose_name_plural = _("tools")
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="mcp_setting_of_feature")
        ]
        # Rows come from the code.
        default_permissions = ("view", "change", "delete")

    def __str__(self) -> str:
        return self.label

    @property
    def key(self) -> Key:
        """The key of the feature."""
        return self.kind, self.name

    @property
    def label(self) -> str:
        """The key as one text (Feature.label)."""
        return label_of(*self.key)

    @property
    def kind_name(self) -> str:
        """The kind in words."""
        return str(KINDS.get(self.kind, self.kind))

    def save(self, *args: Any, **kwargs: Any) -> None:
        # Commits the row and its generation together.
        with transaction.atomic(kwargs.get("using") or router.db_for_write(type(self))):
            super().save(*args, **kwargs)


def renew_for_groups(*, action: str, using: str, **sent: Any) -> None:
    """Renew the generation when groups change, and restrict tools that are given groups."""
    if not action.startswith("pre_"):
        return
    Generation.renew(using)
    if action == "pre_add":
        # Groups without a restriction would be misread as a limit.
        chosen = sent["pk_set"] if sent["reverse"] else {sent["instance"].pk}
        ToolSetting.objects.using(using).filter(pk__in=chosen or ()).update(restricted=True)


pre_save.connect(Generation.renew, sender=ToolSetting, dispatch_uid="mcp_bridge.saved")
pre_delete.connect(Generation.renew, sender=ToolSetting, dispatch_uid="mcp_bridge.deleted")
m2m_changed.connect(
    renew_for_groups, sender=ToolSetting.groups.through, dispatch_uid="mcp_bridge.groups"
)

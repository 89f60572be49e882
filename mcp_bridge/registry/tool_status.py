"""
Where each tool stands with the site's owner: served, off, or withheld until it is approved.

An approval is of one definition (see ``mcp_bridge.registry.fingerprints``). A tool that needs
approval and whose definition is another one is withheld; one that needs none is approved as it is
seen.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, models, router, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_bridge.conf import conf
from mcp_bridge.features.tools import AccessRule, Tool
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

logger = logging.getLogger("mcp_bridge.approval")

# The fields that an approval writes.
APPROVAL: Final = ("approved", "fingerprint", "guarded", "approved_at", "approved_by")


class ToolStatus(models.TextChoices):
    """What the owner's settings make of a tool."""

    SERVED = "served", _("on")
    DISABLED = "disabled", _("off")
    NEW = "new", _("new, waits for approval")
    CHANGED = "changed", _("changed, waits for approval")
    GONE = "gone", _("no longer in the code")


def needs_approval(tool: Tool) -> bool:
    """Whether the code's definition asks for approval: of what acts, and of what may destroy."""
    destructive = tool.annotations.get("destructiveHint", False)
    return tool.options.confirm or (conf.APPROVE_DESTRUCTIVE and destructive)


def is_unpinned(tool: Tool, setting: Any) -> bool:
    """Whether the tool needs approval and nothing is written down of which that would be."""
    return needs_approval(tool) and (setting is None or not setting.fingerprint)


def is_changed(tool: Tool, setting: Any) -> bool:
    """Whether the tool needs approval, or did when it was approved, and is another one now."""
    guarded = setting.guarded or needs_approval(tool)
    return guarded and setting.fingerprint != fingerprint(canonical_definition(tool))


def status_of(tool: Tool | None, setting: Any) -> ToolStatus:
    """
    Where a tool stands; ``setting`` is its ToolSetting or None, ``tool`` None if it is gone.

    A new one stands where the next request puts it (see ``pin``).
    """
    if tool is None:
        return ToolStatus.GONE
    if setting is None or not setting.fingerprint:
        if conf.NEW_TOOLS == "disabled":
            return ToolStatus.NEW
    elif is_changed(tool, setting):
        return ToolStatus.CHANGED
    return ToolStatus.SERVED if setting is None or setting.enabled else ToolStatus.DISABLED


def is_served_unapproved(where: ToolStatus, setting: Any) -> bool:
    """Whether a tool has changed and is served all the same, since DEBUG is on."""
    return where is ToolStatus.CHANGED and settings.DEBUG and bool(setting.enabled)


def served_tools(tools: Iterable[Tool], found: Mapping[str, Any]) -> list[Tool]:
    """The tools that the owner's settings let be served, as the settings have them."""
    kept = []
    for tool in tools:
        setting = found.get(tool.name)
        where = status_of(tool, setting)
        if is_served_unapproved(where, setting):
            logger.warning(
                "The tool %r has changed since it was approved: without DEBUG it would be "
                "withheld until somebody approves it in the admin",
                tool.name,
            )
        elif where is not ToolStatus.SERVED or is_unpinned(tool, setting):
            continue
        kept.append(tool if setting is None else with_settings(tool, setting))
    return kept


def with_settings(tool: Tool, setting: Any) -> Tool:
    """The tool with the owner's words, rate and groups, as it is served when it is."""
    changes: dict[str, Any] = {
        name: getattr(setting, name)
        for name in ("title", "description", "rate")
        if getattr(setting, name)
    }
    if setting.restricted:
        # What everybody may use has no members to tell apart, so that nobody is let in unknown.
        groups = frozenset(group.pk for group in setting.groups.all())
        rule = tool.access
        changes["access"] = AccessRule.of(False, rule.permissions, rule.predicate, groups)
    if setting.confirm and not tool.options.confirm:
        changes["options"] = replace(tool.options, confirm=True)
    return replace(tool, **changes) if changes else tool


def read_settings() -> dict[str, Any]:
    """All settings by the tool's name; two queries."""
    model = _model()
    rows = model.objects.using(router.db_for_write(model)).defer("approved", "note")
    return {setting.name: setting for setting in rows.prefetch_related("groups")}


def sync(tools: Iterable[Tool]) -> None:
    """
    Have a row for each tool, and approve on sight what needs no decision of a person.

    That is every new tool unless NEW_TOOLS is "disabled", and a changed one that needs no approval.
    """
    model = _model()
    using = router.db_for_write(model)
    by_name = {tool.name: tool for tool in tools}
    with transaction.atomic(using):
        rows = model.objects.using(using)
        found = {each.name: each for each in rows.filter(name__in=by_name)}
        missing = [model(name=name) for name in by_name if name not in found]
        on_sight = conf.NEW_TOOLS != "disabled"
        for setting in [*missing, *found.values()]:
            tool = by_name[setting.name]
            seen = fingerprint(canonical_definition(tool))
            known = bool(setting.fingerprint)
            due = not is_changed(tool, setting) if known else on_sight
            if due and setting.fingerprint != seen:
                mark_approved(setting, tool)
                if setting.pk:
                    setting.save(using=using, update_fields=APPROVAL)
        if missing:
            # Another process may have seen the same tools at the same time.
            rows.bulk_create(missing, ignore_conflicts=True)


def mark_approved(setting: Any, tool: Tool, by: Any = None) -> None:
    """Put the tool's definition into its setting as the approved one, without saving it."""
    setting.approved = canonical_definition(tool)
    setting.fingerprint = fingerprint(setting.approved)
    setting.guarded = needs_approval(tool)
    setting.approved_at = timezone.now()
    setting.approved_by = by


def approve_first_seen(tools: Iterable[Tool], found: Mapping[str, Any]) -> bool:
    """
    Write down at once what needs approval and is seen for the first time; whether anything was.

    A later change can only be told from what was written. Where that cannot be, the tool waits.
    """
    if conf.NEW_TOOLS == "disabled":
        return False
    new = [tool for tool in tools if is_unpinned(tool, found.get(tool.name))]
    if not new:
        return False
    try:
        sync(new)
    except DatabaseError:
        names = ", ".join(tool.name for tool in new)
        logger.exception("These tools are withheld, since they cannot be written down: %s", names)
        return False
    return True


def _model() -> Any:
    # Imported by its name: the registry is also used where the app is not installed.
    return cast("Any", apps.get_model("mcp_bridge", "ToolSetting"))

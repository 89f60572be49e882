"""
The status of each tool under the administrators' settings: on, off, or withheld until approved.

An approval is of one definition (see ``mcp_bridge.registry.fingerprints``). A tool that needs
approval is withheld once its definition has changed; one that needs none is approved when it is
seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError, models, router, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, Tool
from mcp_bridge.models import Generation, ToolSetting
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

logger = get_logger("mcp_bridge.approval")

# The fields that an approval writes.
APPROVAL: Final = ("approved", "fingerprint", "guarded", "approved_at", "approved_by")


class ToolStatus(models.TextChoices):
    """Whether a tool is served, and if not, why."""

    SERVED = "served", _("on")
    DISABLED = "disabled", _("off")
    NEW = "new", _("new, waits for approval")
    CHANGED = "changed", _("changed, waits for approval")
    UNBUILT = "unbuilt", _("cannot be made now")
    GONE = "gone", _("no longer there")


def needs_approval(tool: Tool) -> bool:
    """Return whether a changed definition needs approval, as ``confirm`` and the site demand."""
    destructive = tool.annotations.get("destructiveHint", False)
    return tool.options.confirm or (conf.APPROVE_DESTRUCTIVE and destructive)


def is_switched_on(setting: ToolSetting | None) -> bool:
    """Return whether an administrator has made a tool of what nobody has marked."""
    return setting is not None and setting.chosen and setting.enabled


def is_first_seen(tool: Tool, setting: ToolSetting | None) -> bool:
    """Return whether the tool needs approval and no definition of it was approved so far."""
    return needs_approval(tool) and (setting is None or not setting.fingerprint)


def is_changed(tool: Tool, setting: ToolSetting) -> bool:
    """Return whether the definition is not the approved one, and needs or needed approval."""
    guarded = setting.guarded or needs_approval(tool)
    return guarded and setting.fingerprint != fingerprint(canonical_definition(tool))


def status_of(tool: Tool | None, setting: ToolSetting | None) -> ToolStatus:
    """Return the status of a tool of the code (None if it is gone) with its settings, if any."""
    if tool is None:
        return ToolStatus.GONE
    if not (tool.is_marked or is_switched_on(setting)):
        return ToolStatus.DISABLED
    if setting is None or not setting.fingerprint:
        if conf.NEW_TOOLS == "disabled":
            return ToolStatus.NEW
    elif is_changed(tool, setting):
        return ToolStatus.CHANGED
    return ToolStatus.SERVED if setting is None or setting.enabled else ToolStatus.DISABLED


def is_served_unapproved(status: ToolStatus, setting: ToolSetting | None) -> bool:
    """Return whether a tool has changed and is served all the same, since DEBUG is on."""
    enabled = setting is not None and setting.enabled
    return status is ToolStatus.CHANGED and settings.DEBUG and enabled


def served_tools(
    tools: Iterable[Tool], found: Mapping[str, ToolSetting], statuses: Mapping[str, ToolStatus]
) -> list[Tool]:
    """Return the tools that are served, with their settings; both mappings are by name."""
    kept = []
    for tool in tools:
        setting, status = found.get(tool.name), statuses[tool.name]
        if is_served_unapproved(status, setting):
            logger.warning(
                "The tool %r has changed since it was approved: without DEBUG it would be "
                "withheld until somebody approves it in the admin",
                tool.name,
            )
        elif status is not ToolStatus.SERVED or is_first_seen(tool, setting):
            continue
        kept.append(tool if setting is None else with_settings(tool, setting))
    return kept


def with_settings(tool: Tool, setting: ToolSetting) -> Tool:
    """Return the tool with the texts, rate, groups, scopes and confirmation of its settings."""
    texts = {name: getattr(setting, name) for name in ("title", "description", "rate")}
    changes: dict[str, Any] = {name: text for name, text in texts.items() if text}
    rule, groups = tool.access, None
    scopes = tuple(dict.fromkeys((*rule.scopes, *setting.scopes.split())))
    if setting.restricted:
        groups = frozenset(group.pk for group in setting.groups.all())
    if groups is not None or scopes != rule.scopes:
        # Then it is never public: an anonymous caller is in no group and has no scope.
        changes["access"] = AccessRule.of(False, rule.permissions, rule.predicate, groups, scopes)
    if setting.confirm and not tool.options.confirm:
        changes["options"] = replace(tool.options, confirm=True)
    return replace(tool, **changes) if changes else tool


def read_settings() -> dict[str, ToolSetting]:
    """Return all tool settings by the tool's name; two queries."""
    rows = ToolSetting.objects.using(router.db_for_write(ToolSetting)).defer("approved", "note")
    return {setting.name: setting for setting in rows.prefetch_related("groups")}


def sync_tool_settings(tools: Iterable[Tool]) -> None:
    """
    Create the rows that are missing, and approve the definitions that need no administrator.

    These are first ones unless NEW_TOOLS is "disabled", and changes of tools that need no approval.
    Raises DatabaseError.
    """
    using = router.db_for_write(ToolSetting)
    by_name = {tool.name: tool for tool in tools}
    with transaction.atomic(using):
        Generation.lock(using)
        rows = ToolSetting.objects.using(using)
        found = {setting.name: setting for setting in rows.filter(name__in=by_name)}
        missing = [ToolSetting(name=name) for name in by_name if name not in found]
        for setting in [*missing, *found.values()]:
            tool = by_name[setting.name]
            if setting.fingerprint == fingerprint(canonical_definition(tool)):
                continue
            if status_of(tool, setting) not in (ToolStatus.NEW, ToolStatus.CHANGED):
                mark_approved(setting, tool)
                if setting.pk:
                    setting.save(using=using, update_fields=APPROVAL)
        if missing:
            # Another process may have seen the same tools at the same time.
            rows.bulk_create(missing, ignore_conflicts=True)


def mark_approved(setting: ToolSetting, tool: Tool, by: Any = None) -> None:
    """Put the definition into the settings as approved ``by`` a user, without saving them."""
    setting.approved = canonical_definition(tool)
    setting.fingerprint = fingerprint(setting.approved)
    setting.guarded = needs_approval(tool)
    setting.approved_at = timezone.now()
    setting.approved_by = by


def first_seen(tools: Iterable[Tool], found: Mapping[str, ToolSetting]) -> tuple[Tool, ...]:
    """Return the tools that need approval, are seen for the first time, and are approved as new."""
    if conf.NEW_TOOLS == "disabled":
        return ()
    return tuple(tool for tool in tools if is_first_seen(tool, found.get(tool.name)))


def approve_first_seen(tools: Iterable[Tool]) -> bool:
    """
    Approve tools that are seen for the first time; return whether that was possible.

    A later change can only be noticed against a recorded definition: a tool that cannot be recorded
    is withheld, and its name is logged.
    """
    try:
        sync_tool_settings(tools)
    except DatabaseError:
        names = ", ".join(tool.name for tool in tools)
        logger.exception("These tools are withheld, since they cannot be written down: %s", names)
        return False
    return True

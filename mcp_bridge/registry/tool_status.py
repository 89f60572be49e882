"""
The status of each feature under the administrators' settings: enabled, disabled or pending.

An approval applies to one definition. A changed definition is withheld if it needs approval, else
approved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from django.conf import settings
from django.db import models, router, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, AnyFeature, Feature, Key
from mcp_bridge.models import Generation, ToolSetting
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

logger = get_logger("mcp_bridge.approval")

# The fields that an approval writes.
APPROVAL: Final = ("approved", "fingerprint", "guarded", "approved_at", "approved_by")


class ToolStatus(models.TextChoices):
    """Whether a feature is served, and if not, why."""

    SERVED = "served", _("enabled")
    DISABLED = "disabled", _("disabled")
    NEW = "new", _("new, pending approval")
    CHANGED = "changed", _("changed, pending approval")
    UNBUILT = "unbuilt", _("cannot be built now")
    GONE = "gone", _("no longer exists")


def needs_approval(feature: Feature) -> bool:
    """Return whether changed definitions need approval, by their origin and settings."""
    is_guarded = feature.is_foreign or feature.options.confirm
    return is_guarded or (conf.APPROVE_DESTRUCTIVE and feature.is_destructive)


def is_switched_on(setting: ToolSetting | None) -> bool:
    """Return whether an administrator has enabled a candidate."""
    return setting is not None and setting.chosen and setting.enabled


def is_first_seen(feature: Feature, setting: ToolSetting | None) -> bool:
    """Return whether it needs approval and none of its definitions was approved yet."""
    return needs_approval(feature) and (setting is None or not setting.fingerprint)


def is_changed(feature: Feature, setting: ToolSetting) -> bool:
    """Return whether the definition is not the approved one, and needs or needed approval."""
    guarded = setting.guarded or needs_approval(feature)
    return guarded and setting.fingerprint != fingerprint(canonical_definition(feature))


def status_of(feature: Feature | None, setting: ToolSetting | None) -> ToolStatus:
    """Return the status of a feature of the code (None if it is gone) with its settings, if any."""
    if feature is None:
        return ToolStatus.GONE
    if not (feature.is_marked or is_switched_on(setting)):
        return ToolStatus.DISABLED
    if setting is None or not setting.fingerprint:
        if conf.NEW_TOOLS == "disabled":
            return ToolStatus.NEW
    elif is_changed(feature, setting):
        return ToolStatus.CHANGED
    return ToolStatus.SERVED if setting is None or setting.enabled else ToolStatus.DISABLED


def is_served_unapproved(feature: Feature, status: ToolStatus, setting: ToolSetting | None) -> bool:
    """Return whether a feature that the site changed is served anyway because DEBUG is on."""
    enabled = setting is not None and setting.enabled and not feature.is_foreign
    return status is ToolStatus.CHANGED and settings.DEBUG and enabled


def served(
    features: Iterable[Feature],
    found: Mapping[Key, ToolSetting],
    statuses: Mapping[Key, ToolStatus],
) -> list[Feature]:
    """Return the features that are served, with their settings."""
    kept = []
    for feature in features:
        setting, status = found.get(feature.key), statuses[feature.key]
        if is_served_unapproved(feature, status, setting):
            logger.warning(
                "The %s %r has changed since it was approved: without DEBUG it would be "
                "withheld until it is approved in the admin",
                *feature.key,
            )
        elif status is not ToolStatus.SERVED or is_first_seen(feature, setting):
            continue
        kept.append(feature if setting is None else with_settings(feature, setting))
    return kept


def with_settings(feature: AnyFeature, setting: ToolSetting) -> AnyFeature:
    """Return the feature with the texts, access, rate and options of its settings."""
    texts = {name: getattr(setting, name) for name in ("title", "description", "rate")}
    changes: dict[str, Any] = {name: text for name, text in texts.items() if text}
    rule, groups = feature.access, None
    scopes = tuple(dict.fromkeys((*rule.scopes, *setting.scopes.split())))
    if setting.restricted:
        groups = frozenset(group.pk for group in setting.groups.all())
    if groups is not None or scopes != rule.scopes:
        # Never public: anonymous callers do not have groups or scopes.
        changes["access"] = AccessRule.of(False, rule.permissions, rule.predicate, groups, scopes)
    if setting.confirm and not feature.options.confirm:
        changes["options"] = replace(feature.options, confirm=True)
    if setting.never_task and feature.options.task not in (False, "required"):
        changes["options"] = replace(changes.get("options", feature.options), task=False)
    return replace(feature, **changes) if changes else feature


def read_settings() -> dict[Key, ToolSetting]:
    """Return the settings of all features; two queries."""
    rows = ToolSetting.objects.using(router.db_for_write(ToolSetting)).defer("approved", "note")
    return {setting.key: setting for setting in rows.prefetch_related("groups")}


def sync_tool_settings(features: Iterable[Feature]) -> None:
    """Create missing rows, and approve definitions that need no approval. Raises DatabaseError."""
    # These are new tools unless NEW_TOOLS is "disabled", and changes that need no approval.
    using = router.db_for_write(ToolSetting)
    by_key = {feature.key: feature for feature in features}
    with transaction.atomic(using):
        Generation.lock(using)
        rows = ToolSetting.objects.using(using)
        names = {name for _, name in by_key}
        found = {each.key: each for each in rows.filter(name__in=names) if each.key in by_key}
        missing = [ToolSetting(kind=key[0], name=key[1]) for key in by_key if key not in found]
        for setting in [*missing, *found.values()]:
            feature = by_key[setting.key]
            if setting.fingerprint == fingerprint(canonical_definition(feature)):
                continue
            if status_of(feature, setting) not in (ToolStatus.NEW, ToolStatus.CHANGED):
                mark_approved(setting, feature)
                if setting.pk:
                    setting.save(using=using, update_fields=APPROVAL)
        if missing:
            # Another process may create the same rows at the same time.
            rows.bulk_create(missing, ignore_conflicts=True)


def mark_approved(setting: ToolSetting, feature: Feature, by: Any = None) -> None:
    """Set the definition as approved ``by`` a user, without saving the settings."""
    setting.approved = canonical_definition(feature)
    setting.fingerprint = fingerprint(setting.approved)
    setting.guarded = needs_approval(feature)
    setting.approved_at = timezone.now()
    setting.approved_by = by

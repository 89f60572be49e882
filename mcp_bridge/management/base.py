"""Helpers of the commands: checks of migrations, users by name, durations, missing tools."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final, Literal

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.core import checks
from django.core.management.base import BaseCommand, CommandError

from mcp_bridge.access.policy import Refusal, context_for, lacking, refusals
from mcp_bridge.checks.deployment import missing_tables
from mcp_bridge.checks.procedures import NOT_REGISTERED, lost_marks
from mcp_bridge.checks.settings import check_settings, did_you_mean
from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, key_of
from mcp_bridge.registry.discovery import make_source
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.sources.base import Source, first_line
from mcp_bridge.sources.marked import location

_DURATION: Final = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LONGEST: Final = timedelta(days=36_500)
_WITHHELD: Final = {
    ToolStatus.DISABLED: "It is disabled in the admin.",
    ToolStatus.NEW: "It is new and pending approval in the admin.",
    ToolStatus.CHANGED: "It has changed and is pending approval: its definition differs from the "
    "approved one; an administrator can approve it in the admin.",
    ToolStatus.SERVED: "Its definition cannot be serialised, so changes would go unnoticed: see "
    "the log.",
}
_CANDIDATE: Final = (
    "It is a candidate, disabled until an administrator enables it in the admin, under Tools."
)


class TablesCommand(BaseCommand):
    """A command that needs the tables of this package."""

    requires_migrations_checks = True
    # A broken tool must not prevent an administrator from revoking a token.
    requires_system_checks: tuple[str, ...] | Literal["__all__"] = ()

    def warn_of_settings(self) -> None:
        """Print errors in the setting MCP_BRIDGE, since system checks do not run."""
        for each in check_settings():
            self.stderr.write(self.style.WARNING(f"{each.id}: {each.msg}"))

    def check_migrations(self) -> None:
        """
        Raise CommandError if a migration of this package is unapplied, or if none can be read.

        Django's own check prints a notice to stdout, which others parse, and continues.
        """
        if text := missing_tables():
            raise CommandError(text)


def named_user(name: str) -> AbstractBaseUser:
    """Return the user with that login name. Raises CommandError if there is none."""
    users = get_user_model()
    try:
        return users._default_manager.get_by_natural_key(name)
    except users.DoesNotExist:
        raise CommandError(f"Unknown user {name!r}.") from None


def check_names(noun: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise CommandError for the first unknown name."""
    for name in names:
        if name not in known:
            raise CommandError(f"Unknown {noun} {name!r}.{did_you_mean(name, known)}")


def duration(text: str) -> timedelta:
    """Return the duration of a text such as "90d". Raises CommandError for an invalid one."""
    match = _DURATION.fullmatch(text)
    length = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else _LONGEST
    if length >= _LONGEST:
        raise CommandError(
            f"Invalid duration {text!r}: use a number and one of s, m, h, d, w, such as 90d."
        )
    return length


def named_source(alias: str) -> Source:
    """Return the source of an entry of SOURCES. Raises CommandError if it is unusable."""
    check_names("source", [alias], conf.sources)
    try:
        return make_source(alias)
    except Exception as exception:
        # Importing a source's module may raise anything.
        raise CommandError(
            f"MCP_BRIDGE['SOURCES'][{alias!r}] cannot be used: {first_line(exception)}."
        ) from exception


def why_missing(label: str, user: AbstractBaseUser | AnonymousUser) -> str | None:
    """Return in one line why the user may not call a feature; None if they may."""
    discovered, served = registry.discovered, registry.snapshot
    if label not in discovered.by_label and (meant := discovered.called("resource", label)[0]):
        label = meant.label
    if label in served.by_label:
        feature = served.by_label[label]
        refusal = refusals([feature], context_for(user))[label]
        return None if refusal is None else _words(refusal, feature.access, user)
    if label in discovered.by_label:
        return _WITHHELD[registry.statuses[key_of(label)]]
    name = key_of(label)[1]
    if name in discovered.candidates:
        reason = registry.errors.get(name)
        return f"It is a candidate that cannot be built now: {reason}." if reason else _CANDIDATE
    # Errors first: a warning may also name the tool.
    for message in sorted(discovered.messages, key=lambda each: -each.level):
        # The name as a whole word, with or without quotation marks.
        is_named = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", message.msg)
        if message.level >= checks.WARNING and is_named:
            return f"{message.id}: {message.msg}"
    for function in lost_marks():
        if name == function.__name__:
            return f"The function {name} ({location(function)}) {NOT_REGISTERED}."
    known = did_you_mean(label, discovered.by_label)
    return f"No marked and registered function has this name or URI.{known}"


def _words(refusal: Refusal, rule: AccessRule, user: AbstractBaseUser | AnonymousUser) -> str:
    """Return the sentence on the unmet part of a rule, or on the policy."""
    name = user.get_username() or "anonymous callers"
    match refusal:
        case "policy":
            return f"The policy {conf.ACCESS_POLICY} (ACCESS_POLICY) refuses {name}."
        case "authenticated":
            return "It is not public: pass --user."
        case "active":
            return f"{name} is not active."
        case "groups":
            groups = Group.objects.filter(pk__in=rule.groups or ()).order_by("name")
            if not groups:
                return "It is restricted to groups, but none is selected: all calls are refused."
            listed = _listed("group", [group.name for group in groups])
            return f"It is restricted to the {listed}; {name} is not a member."
        case "permissions":
            return f"{name} lacks the {_listed('permission', [*lacking(user, rule.permissions)])}."
        case "scopes":
            return f"The credential lacks one of the scopes {' '.join(rule.scopes)}."
        case "predicate":
            return f"An access rule in code refuses {name}."


def _listed(noun: str, names: list[str]) -> str:
    return f"{noun}{'s' * (len(names) > 1)} {' and '.join(names)}"

"""Why a tool is missing, for the person at the terminal: a client only reads that it is unknown."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.core import checks

from mcp_bridge.access.policy import AccessPolicy, context_for, lacking, load_policy
from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus

_WITHHELD: Final = {
    ToolStatus.DISABLED: "It is switched off in the admin.",
    ToolStatus.NEW: "It is new, waits for approval: an administrator approves it in the admin.",
    ToolStatus.CHANGED: "It is changed, waits for approval: its definition is not the one that was "
    "approved; an administrator approves it in the admin.",
    ToolStatus.SERVED: "It cannot be written down, without which a change could not be noticed: "
    "the log says why.",
}


def why_missing(name: str, user: AbstractBaseUser | AnonymousUser) -> str | None:
    """Return in one line why the user may not call a tool of that name, or None for one who may."""
    discovered, served = registry.discovered, registry.snapshot
    if name in served.tools:
        policy, tool, context = load_policy(), served.tools[name], context_for(user)
        if policy.allows(tool, context):
            return None
        return _why_refused(tool.access, user) or (
            f"The procedure's own auth refuses {_named(user)}."
            if tool.access.predicate and not AccessPolicy().allows(tool, context_for(user))
            else f"The policy {conf.ACCESS_POLICY} (ACCESS_POLICY) refuses {_named(user)}."
        )
    if name in discovered.tools:
        return _WITHHELD[registry.statuses[name]]
    for message in discovered.messages:
        # The name as a word of its own, with or without quotation marks.
        is_named = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", message.msg)
        if message.level >= checks.ERROR and is_named:
            return f"{message.id}: {message.msg}"
    close = get_close_matches(name, discovered.tools, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    return f"No registered procedure with a mark makes a tool of that name.{meant}"


def _why_refused(rule: AccessRule, user: AbstractBaseUser | AnonymousUser) -> str | None:
    """Return which part of a rule the user does not meet; None where it is the predicate."""
    if rule.public:
        return None
    if not user.is_authenticated:
        return "It is not public: name a user with --user."
    if not user.is_active:
        return f"{_named(user)} is not active."
    if rule.groups is not None:
        own = getattr(user, "groups", Group.objects.none())
        if rule.groups.isdisjoint(own.values_list("pk", flat=True)):
            groups = Group.objects.filter(pk__in=rule.groups).order_by("name")
            if not groups:
                return "It is limited to groups, and none is named: nobody may call it."
            listed = _listed("group", [group.name for group in groups])
            return f"It is limited to the {listed}, and {_named(user)} is in none."
    names = list(lacking(user, rule.permissions))
    return f"{_named(user)} lacks the {_listed('permission', names)}." if names else None


def _listed(noun: str, names: list[str]) -> str:
    return f"{noun}{'s' * (len(names) > 1)} {' and '.join(names)}"


def _named(user: AbstractBaseUser | AnonymousUser) -> str:
    return user.get_username() or "anonymous callers"

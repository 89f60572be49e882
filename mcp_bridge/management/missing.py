"""Why a tool is missing, for the person at the terminal: a client only reads that it is unknown."""

from __future__ import annotations

import re
from typing import Final

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.core import checks

from mcp_bridge.access.policy import Refusal, context_for, lacking, refusals
from mcp_bridge.checks.procedures import NOT_REGISTERED, lost_marks
from mcp_bridge.checks.settings import did_you_mean
from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, Tool
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.sources.marked import location

_WITHHELD: Final = {
    ToolStatus.DISABLED: "It is switched off in the admin.",
    ToolStatus.NEW: "It is new, waits for approval: an administrator approves it in the admin.",
    ToolStatus.CHANGED: "It is changed, waits for approval: its definition is not the one that was "
    "approved; an administrator approves it in the admin.",
    ToolStatus.SERVED: "It cannot be written down, without which a change could not be noticed: "
    "the log says why.",
}
_CANDIDATE: Final = (
    "It is a candidate, off until an administrator switches it on in the admin, under Tools."
)


def why_missing(name: str, user: AbstractBaseUser | AnonymousUser) -> str | None:
    """Return in one line why the user may not call a tool of that name, or None for one who may."""
    discovered, served = registry.discovered, registry.snapshot
    if name in served.tools:
        tool = served.tools[name]
        refusal = refusals([tool], context_for(user))[name]
        return None if refusal is None else _words(refusal, tool.access, user)
    if name in discovered.tools:
        return _WITHHELD[registry.statuses[Tool.kind, name]]
    if name in discovered.candidates:
        reason = registry.errors.get(name)
        return f"It is a candidate that can be no tool now: {reason}." if reason else _CANDIDATE
    # Errors first: a warning may also name the tool.
    for message in sorted(discovered.messages, key=lambda each: -each.level):
        # The name as a word of its own, with or without quotation marks.
        is_named = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", message.msg)
        if message.level >= checks.WARNING and is_named:
            return f"{message.id}: {message.msg}"
    for function in lost_marks():
        if name == function.__name__:
            return f"The function {name} ({location(function)}) {NOT_REGISTERED}."
    meant = did_you_mean(name, discovered.tools)
    return f"No registered procedure with a mark makes a tool of that name.{meant}"


def _words(refusal: Refusal, rule: AccessRule, user: AbstractBaseUser | AnonymousUser) -> str:
    """Return the sentence on the part of a rule that the user does not meet, or on the policy."""
    name = user.get_username() or "anonymous callers"
    match refusal:
        case "policy":
            return f"The policy {conf.ACCESS_POLICY} (ACCESS_POLICY) refuses {name}."
        case "authenticated":
            return "It is not public: name a user with --user."
        case "active":
            return f"{name} is not active."
        case "groups":
            groups = Group.objects.filter(pk__in=rule.groups or ()).order_by("name")
            if not groups:
                return "It is limited to groups, and none is named: nobody may call it."
            listed = _listed("group", [group.name for group in groups])
            return f"It is limited to the {listed}, and {name} is in none."
        case "permissions":
            return f"{name} lacks the {_listed('permission', [*lacking(user, rule.permissions)])}."
        case "scopes":
            return f"The credential lacks one of the scopes {' '.join(rule.scopes)}."
        case "predicate":
            return f"The code's own rule refuses {name}."


def _listed(noun: str, names: list[str]) -> str:
    return f"{noun}{'s' * (len(names) > 1)} {' and '.join(names)}"

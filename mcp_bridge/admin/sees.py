"""What a user, a group's members, or callers who are not signed in see; and why not the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import get_text_list
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.access.authentication import is_accepted
from mcp_bridge.access.policy import (
    Refusal,
    context_for,
    has_own_policy,
    lacking,
    refusals,
    unmet,
)
from mcp_bridge.admin.audience import NAMED, permission_titles, quoted
from mcp_bridge.admin.base import Context, may_view_users
from mcp_bridge.admin.entries import Entry, entries
from mcp_bridge.features import AccessRule, Tool
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus

_WORDS: Final = {
    "authenticated": _("It takes signing in."),
    "active": _("This user is not active."),
    "scopes": _("The client lacks a scope."),
    "predicate": _("The tool's own rule, in the site's program, says no."),
    "policy": _("The site's own rule for all tools (ACCESS_POLICY) says no."),
}
_NOT_SERVED: Final = {
    ToolStatus.SERVED: _("It cannot be recorded, and is withheld: the site's log says why."),
    ToolStatus.DISABLED: _("It is off."),
    ToolStatus.NEW: _("It is new, and waits for approval."),
    ToolStatus.CHANGED: _("It has changed, and waits for approval."),
    ToolStatus.UNBUILT: _("It cannot be made a tool now."),
}
_OWN_RULE: Final = _("The tool's own rule, in the site's program, may refuse some.")
_OWN_POLICY: Final = _("The site's own rule for all tools (ACCESS_POLICY) may refuse some.")


class Answer(NamedTuple):
    """Whether somebody sees a tool, and why not; or what else decides, where it is a yes."""

    entry: Entry
    sees: bool
    reason: str


class Member:
    """Any member of a group who has nothing else, as the rules ask a user."""

    is_authenticated = is_active = True
    is_anonymous = is_staff = is_superuser = False
    pk = id = None

    def __init__(self, group: Group) -> None:
        self.groups = Group.objects.filter(pk=group.pk)
        rows = Permission.objects.filter(group=group)
        self._granted = {
            f"{label}.{codename}"
            for label, codename in rows.values_list("content_type__app_label", "codename")
        }

    def has_perm(self, name: str) -> bool:
        return name in self._granted


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Whose tools are shown: a user, a group, or with neither callers who are not signed in."""

    user: Any = None
    group: Group | None = None

    @property
    def name(self) -> str:
        if self.group is not None:
            return gettext("A member of %(group)s") % {"group": self.group}
        return str(self.user.get_username()) if self.user else gettext("Nobody signed in")

    @property
    def is_accepted(self) -> bool:
        return self.user is None or is_accepted(self.user)

    @property
    def is_asked_further(self) -> bool:
        """Whether the site's own policy decides about each member of the group besides."""
        return self.group is not None and has_own_policy()

    def answers(self) -> list[Answer]:
        """Return the answers of all tools that there are, those with a yes first."""
        caller: Any = Member(self.group) if self.group else self.user or AnonymousUser()
        found = [entry for entry in entries() if entry.status is not ToolStatus.GONE]
        served, statuses = registry.snapshot, registry.statuses
        refused = self._refusals(served, context_for(caller))
        words = Words(caller, [tool.access for tool in served])
        answers = []
        for entry in found:
            name = entry.setting.name
            tool = served.tools.get(name)
            if tool is None:
                reason = str(_NOT_SERVED[statuses.get(name, entry.status)])
                answers.append(Answer(entry, False, reason))
            elif (refusal := refused[name]) is not None:
                answers.append(Answer(entry, False, words.of(refusal, tool.access)))
            else:
                # Code of the site, which is not asked about a group, decides further.
                own = self.group is not None and tool.access.predicate is not None
                caveats = (own, _OWN_RULE), (self.is_asked_further, _OWN_POLICY)
                reason = " ".join(str(text) for is_so, text in caveats if is_so)
                answers.append(Answer(entry, True, reason))
        return sorted(answers, key=lambda answer: not answer.sees)

    def _refusals(self, tools: Iterable[Tool], context: Any) -> Mapping[str, Refusal | None]:
        if not self.is_accepted:
            return {tool.name: "active" for tool in tools}
        if self.group is None:
            return refusals(tools, context)
        found = {}
        for tool in tools:
            rule = tool.access
            needs = rule.public, rule.permissions, None, rule.groups, rule.scopes
            found[tool.name] = unmet(replace(tool, access=AccessRule.of(*needs)), context)
        return found


class Words:
    """Why a caller may not use tools with these rules, in words; at most two queries."""

    def __init__(self, caller: Any, rules: list[AccessRule]) -> None:
        self._caller = caller
        self._titles = permission_titles(name for rule in rules for name in rule.permissions)
        limits = {key for rule in rules for key in rule.groups or ()}
        self._groups = dict(Group.objects.filter(pk__in=limits).values_list("pk", "name"))

    def of(self, refusal: Refusal, rule: AccessRule) -> str:
        """Return the sentences on a refusal, and on what would be missing besides."""
        if refusal not in ("groups", "permissions"):
            return str(_WORDS[refusal])
        found = []
        if refusal == "groups":
            names = sorted(self._groups[key] for key in rule.groups or () if key in self._groups)
            if not names:
                return gettext("It is limited to groups, and none is chosen: nobody sees it.")
            listed = get_text_list(names, gettext("or"))
            found.append(gettext("Not in %(groups)s.") % {"groups": listed})
        if missing := [*lacking(self._caller, rule.permissions)]:
            lacks = quoted(self._titles[name] for name in missing)
            found.append(gettext("Lacks %(permissions)s.") % {"permissions": lacks})
        return " ".join(found)


def seen(request: HttpRequest) -> Context:
    """
    Return whose tools an address asks for: "user" and "group" are primary keys, "q" part of a name.

    If several have such a name, return the first of them by name instead, NAMED at most. Raises
    PermissionDenied for those who may not view users.
    """
    if not may_view_users(request):
        raise PermissionDenied
    asked = request.GET
    model, name = get_user_model(), get_user_model().USERNAME_FIELD
    users, groups = model._default_manager.order_by(name), Group.objects.order_by("name")
    term = asked.get("q", "").strip()
    user, group = _with_key(users, asked.get("user")), _with_key(groups, asked.get("group"))
    chosen = Chosen(user=user, group=group) if user or group or "nobody" in asked else None
    named: list[Any] = []
    named_groups: list[Group] = []
    if chosen is None:
        if term:
            named = list(users.filter(**{f"{name}__icontains": term})[: NAMED + 1])
            groups = groups.filter(name__icontains=term)
        named_groups = list(groups[: NAMED + 1])
        if term and len(named) + len(named_groups) == 1:
            chosen = Chosen(user=next(iter(named), None), group=next(iter(named_groups), None))
    answers = chosen.answers() if chosen else []
    return {
        "title": gettext("What a user sees"),
        "term": term,
        "chosen": chosen,
        "users": named[:NAMED],
        "groups": named_groups[:NAMED],
        "more": max(len(named), len(named_groups)) > NAMED,
        "answers": answers,
        "seen": sum(answer.sees for answer in answers),
    }


def _with_key(rows: QuerySet[Any], key: str | None) -> Any:
    """Return the row with a primary key as an address has it, or None."""
    try:
        return rows.filter(pk=key).first() if key else None
    except (ValueError, ValidationError):
        return None

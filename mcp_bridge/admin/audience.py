"""Who may see a tool, counted from Django's tables; what a user sees, and why tools are hidden."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import get_text_list
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.access.authentication import is_accepted
from mcp_bridge.access.policy import context_for, has_own_policy, lacking, refusals, unmet
from mcp_bridge.admin.base import Context, cell, may_view_users, with_key
from mcp_bridge.admin.entries import Entry, entries
from mcp_bridge.features import AccessRule
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus

# The most users that a page names.
NAMED: Final = 20
# The most groups that a line names.
_GROUPS: Final = 3
_NEEDED: Final = {"is_superuser", "groups", "user_permissions"}
# The titles of Django's default permissions.
_STANDARD: Final = {
    "add": _("Can add %(model)s"),
    "change": _("Can change %(model)s"),
    "delete": _("Can delete %(model)s"),
    "view": _("Can view %(model)s"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """
    The users who meet a rule. ``users`` are primary keys of active users; None for all of them.

    ``count`` is their number, or None if the user model does not have permissions. ``groups`` are
    the names of groups whose members all qualify. ``further`` says that code decides too.
    """

    public: bool = False
    users: frozenset[object] | None = None
    count: int | None = None
    groups: tuple[str, ...] = ()
    further: bool = False

    @property
    def is_every_user(self) -> bool:
        """Whether the rule requires only a login."""
        return not self.public and self.users is None and self.count is not None

    def __str__(self) -> str:
        if self.public:
            counted = gettext("everyone, signed in or not")
        elif self.count is None:
            return "—"
        else:
            counted = ngettext("%(count)d person", "%(count)d people", self.count)
            counted %= {"count": self.count}
            if self.is_every_user:
                counted = gettext("every user (%(users)s)") % {"users": counted}
            elif self.groups:
                names, more = ", ".join(self.groups[:_GROUPS]), len(self.groups) - _GROUPS
                if more > 0:
                    text = ngettext(
                        "%(names)s and %(count)d more group",
                        "%(names)s and %(count)d more groups",
                        more,
                    )
                    names = text % {"names": names, "count": more}
                counted = f"{names}; {counted}"
        return gettext("at most %(counted)s") % {"counted": counted} if self.further else counted


class Audiences:
    """The audiences of several rules; at most six queries in total."""

    def __init__(self, rules: Iterable[AccessRule]) -> None:
        fields = {field.name for field in get_user_model()._meta.get_fields()}
        self._is_known = fields >= _NEEDED
        self._further = has_own_policy()
        rules = set(rules)
        if not self._is_known or not rules:
            return
        users = active_users()
        self._total = users.count()
        superusers = set(users.filter(is_superuser=True).values_list("pk", flat=True))
        asked = {name for rule in rules for name in rule.permissions}
        granted = list(_permissions(asked, "pk", "group"))
        groups = {key for rule in rules for key in rule.groups or ()}
        groups |= {group for _name, _key, group in granted} - {None}
        self._names = dict(Group.objects.filter(pk__in=groups).values_list("pk", "name"))
        self._members: defaultdict[object, set[object]] = defaultdict(set)
        for user, group in users.filter(groups__in=groups).values_list("pk", "groups"):
            self._members[group].add(user)
        # Primary keys of the groups and of the users with each permission.
        self._groups: dict[str, set[object]] = {name: set() for name in asked}
        self._users: dict[str, set[object]] = {name: set(superusers) for name in asked}
        for name, _key, group in granted:
            self._groups[name] |= {group} - {None}
            self._users[name] |= self._members[group]
        names = {key: name for name, key, _group in granted}
        direct = users.filter(user_permissions__in=names)
        for user, key in direct.values_list("pk", "user_permissions"):
            self._users[names[key]].add(user)

    def of(self, rule: AccessRule) -> Audience:
        """Return the audience of one of the rules."""
        further = self._further or rule.predicate is not None
        if rule.public or not self._is_known:
            return Audience(public=rule.public, further=further)
        # The groups whose members all meet each condition, and all users who do.
        limits = [(self._groups[name], self._users[name]) for name in rule.permissions]
        if rule.groups is not None:
            members = set().union(*(self._members[group] for group in rule.groups))
            limits.append((set(rule.groups), members))
        if not limits:
            return Audience(count=self._total, further=further)
        groups, users = (set.intersection(*each) for each in zip(*limits, strict=True))
        names = sorted(self._names[group] for group in groups & self._names.keys())
        return Audience(
            users=frozenset(users), count=len(users), groups=tuple(names), further=further
        )


def active_users() -> QuerySet[Any]:
    """Return the active users, ordered by name."""
    model = get_user_model()
    users: QuerySet[Any] = model._default_manager.order_by(model.USERNAME_FIELD)
    has_field = any(field.name == "is_active" for field in model._meta.get_fields())
    return users.filter(is_active=True) if has_field else users


def named(audience: Audience) -> list[tuple[object, str]]:
    """Return primary keys and names of the first NAMED users of an audience, by name."""
    rows = active_users().values_list("pk", get_user_model().USERNAME_FIELD).iterator()
    chosen = (row for row in rows if audience.users is None or row[0] in audience.users)
    return list(islice(chosen, NAMED)) if audience.count else []


def permission_title(action: str, meta: Any) -> str:
    """Return the title of Django's permission for an action: "Can delete article"."""
    return str(_STANDARD[action]) % {"model": meta.verbose_name}


def permission_titles(names: Iterable[str]) -> dict[str, str]:
    """Return permission titles by name, in the reader's language; at most one query."""
    titles = {name: name for name in names}
    for name, model, stored in _permissions(titles, "content_type__model", "name"):
        titles[name] = stored
        label, _dot, codename = name.partition(".")
        action = codename.partition("_")[0]
        with suppress(LookupError):
            meta = apps.get_model(label, model)._meta
            # Django stores the untranslated title; a site may have changed it since.
            if action in _STANDARD and stored == f"Can {action} {meta.verbose_name_raw}":
                titles[name] = permission_title(action, meta)
    return titles


def _permissions(asked: Collection[str], *fields: str) -> Iterator[Any]:
    """Yield the names of existing permissions, each with the values of some fields."""
    if not asked:
        return
    rows = Permission.objects.filter(codename__in={name.partition(".")[2] for name in asked})
    for label, codename, *values in rows.values_list(
        "content_type__app_label", "codename", *fields
    ):
        if (name := f"{label}.{codename}") in asked:
            yield name, *values


def quoted(titles: Iterable[str]) -> str:
    """Return permission titles as one text: “Can add user” and “Can view group”."""
    names = [gettext("“%(name)s”") % {"name": title} for title in titles]
    return get_text_list(names, gettext("and"))


def who_may(rules: Collection[AccessRule]) -> dict[AccessRule, str]:
    """Return who meets each rule, in words; at most one query."""
    titles = permission_titles(name for rule in rules for name in rule.permissions)
    found: dict[AccessRule, str] = {}
    for rule in rules:
        names = quoted(titles[name] for name in rule.permissions)
        shown = {"public": rule.public, "permissions": names, "further": rule.predicate is not None}
        found[rule] = cell("who_may", shown)
    return found


class Answer(NamedTuple):
    """The visibility of a tool for a user, and the reason, or what else may decide."""

    entry: Entry
    sees: bool
    reason: str


class Member:
    """A substitute for a user: a member of a group, without anything else."""

    is_authenticated = is_active = True
    is_anonymous = is_staff = is_superuser = False
    pk = id = None

    def __init__(self, group: Group) -> None:
        self.groups = Group.objects.filter(pk=group.pk)
        granted = Permission.objects.filter(group=group)
        rows = granted.values_list("content_type__app_label", "codename")
        self._granted = {".".join(row) for row in rows}

    def has_perm(self, name: str) -> bool:
        return name in self._granted


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The caller whose tools are shown: a user, a group, or anonymous callers."""

    user: Any = None
    group: Group | None = None

    @property
    def is_accepted(self) -> bool:
        return self.user is None or is_accepted(self.user)

    @property
    def is_asked_further(self) -> bool:
        """Whether the site's own policy also decides for each member of the group."""
        return self.group is not None and has_own_policy()

    def answers(self, only: str = "") -> list[Answer]:
        """Return the answers for all existing tools, visible ones first, or for one of them."""
        caller: Any = Member(self.group) if self.group else self.user or AnonymousUser()
        found = [entry for entry in entries() if only in ("", entry.setting.label)]
        found = [entry for entry in found if entry.status is not ToolStatus.GONE]
        served, statuses = registry.snapshot.by_label, registry.statuses
        context = context_for(caller)
        refused: Mapping[str, str | None] = dict.fromkeys(served, "active")
        if self.group is not None:
            # Without the tools' own rules, which cannot be applied to a group.
            refused = {
                name: unmet(replace(each, access=replace(each.access, predicate=None)), context)
                for name, each in served.items()
            }
        elif self.is_accepted:
            refused = refusals(served.values(), context)
        rules = [tool.access for tool in served.values()]
        titles = permission_titles(name for rule in rules for name in rule.permissions)
        limits = {key for rule in rules for key in rule.groups or ()}
        groups = dict(Group.objects.filter(pk__in=limits).values_list("pk", "name"))
        answers = []
        for entry in found:
            tool, shown = served.get(entry.setting.label), Context(who=self.user if only else "")
            refusal: str | None = statuses.get(entry.setting.key, entry.status)
            if tool is not None:
                refusal = refused[tool.label]
                names = sorted(groups[key] for key in tool.access.groups or () if key in groups)
                shown |= {
                    "groups": get_text_list(names, gettext("or")),
                    # The site's code is not applied to a group, and may decide otherwise.
                    "own_rule": self.group is not None and tool.access.predicate is not None,
                    "own_policy": self.is_asked_further,
                }
            if tool is not None and refusal in ("groups", "permissions"):
                lacks = lacking(caller, tool.access.permissions)
                shown["permissions"] = quoted(titles[name] for name in lacks)
            reason = cell("reason", {"refusal": refusal, **shown})
            answers.append(Answer(entry, refusal is None, reason))
        return sorted(answers, key=lambda answer: not answer.sees)


def refused_now(request: HttpRequest, record: ToolCallRecord, users: list[Any]) -> Context:
    """Return why a refused caller (of ``users``, or anonymous) cannot use the tool now."""
    # A deleted user is known only by name.
    if not record.tool or not may_view_users(request) or bool(record.user_name) != bool(users):
        return {}
    chosen = Chosen(user=next(iter(users), None))
    return {"chosen": chosen, "now": next(iter(chosen.answers(record.label)), None)}


def seen(request: HttpRequest) -> Context:
    """
    Return the context for a URL: "user" and "group" are primary keys, "q" is part of a name.

    If several names match, return the first NAMED of them. Raises PermissionDenied for those who
    may not view users.
    """
    if not may_view_users(request):
        raise PermissionDenied(get_user_model())
    asked, term = request.GET, request.GET.get("q", "").strip()
    name = get_user_model().USERNAME_FIELD
    users = get_user_model()._default_manager.order_by(name)
    groups = Group.objects.order_by("name")
    user, group = with_key(users, asked.get("user")), with_key(groups, asked.get("group"))
    named_users: list[Any] = []
    named_groups: list[Group] = []
    is_chosen = bool(user or group or "nobody" in asked)
    if not is_chosen:
        if term:
            named_users = list(users.filter(**{f"{name}__icontains": term})[: NAMED + 1])
            groups = groups.filter(name__icontains=term)
        named_groups = list(groups[: NAMED + 1])
        is_chosen = bool(term) and len(named_users) + len(named_groups) == 1
        if is_chosen:
            user, group = next(iter(named_users), None), next(iter(named_groups), None)
    chosen = Chosen(user=user, group=group) if is_chosen else None
    answers = chosen.answers() if chosen else []
    return {
        "title": gettext("Preview as a user"),
        "term": term,
        "chosen": chosen,
        "users": named_users[:NAMED],
        "groups": named_groups[:NAMED],
        "more": max(len(named_users), len(named_groups)) > NAMED,
        "answers": answers,
        "seen": sum(answer.sees for answer in answers),
    }

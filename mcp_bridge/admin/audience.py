"""Who may see a tool, counted from Django's tables of users, groups and permissions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from django.contrib.auth import get_permission_codename, get_user_model
from django.contrib.auth.models import Group, Permission
from django.db.models import QuerySet
from django.utils.module_loading import import_string
from django.utils.translation import gettext, ngettext

from mcp_bridge.access.policy import AccessPolicy
from mcp_bridge.conf import conf
from mcp_bridge.features.tools import AccessRule

# How many users a page names.
NAMED: Final = 20
_NEEDED: Final = {"is_superuser", "groups", "user_permissions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """
    Who meets a rule. ``users`` are primary keys of active users; None where all of them do.

    ``count`` is how many; None where the user model has no permissions to count by. ``groups``
    are the names of those whose members all do. ``further`` is whether code decides as well.
    """

    public: bool = False
    users: frozenset[Any] | None = None
    count: int | None = None
    groups: tuple[str, ...] = ()
    further: bool = False

    def __str__(self) -> str:
        counted = self._counted()
        if self.further and (self.public or self.count is not None):
            return gettext("at most %(counted)s") % {"counted": counted}
        return counted

    def _counted(self) -> str:
        if self.public:
            return gettext("everybody, signed in or not")
        if self.count is None:
            return "—"
        users = ngettext("%d user", "%d users", self.count) % self.count
        if self.users is None:
            return gettext("every user (%(users)s)") % {"users": users}
        if not self.groups:
            return users
        groups = ngettext("%d group", "%d groups", len(self.groups)) % len(self.groups)
        return f"{users}, {groups}"


class Audiences:
    """The audiences of several rules: at most six queries, however many rules there are."""

    def __init__(self, rules: Iterable[AccessRule]) -> None:
        self._rules = set(rules)
        fields = {field.name for field in get_user_model()._meta.get_fields()}
        self._is_known = fields >= _NEEDED
        self._further = import_string(conf.ACCESS_POLICY) is not AccessPolicy
        # By permission, and by group: primary keys of who has it, or is in it.
        self._users_with: defaultdict[str, set[Any]] = defaultdict(set)
        self._groups_with: defaultdict[str, set[Any]] = defaultdict(set)
        self._members: defaultdict[Any, set[Any]] = defaultdict(set)
        if self._is_known:
            self._read()

    def of(self, rule: AccessRule) -> Audience:
        """Who meets one of the rules."""
        further = self._further or rule.predicate is not None
        if rule.public or not self._is_known:
            return Audience(public=rule.public, further=further)
        if not rule.permissions and rule.groups is None:
            return Audience(count=self._total, further=further)
        groups = set(self._names) if rule.groups is None else set(rule.groups)
        users: set[Any] | None = None
        if rule.groups is not None:
            users = self._in_any(rule.groups)
        for permission in rule.permissions:
            holding = self._groups_with[permission]
            holders = self._users_with[permission] | self._in_any(holding) | self._superusers
            users = holders if users is None else users & holders
            groups &= holding
        found = frozenset(users or ())
        names = tuple(sorted(self._names[group] for group in groups if group in self._names))
        return Audience(users=found, count=len(found), groups=names, further=further)

    def _in_any(self, groups: Iterable[Any]) -> set[Any]:
        return set().union(*(self._members[group] for group in groups))

    def _read(self) -> None:
        users = active_users()
        self._total = users.count()
        self._superusers = set(users.filter(is_superuser=True).values_list("pk", flat=True))
        asked = {name for rule in self._rules for name in rule.permissions}
        codenames = {name.partition(".")[2] for name in asked}
        rows = Permission.objects.filter(codename__in=codenames)
        name_of = {}
        for label, codename, key, group in rows.values_list(
            "content_type__app_label", "codename", "pk", "group"
        ):
            if (name := f"{label}.{codename}") in asked:
                name_of[key] = name
                self._groups_with[name] |= set() if group is None else {group}
        direct = users.filter(user_permissions__in=name_of)
        for user, key in direct.values_list("pk", "user_permissions"):
            self._users_with[name_of[key]].add(user)
        groups = {group for rule in self._rules for group in rule.groups or ()}
        groups = groups.union(*self._groups_with.values())
        self._names = dict(Group.objects.filter(pk__in=groups).values_list("pk", "name"))
        for user, group in users.filter(groups__in=groups).values_list("pk", "groups"):
            self._members[group].add(user)


def active_users() -> QuerySet[Any]:
    """The users that can be allowed anything, ordered by name."""
    model = get_user_model()
    stored = {field.name for field in model._meta.get_fields()}
    users: QuerySet[Any] = model._default_manager.order_by(model.USERNAME_FIELD)
    return users.filter(is_active=True) if "is_active" in stored else users


def named(audience: Audience) -> list[tuple[Any, str]]:
    """The first users of an audience by name, NAMED at most: primary key and name."""
    if not audience.count:
        return []
    rows = active_users().values_list("pk", get_user_model().USERNAME_FIELD).iterator()
    chosen = (row for row in rows if audience.users is None or row[0] in audience.users)
    return list(islice(chosen, NAMED))


def may_view_users(viewer: Any) -> bool:
    """Whether somebody may look at the site's users."""
    meta = get_user_model()._meta
    names = [get_permission_codename(action, meta) for action in ("view", "change")]
    return any(viewer.has_perm(f"{meta.app_label}.{name}") for name in names)

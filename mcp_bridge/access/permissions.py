"""Permissions of users, from the site's authentication backends, queried once per request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Final, Literal, TypeAlias

from django.contrib import auth
from django.contrib.auth import models
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.core.signals import setting_changed
from django.db import connections, router
from django.db.models import Model, QuerySet
from django.db.models.fields.related_descriptors import ManyToManyDescriptor

from mcp_bridge.access.compiled import compiled

# All methods with which ModelBackend answers has_perm().
_METHODS: Final = (
    *("has_perm", "get_all_permissions", "get_user_permissions", "get_group_permissions"),
    *("_get_permissions", "_get_user_permissions", "_get_group_permissions"),
)


class _Asked(dict[str, bool]):
    """The permissions of a user; calls ``has_perm`` once for each permission."""

    def __init__(self, has_perm: Callable[[str], object]) -> None:
        super().__init__()
        self._has_perm = has_perm

    def __missing__(self, name: str) -> bool:
        self[name] = answer = bool(self._has_perm(name))
        return answer

    def issuperset(self, names: Iterable[str], /) -> bool:
        return all(map(self.__getitem__, names))


# The permissions of a user.
Granted: TypeAlias = set[str] | frozenset[str] | _Asked


def permissions_of(user: Any) -> Granted:
    """Return a user's permissions as ``has_perm()`` decides; two queries with Django's backend."""
    # User models without PermissionsMixin lack has_perm().
    has_perm = getattr(user, "has_perm", None)
    if has_perm is None:
        return frozenset()
    is_own = getattr(has_perm, "__func__", None) is not models.PermissionsMixin.has_perm
    backends = "own" if is_own else _backends()
    if backends == "own":
        return _Asked(has_perm)
    # The user itself, not the lazy object of the session.
    user = has_perm.__self__
    if user.is_active and user.is_superuser:
        return _Asked(lambda name: True)
    if backends == "none" or not user.is_active or user.is_anonymous:
        return frozenset()
    return _read(user)


@cache
def _backends() -> Literal["none", "Django", "own"]:
    """Return the kind of permission rules in AUTHENTICATION_BACKENDS."""
    found: set[Literal["none", "Django", "own"]] = set()
    for kind in map(type, auth.get_backends()):
        if hasattr(kind, "has_perm") and not _has_methods_of(BaseBackend, kind):
            found.add("Django" if _has_methods_of(ModelBackend, kind) else "own")
    return "own" if "own" in found else "Django" if found else "none"


# Settings change at run time only in tests.
setting_changed.connect(lambda **changed: _backends.cache_clear(), weak=False)


def _has_methods_of(base: type, kind: type) -> bool:
    return all(getattr(kind, name, None) is getattr(base, name, None) for name in _METHODS)


def _read(user: Any) -> Granted:
    """Return the permissions from ModelBackend, and cache them as it does."""
    if (known := getattr(user, "_perm_cache", None)) is not None:
        return known  # type: ignore[no-any-return]
    read = partial(router.db_for_read, models.Permission)
    aliases = read(instance=user), read()
    for name, alias in zip(("user", "group"), aliases, strict=True):
        attribute = f"_{name}_perm_cache"
        if not hasattr(user, attribute):
            rows = _rows(name, user, alias, partial(_permissions, name, user))
            if rows is None:
                return ModelBackend().get_all_permissions(user)
            setattr(user, attribute, {f"{app}.{code}" for app, code in rows})
    user._perm_cache = known = {*user._user_perm_cache, *user._group_perm_cache}
    return known


def _permissions(name: str, user: Any) -> QuerySet[Any, Any]:
    """Return ModelBackend's query for a user's permissions or those of the user's groups."""
    found: QuerySet[Any, Any] = getattr(ModelBackend(), f"_get_{name}_permissions")(user)
    return found.values_list("content_type__app_label", "codename").order_by()


def groups_of(user: Any) -> frozenset[Any]:
    """Return the keys of a user's groups; empty for a user model without groups."""
    groups = getattr(user, "groups", None)
    if groups is None:
        return frozenset()
    rows = None
    # The user itself, not the lazy object of the session.
    if (user := getattr(groups, "instance", None)) is not None:
        alias = router.db_for_read(models.Group, instance=user)
        rows = _rows("groups", user, alias, lambda: groups.values_list("pk").order_by())
    return frozenset(key for (key,) in (groups.values_list("pk") if rows is None else rows))


def _rows(
    name: str, user: Model, alias: str, make: Callable[[], QuerySet[Any, Any]]
) -> Iterable[Sequence[Any]] | None:
    """Return the rows of a compiled query by a user's key; None if the ORM has to run it."""
    if user.pk is None or not _has_tables_of_django(user.__class__):
        return None
    # Prepared for the database.
    values = [user._meta.pk.get_db_prep_value(user.pk, connections[alias])]
    query = compiled((name, type(user)), alias, values, make)
    return None if query is None else query.run(values)


@cache
def _has_tables_of_django(kind: Any) -> bool:
    """Return whether a user model has the groups and permissions of PermissionsMixin."""
    relations = (
        ("groups", models.Group, models.GroupManager),
        ("user_permissions", models.Permission, models.PermissionManager),
    )
    return type(models.Permission.objects) is models.PermissionManager and all(
        isinstance(descriptor := getattr(kind, name, None), ManyToManyDescriptor)
        and descriptor.field.related_model is model
        and descriptor.through._meta.auto_created
        and type(model._default_manager) is manager
        for name, model, manager in relations
    )

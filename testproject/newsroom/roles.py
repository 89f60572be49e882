"""The roles of the newsroom, as Django groups with Django permissions."""

from __future__ import annotations

from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ImproperlyConfigured

READER = (
    "view_section",
    "view_author",
    "view_article",
    "view_media",
    "view_comment",
    "add_comment",
)
AUTHOR = (*READER, "add_article", "change_article", "submit_article", "add_media")
EDITOR = (
    *AUTHOR,
    "view_unpublished_article",
    "publish_article",
    "delete_article",
    "change_media",
    "change_comment",
    "delete_comment",
)
# Administrators hold every permission of the site.
ROLES = {"reader": READER, "author": AUTHOR, "editor": EDITOR}


def create_roles() -> dict[str, Group]:
    """Make the groups reader, author, editor and administrator, or set their permissions anew."""
    groups = {}
    for role, codenames in ROLES.items():
        groups[role] = _group(role, _permissions(codenames))
    groups["administrator"] = _group("administrator", list(Permission.objects.all()))
    return groups


def _permissions(codenames: tuple[str, ...]) -> list[Permission]:
    permissions = list(
        Permission.objects.filter(content_type__app_label="newsroom", codename__in=codenames)
    )
    missing = set(codenames) - {permission.codename for permission in permissions}
    if missing:
        raise ImproperlyConfigured(f"Permissions missing, run migrate first: {sorted(missing)}.")
    return permissions


def _group(name: str, permissions: list[Permission]) -> Group:
    group, _ = Group.objects.get_or_create(name=name)
    group.permissions.set(permissions)
    return group

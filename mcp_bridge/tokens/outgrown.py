"""
Revocation of tokens for others when their user gains rights that the issuer lacks.

The issuer has seen the secret, which would give them these rights. Changes are seen by Django's
signals: ``QuerySet.update()`` does not send any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import F, Model
from django.db.models.signals import m2m_changed, post_save, pre_save
from django.utils.translation import gettext

from mcp_bridge.conf import conf
from mcp_bridge.tokens.models import Token

_FLAGS: Final = ("is_staff", "is_superuser")
# The attribute of a user who is being saved, with the flags that are gained by it.
_GAINED: Final = "_mcp_gained"


def connect() -> None:
    """Connect the signals of users, groups and permissions."""
    pre_save.connect(_before_save, dispatch_uid=f"{__name__}.before")
    post_save.connect(_after_save, dispatch_uid=f"{__name__}.after")
    m2m_changed.connect(_after_adding, dispatch_uid=f"{__name__}.adding")


def _before_save(
    instance: Model,
    raw: bool = False,
    using: str | None = None,
    update_fields: Any = None,
    **kwargs: object,
) -> None:
    """
    Note the flags that a user gains; saving a user without flags costs no query.

    The defaults are for code that sends the signal itself, and leaves arguments out.
    """
    users = get_user_model()
    if raw or not isinstance(instance, users) or instance._state.adding:
        return
    fields = {field.name for field in users._meta.concrete_fields}
    names = [
        name
        for name in _FLAGS
        if name in fields
        and getattr(instance, name)
        and (update_fields is None or name in update_fields)
    ]
    before = users._base_manager.using(using).filter(pk=instance.pk).values(*names) if names else ()
    had: dict[str, Any] = next(iter(before), {})
    setattr(instance, _GAINED, [name for name in names if not had.get(name)])


def _after_save(instance: Model, **kwargs: object) -> None:
    gained = vars(instance).pop(_GAINED, [])
    if gained:
        _end([instance.pk], lambda issuer: not all(getattr(issuer, name) for name in gained))


def _after_adding(
    sender: type[Model],
    instance: Any = None,
    action: str = "",
    reverse: bool = False,
    pk_set: set[Any] | None = None,
    **kwargs: object,
) -> None:
    """End tokens of users who gain a group or a permission, also through a group."""
    if action != "post_add" or not pk_set:
        return
    # The users or groups, and the groups or permissions that they are given.
    takers, given = (pk_set, {instance.pk}) if reverse else ({instance.pk}, pk_set)
    users: Any = get_user_model()
    if sender is _through(users, "groups"):
        _end(takers, lambda issuer: _lacks_group(issuer, given))
    elif sender is _through(users, "user_permissions"):
        _end(takers, partial(_lacks_permission, permissions=given))
    elif sender is _through(Group, "permissions") and _through(users, "groups"):
        members = users._base_manager.filter(groups__in=takers).values_list("pk", flat=True)
        _end(members, partial(_lacks_permission, permissions=given))


def _through(model: Any, name: str) -> object:
    return getattr(getattr(model, name, None), "through", None)


def _lacks_group(issuer: Any, groups: set[Any]) -> bool:
    return not groups <= set(issuer.groups.values_list("pk", flat=True))


def _lacks_permission(issuer: Any, permissions: set[Any]) -> bool:
    rows = Permission._default_manager.filter(pk__in=permissions)
    names = {
        f"{app}.{name}" for app, name in rows.values_list("content_type__app_label", "codename")
    }
    return not names <= issuer.get_all_permissions()


def _end(users: Iterable[Any], lacks: Callable[[Any], bool]) -> None:
    """End tokens of users if another user issued them who lacks the rights gained."""
    tokens = Token._default_manager.filter(user__in=list(users), revoked_at=None)
    ended: dict[Any, list[str]] = {}
    for token in tokens.exclude(issued_by=None).exclude(issued_by=F("user")).select_related("user"):
        issuer: Any = token.issuer
        has_all = (
            issuer is not None and issuer.is_active and (issuer.is_superuser or not lacks(issuer))
        )
        if not has_all:
            token.outgrown = True
            token.revoke()
            ended.setdefault(token.user, []).append(str(token))
    for user, names in ended.items():
        transaction.on_commit(partial(_tell, user, names), robust=True)


def _tell(user: Any, names: list[str]) -> None:
    """Send a user mail about the ended tokens, if they have an address."""
    if not getattr(user, "email", "") or not hasattr(user, "email_user"):
        return
    site = " ".join(conf.server_title.split())
    subject = gettext("%(site)s: tokens of yours have ended") % {"site": site}
    text = gettext(
        "You have gained rights that the person who issued these tokens for you does not have: "
        "%(tokens)s. The tokens have ended. Issue your own to go on."
    )
    user.email_user(subject, text % {"tokens": ", ".join(names)})

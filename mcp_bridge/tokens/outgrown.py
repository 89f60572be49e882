"""
Revokes tokens issued by others when their user gains rights that the issuer lacks.

The issuer has seen the secret, which would grant these rights. Changes are detected by Django's
signals, which ``QuerySet.update()`` does not send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission, PermissionsMixin
from django.db import transaction
from django.db.models import F
from django.db.models.signals import m2m_changed, pre_save
from django.utils.translation import gettext

from mcp_bridge.conf import conf
from mcp_bridge.tokens.models import Token

_FLAGS: Final = ("is_staff", "is_superuser")


def connect() -> None:
    """Connect the signals of users, groups and permissions, if the user model has these."""
    users: Any = get_user_model()
    if not issubclass(users, PermissionsMixin) or None in (users.groups, users.user_permissions):
        return
    # Proxies and subclasses send their own signals.
    for model in apps.get_models():
        if issubclass(model, users):
            pre_save.connect(_before_save, model, dispatch_uid=__name__)
    for relation in (users.groups, users.user_permissions, Group.permissions):
        m2m_changed.connect(_after_adding, relation.through, dispatch_uid=__name__)


# Some code sends the signals without these arguments.
def _before_save(instance: Any, update_fields: Iterable[str] | None = None, **sent: Any) -> None:
    """Revoke tokens of a user who gains a flag; saving a user without flags needs no query."""
    names = {field.name for field in instance._meta.concrete_fields}.intersection(_FLAGS)
    saved = names if update_fields is None else names.intersection(update_fields)
    flags = [name for name in saved if getattr(instance, name)]
    if flags and not sent.get("raw") and not instance._state.adding:
        rows = get_user_model()._base_manager.using(sent.get("using")).filter(pk=instance.pk)
        gained = [name for row in rows.values(*flags) for name in flags if not row[name]]
        if gained:
            _end([instance.pk], lambda issuer: all(getattr(issuer, name) for name in gained))


def _after_adding(sender: object, action: str = "", pk_set: Any = None, **sent: Any) -> None:
    """Revoke tokens of users who gain a group or a permission, also through a group."""
    if action != "post_add" or not pk_set:
        return
    # The users or groups, and the groups or permissions that they receive.
    takers, given = {sent["instance"].pk}, pk_set
    if sent.get("reverse"):
        takers, given = given, takers
    users: Any = get_user_model()
    if sender is users.groups.through:
        _end(takers, lambda issuer: {*given} <= {*issuer.groups.values_list("pk", flat=True)})
        return
    if sender is Group.permissions.through:
        takers = users._base_manager.filter(groups__in=takers)
    rows = Permission._default_manager.filter(pk__in=given)
    names = [".".join(row) for row in rows.values_list("content_type__app_label", "codename")]
    _end(takers, lambda issuer: issuer.has_perms(names))


def _end(users: Iterable[Any], has_gain: Callable[[Any], bool]) -> None:
    """Revoke tokens of users that were issued by users who lack the gained rights."""
    tokens = Token._default_manager.filter(user__in=users, revoked_at=None, issued_by__isnull=False)
    ended = []
    for token in tokens.exclude(issued_by=F("user")).select_related("user").order_by("user_id"):
        issuer: Any = token.issuer
        if not (issuer and issuer.is_active and (issuer.is_superuser or has_gain(issuer))):
            token.outgrown = True
            token.revoke()
            ended.append(token)
    for user, theirs in groupby(ended, attrgetter("user")):
        names = ", ".join(map(str, theirs))
        transaction.on_commit(partial(_tell, user, names), robust=True)


def _tell(user: Any, names: str) -> None:
    """Email a user about the revoked tokens, if they have an address."""
    if getattr(user, "email", "") and hasattr(user, "email_user"):
        site = " ".join(conf.server_title.split())
        subject = gettext("%(site)s: some of your tokens were revoked") % {"site": site}
        text = gettext(
            "You have gained rights that the person who issued these tokens for you does not have: "
            "%(tokens)s. The tokens were revoked. Issue new ones to continue."
        )
        user.email_user(subject, text % {"tokens": names})

"""What permissions are called on the pages, and who meets a rule, in words of people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import Permission
from django.utils.text import get_text_list
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.features import AccessRule, Tool

# What Django calls the permissions that it makes of each model.
_STANDARD: Final = {
    "add": _("Can add %(model)s"),
    "change": _("Can change %(model)s"),
    "delete": _("Can delete %(model)s"),
    "view": _("Can view %(model)s"),
}


def permission_title(action: str, meta: Any) -> str:
    """Return what Django's permission of an action on a model is called: "Can delete article"."""
    return str(_STANDARD[action]) % {"model": meta.verbose_name}


def permission_titles(names: Iterable[str]) -> dict[str, str]:
    """Return what permissions are called, by name; at most one query."""
    asked = set(names)
    if not asked:
        return {}
    rows = Permission.objects.filter(codename__in={name.partition(".")[2] for name in asked})
    titles = {name: name for name in asked}
    for label, model, codename, stored in rows.values_list(
        "content_type__app_label", "content_type__model", "codename", "name"
    ):
        if (name := f"{label}.{codename}") in asked:
            titles[name] = _title(label, model, codename, stored)
    return titles


def _title(label: str, model: str, codename: str, stored: str) -> str:
    """Return the name of a permission as it is stored, or in the reader's language if Django's."""
    try:
        meta = apps.get_model(label, model)._meta
    except LookupError:
        return stored
    for action in _STANDARD:
        if codename == get_permission_codename(action, meta):
            # Django stores it in the words of the code; a site may have given it others since.
            is_djangos = stored == f"Can {action} {meta.verbose_name_raw}"
            return permission_title(action, meta) if is_djangos else stored
    return stored


def quoted(titles: Iterable[str]) -> str:
    """Return what permissions are called in one text: “Can add user” and “Can view group”."""
    names = [gettext("“%(name)s”") % {"name": title} for title in titles]
    return get_text_list(names, gettext("and"))


class WhoMay:
    """Who may use candidates, in words; at most one query."""

    def __init__(self, candidates: Iterable[Tool]) -> None:
        rules = {each.access for each in candidates}
        titles = permission_titles(name for rule in rules for name in rule.permissions)
        self._words = {rule: _words(rule, titles) for rule in rules}

    def of(self, candidate: Tool) -> str:
        """Return who may use one of the candidates."""
        return self._words[candidate.access]


def _words(rule: AccessRule, titles: dict[str, str]) -> str:
    if rule.public:
        words = gettext("everybody, signed in or not")
    elif rule.permissions:
        names = quoted(titles[name] for name in rule.permissions)
        words = gettext("everybody with %(permissions)s") % {"permissions": names}
    else:
        words = gettext("everybody who is signed in")
    if rule.predicate is None:
        return words
    return gettext("%(who)s, as far as the tool's own rule allows") % {"who": words}

"""What the commands have in common: the check of migrations, users by name, durations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, router

from mcp_bridge.checks.settings import check_settings, did_you_mean
from mcp_bridge.conf import conf
from mcp_bridge.registry.discovery import make_source
from mcp_bridge.registry.registry import unapplied
from mcp_bridge.sources.base import Source, first_line

_DURATION: Final = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LONGEST: Final = timedelta(days=36_500)


class TablesCommand(BaseCommand):
    """A command that needs the tables of this package."""

    requires_migrations_checks = True
    # A broken tool must not prevent an administrator from revoking a token.
    requires_system_checks = ()

    def warn_of_settings(self) -> None:
        """Print the errors in the setting MCP_BRIDGE, since no system check has run."""
        for each in check_settings():
            self.stderr.write(self.style.WARNING(f"{each.id}: {each.msg}"))

    def check_migrations(self) -> None:
        """
        Raise CommandError where a migration of this package was not run, or none can be read.

        Django's own check prints a notice, into the output that others read, and goes on.
        """
        for label in ("mcp_bridge", "mcp_bridge_tokens", "mcp_bridge_oauth"):
            if label not in apps.app_configs:
                continue
            (model, *_) = apps.get_app_config(label).get_models()
            alias = router.db_for_write(model)
            try:
                waiting = unapplied(alias, label)
            except ImproperlyConfigured:
                # The site has no database.
                return
            except DatabaseError as error:
                text = f"The database {alias!r} cannot be read: {first_line(error)}."
                raise CommandError(f"{text} Is it there, and does DATABASES name it?") from None
            except Exception as error:
                # The graph is that of all apps, and a migration may raise anything when imported.
                raise CommandError(
                    f"The site's migrations cannot be read: {first_line(error)}. Repair that "
                    "migration; `manage.py migrate` ends in the same error."
                ) from None
            if waiting:
                raise CommandError(
                    f"The database has not all tables of {label}: run `manage.py migrate` first."
                )


def named_user(name: str) -> AbstractBaseUser:
    """Return the user who logs in by that name. Raises CommandError where there is none."""
    users = get_user_model()
    try:
        return users._default_manager.get_by_natural_key(name)
    except users.DoesNotExist:
        raise CommandError(f"There is no user {name!r}.") from None


def check_names(noun: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise CommandError for the first of the names that is not known."""
    for name in names:
        if name not in known:
            raise CommandError(f"There is no {noun} {name!r}.{did_you_mean(name, known)}")


def duration(text: str) -> timedelta:
    """Return the duration that a text such as "90d" says. Raises CommandError for another text."""
    match = _DURATION.fullmatch(text)
    length = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else _LONGEST
    if length >= _LONGEST:
        raise CommandError(
            f"{text!r} is no duration: give a number and one of s, m, h, d, w, such as 90d."
        )
    return length


def named_source(alias: str) -> Source:
    """Return the source of an entry of SOURCES. Raises CommandError where there is none."""
    check_names("source", [alias], conf.sources)
    try:
        return make_source(alias)
    except Exception as exception:
        # Modules of sources, and what they import, may raise anything.
        raise CommandError(
            f"MCP_BRIDGE['SOURCES'][{alias!r}] cannot be used: {first_line(exception)}."
        ) from exception

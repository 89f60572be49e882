"""What the commands have in common: the check of migrations, users by name, durations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.management.base import BaseCommand, CommandError

from mcp_bridge.checks.deployment import missing_tables
from mcp_bridge.checks.settings import check_settings, did_you_mean
from mcp_bridge.conf import conf
from mcp_bridge.registry.discovery import make_source
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
        if text := missing_tables():
            raise CommandError(text)


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

"""Users by the name they log in with, for the commands."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError


def named_user(name: str) -> Any:
    """The user of that name. Raises CommandError where there is none."""
    users = get_user_model()
    try:
        return users._default_manager.get_by_natural_key(name)
    except users.DoesNotExist:
        raise CommandError(f"There is no user {name!r}.") from None

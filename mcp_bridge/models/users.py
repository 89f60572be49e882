"""Foreign keys to users."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models


def optional_user(verbose_name: Any, **options: Any) -> models.ForeignKey[User | None, User | None]:
    """Return a nullable foreign key to a user; by default it becomes null when that is deleted."""
    options = {"on_delete": models.SET_NULL, "related_name": "+", "null": True, **options}
    return models.ForeignKey(settings.AUTH_USER_MODEL, verbose_name=verbose_name, **options)

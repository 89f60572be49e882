"""Make the database of a site: tables, rows, a user with credentials; print them as JSON."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import django
from django.apps import apps
from django.core.management import call_command
from django.utils import timezone


def main() -> None:
    django.setup()
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Permission

    from mcp_bridge.models import ToolSetting
    from mcp_bridge.tokens.models import Token

    call_command("migrate", verbosity=0)
    is_newsroom = apps.is_installed("testproject.newsroom")
    if is_newsroom:
        call_command("seed_newsroom", verbosity=0)
    ToolSetting.objects.update_or_create(name="switched_off", defaults={"enabled": False})
    users = get_user_model().objects
    names = ("caller", "gone", "other")
    # Staff of the newsroom, whose admin is served, too.
    caller, gone, other = (users.create_user(name, is_staff=is_newsroom) for name in names)
    if is_newsroom:
        for each in (caller, other):
            each.user_permissions.set(Permission.objects.filter(content_type__app_label="newsroom"))

    def issue(user: object, **options: object) -> str:
        return str(Token.objects.issue(user=user, name="hostile", **options)[1])

    before = timezone.now() - timedelta(days=1)
    secrets = {
        "token": issue(caller),
        "other": issue(other),
        "expired": issue(caller, expires_at=before),
        "revoked": issue(caller),
        "inactive": issue(gone),
        "limited": issue(caller, tools=["add"]),
    }
    users.filter(pk=gone.pk).update(is_active=False)
    revoked = Token.objects.find(secrets["revoked"])
    assert revoked is not None
    revoked.revoke()
    json.dump(secrets, sys.stdout)


main()

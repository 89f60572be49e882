"""Make a contestant's database with one user in it, and print a token of that user's."""

from __future__ import annotations

from importlib import import_module

import django


def main() -> None:
    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command

    call_command("migrate", verbosity=0, run_syncdb=True)
    user = User.objects.create_user("reader")
    print(import_module(settings.ROOT_URLCONF).issue_token(user))


if __name__ == "__main__":
    main()

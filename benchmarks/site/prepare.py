"""Make a contestant's database with a thousand users in it, and print a token of the first."""

from __future__ import annotations

from importlib import import_module

import django

from benchmarks import tools


def main() -> None:
    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import Permission, User
    from django.contrib.contenttypes.models import ContentType
    from django.core.management import call_command

    from benchmarks.site.models import Note

    # The tables without migrations refer to those that have them.
    call_command("migrate", verbosity=0)
    call_command("migrate", verbosity=0, run_syncdb=True)
    user = User.objects.create_user("reader")
    User.objects.bulk_create(User(username=f"user {each}") for each in range(tools.USERS - 1))
    if settings.PERMISSIONS:
        kind = ContentType.objects.get_for_model(Note)
        made = Permission.objects.bulk_create(
            Permission(codename=tools.search_name(each), name="Search", content_type=kind)
            for each in range(tools.fillers(settings.TOOLS))
        )
        user.user_permissions.add(*made[:: tools.PERMITTED])
    issue = getattr(import_module(settings.ROOT_URLCONF), "issue_token", lambda user: "-")
    print(issue(user))


if __name__ == "__main__":
    main()

"""Make the tables of the site, with a user, and print the secret of a token of that user."""

from __future__ import annotations

import django
from django.core.management import call_command

if __name__ == "__main__":
    django.setup()
    from django.contrib.auth import get_user_model

    from mcp_bridge.tokens.models import Token

    call_command("migrate", verbosity=0)
    ada = get_user_model().objects.create_user("ada")
    print(Token.objects.issue(user=ada, name="laptop")[1])

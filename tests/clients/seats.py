"""Make a newsroom with a superuser, a token and a draft for each client; print it as JSON."""

from __future__ import annotations

import json
import sys

import django
from django.contrib.auth import get_user_model
from django.core.management import call_command


def main(clients: list[str]) -> None:
    django.setup()
    call_command("migrate", verbosity=0)
    call_command("seed_newsroom", verbosity=0)
    json.dump(make(clients), sys.stdout)


def make(clients: list[str]) -> dict[str, dict[str, object]]:
    from mcp_bridge.testing import MCPClient
    from mcp_bridge.tokens.models import Token
    from testproject.newsroom.models import Article, Author, Media
    from testproject.newsroom.seeding.users import PASSWORD

    sample = Article.objects.filter(status=Article.Status.DRAFT).first()
    made: dict[str, dict[str, object]] = {}
    for name in clients:
        user = get_user_model().objects.create_superuser(name)
        Author.objects.create(user=user, byline=name)
        sample.pk, sample.slug = None, f"draft-{name}"
        sample.save()
        made[name] = {
            "token": Token.objects.issue(user=user, name="gate", expires_at=None)[1],
            "slug": sample.slug,
            "password": PASSWORD,
            "media": Media.objects.earliest("pk").pk,
        }
    if made:
        # All users see it: they are all superusers.
        client = MCPClient(user=user, host="127.0.0.1")
        tools = sorted(tool["name"] for tool in client.list_tools())
        for seat in made.values():
            seat["tools"] = tools
    return made


main(sys.argv[1:])

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from mcp_bridge.management.tables import TablesCommand
from mcp_bridge.management.users import named_user
from mcp_bridge.tokens.models import Token

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class Command(TablesCommand):
    help = "Issue, list and revoke the bearer tokens with which MCP clients act as a user."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        create = commands.add_parser("create", help="Issue a token and print its secret, once.")
        create.add_argument("user", help="The user's name, as used to log in.")
        create.add_argument("--name", required=True, help="What uses the token.")
        create.add_argument("--expires", help="After how long, such as 12h, 90d or 4w.")
        listed = commands.add_parser("list", help="List the tokens.")
        listed.add_argument("--user", help="Only those of one user.")
        revoke = commands.add_parser("revoke", help="Revoke a token.")
        revoke.add_argument("id", type=int, help="The number that “list” shows.")

    def handle(self, *args: Any, command: str, **options: Any) -> None:
        getattr(self, command)(**options)

    def create(self, *, user: str, name: str, expires: str | None, **options: Any) -> None:
        owner = named_user(user)
        expires_at = timezone.now() + _duration(expires) if expires is not None else None
        token, secret = Token.objects.issue(user=owner, name=name, expires_at=expires_at)
        self.stderr.write(f"Token {token.pk} for {user}. It is not shown again:")
        self.stdout.write(secret)

    def list(self, *, user: str | None, **options: Any) -> None:
        tokens = Token.objects.select_related("user")
        if user:
            tokens = tokens.filter(user=named_user(user))
        for token in tokens:
            state = "valid" if token.is_valid else "revoked" if token.revoked_at else "expired"
            used = f"{token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never"
            self.stdout.write(
                f"{token.pk:>5}  {token.user.get_username():<20} {token.hint}…  {state:<8} "
                f"last used {used:<17} {token.name}"
            )

    def revoke(self, *, id: int, **options: Any) -> None:
        token = Token.objects.filter(pk=id).first()
        if token is None:
            raise CommandError(f"There is no token {id}: see mcp_token list.")
        token.revoke()
        self.stdout.write(f"Token {id} ({token.name}) is revoked.")


def _duration(text: str) -> timedelta:
    match = re.fullmatch(r"([0-9]{1,5})([hdw])", text)
    if match is None:
        raise CommandError(f"{text!r} is no duration: give a number with h, d or w, such as 90d.")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from mcp_bridge.access.scopes import supported_scopes
from mcp_bridge.management.base import TablesCommand, check_names, duration, named_user
from mcp_bridge.registry.registry import registry
from mcp_bridge.tokens.models import Token


class Command(TablesCommand):
    help = "Issue, list and revoke the bearer tokens with which MCP clients act as a user."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        create = commands.add_parser("create", help="Issue a token and print its secret, once.")
        create.add_argument("user", help="The user's name, as used to log in.")
        create.add_argument("--name", required=True, help="The program that uses the token.")
        create.add_argument("--expires", help="Expire after this time, such as 12h, 90d or 4w.")
        for noun in ("scope", "tool"):
            text = f"Limit it to this {noun}; may be repeated."
            create.add_argument(f"--{noun}", action="append", help=text)
        create.add_argument("--read-only", action="store_true", help="Limit it to reading tools.")
        listed = commands.add_parser("list", help="List the tokens.")
        listed.add_argument("--user", help="List only the tokens of this user.")
        revoke = commands.add_parser("revoke", help="Revoke a token.")
        revoke.add_argument("id", type=int, help="The number shown by “list”.")

    def handle(self, *, command: str, **options: object) -> None:
        getattr(self, command)(**options)

    @sensitive_variables()
    def create(self, *, user: str, name: str, expires: str | None, **limits: Any) -> None:
        check_names("scope", limits["scope"] or (), supported_scopes())
        check_names("tool", limits["tool"] or (), registry.discovered.by_label)
        token, secret = Token.objects.issue(
            user=named_user(user),
            name=name,
            expires_at=None if expires is None else timezone.now() + duration(expires),
            scopes=limits["scope"],
            tools=limits["tool"],
            read_only=limits["read_only"],
        )
        self.stderr.write(f"Token {token.pk} for {user}. It will not be shown again:")
        self.stdout.write(secret)

    def list(self, *, user: str | None, **options: object) -> None:
        tokens = Token.objects.select_related("user")
        if user:
            tokens = tokens.filter(user_id=named_user(user).pk)
        for token in tokens:
            state = "valid" if token.is_valid else "revoked" if token.revoked_at else "expired"
            used = f"{token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never"
            limits = {"scopes": token.scope, "tools": token.tools}
            given = {noun: names for noun, names in limits.items() if names is not None}
            limited = "".join(f"  {noun}: {names or 'none'}" for noun, names in given.items())
            limited += "  read-only" * token.read_only
            self.stdout.write(
                f"{token.pk:>5}  {token.user.get_username():<20} {token.hint}…  {state:<8} "
                f"last used {used:<17} {token.name}{limited}"
            )

    def revoke(self, *, id: int, **options: object) -> None:
        token = Token.objects.filter(pk=id).first()
        if token is None:
            raise CommandError(f"Unknown token {id}: see mcp_token list.")
        token.revoke()
        self.stdout.write(f"Token {id} ({token.name}) was revoked.")

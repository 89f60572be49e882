from __future__ import annotations

from collections.abc import Sequence

from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_bridge.conf import conf
from mcp_bridge.management.base import named_user
from mcp_bridge.server.connecting import CLIENTS, TOKEN, Connection


class Command(BaseCommand):
    requires_system_checks = ()
    help = (
        "Print the settings that connect a client to this site. TOKEN is a placeholder for a "
        "token, which “mcp_token create” issues."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        keys = [each.key for each in CLIENTS]
        parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"Of {', '.join(keys)}.")
        parser.add_argument("--url", help="The address of the endpoint (default: RESOURCE).")
        parser.add_argument(
            "--login", action="store_true", help="Use a login in the client instead of a token."
        )
        parser.add_argument(
            "--user", help="The caller of clients that start the site as a command (mcp_stdio)."
        )

    def handle(
        self,
        *,
        clients: Sequence[str],
        url: str | None,
        login: bool,
        user: str | None,
        **options: object,
    ) -> None:
        url = url or conf.RESOURCE
        if not url and user is None:
            raise CommandError(
                "The address of the endpoint is unknown: pass --url, or set "
                'MCP_BRIDGE["RESOURCE"], such as "https://example.com/mcp".'
            )
        if user is not None:
            named_user(user)
        more = {"user": user or "USER", "settings": str(options.get("settings") or "")}
        has_login = login or bool(conf.AUTHORIZATION_SERVERS)
        connection = Connection(url or "", "" if login else TOKEN, has_login, **more)
        ways = connection.clients if url else connection.commands
        known = {each.client.key: each for each in ways}
        if unknown := [name for name in clients if name not in known]:
            way = " with a login" if login else ""
            raise CommandError(
                f"Cannot connect{way}: {', '.join(unknown)}. Supported: {', '.join(known)}."
            )
        for each in (known[key] for key in clients or known):
            self.stdout.write(self.style.MIGRATE_HEADING(each.client.title))
            for where, code in [*each.login, *each.token]:
                self.stdout.write(f"{where}\n\n{code}\n\n")
            for where, code in each.stdio:
                self.stdout.write(f"To start the site as a command: {where}\n\n{code}\n\n")

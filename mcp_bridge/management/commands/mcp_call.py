from __future__ import annotations

import json

from django.core.management.base import CommandError, CommandParser

from mcp_bridge.management.base import TablesCommand, named_user
from mcp_bridge.protocol import LATEST, SUPPORTED_VERSIONS
from mcp_bridge.testing import MCPClient


class Command(TablesCommand):
    help = (
        "Call a tool through the whole of the endpoint, and show the request, the HTTP status and "
        "the response."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="The tool's name.")
        parser.add_argument("arguments", nargs="?", default="{}", help="The arguments, as JSON.")
        parser.add_argument("--user", help="Whom to call as; left out, nobody in particular.")
        parser.add_argument(
            "--revision",
            default=LATEST.version,
            choices=SUPPORTED_VERSIONS,
            help="The MCP revision to speak.",
        )

    def handle(
        self, *, name: str, arguments: str, user: str | None, revision: str, **options: object
    ) -> None:
        try:
            parsed = json.loads(arguments)
        except json.JSONDecodeError as exception:
            raise CommandError(f"The arguments are not JSON: {exception}.") from None
        client = MCPClient(
            user=named_user(user) if user else None,
            revision=revision,
            host=MCPClient.allowed_host(),
        )
        message = client.message("tools/call", name=name, arguments=parsed)
        self.stdout.write(f"POST {client.path}\n{json.dumps(message, indent=2)}\n")
        response = client.send(json.dumps(message).encode(), client.mirrored(message))
        self.stdout.write(f"{response.status_code} {response.reason_phrase}")
        self.stdout.write(json.dumps(response.json(), indent=2, ensure_ascii=False))

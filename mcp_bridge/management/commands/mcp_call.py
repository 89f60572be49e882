from __future__ import annotations

import json
from typing import Final

from django.contrib.auth.models import AnonymousUser
from django.core.management.base import CommandError, CommandParser

import mcp_bridge
from mcp_bridge.access.policy import context_for
from mcp_bridge.features import Client
from mcp_bridge.management.base import TablesCommand, named_user, why_missing
from mcp_bridge.protocol import LATEST, REVISIONS, ProtocolError
from mcp_bridge.protocol.errors import UnknownFeatureError
from mcp_bridge.protocol.jsonrpc import decode
from mcp_bridge.server.perform import call_labelled
from mcp_bridge.server.server import MCPServer

_CLIENT: Final = Client(info={"name": "manage.py mcp_call", "version": mcp_bridge.__version__})


class Command(TablesCommand):
    help = (
        "Call a tool, read a resource or get a prompt in this process, without HTTP, and print the "
        "result (MCP CallToolResult) as JSON. Fails without a result, or if it is an error."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="A tool's name, prompt:NAME, resource:NAME or a URI.")
        parser.add_argument("arguments", nargs="?", default="{}", help="The arguments, as JSON.")
        parser.add_argument("--user", help="The user to call as (default: anonymous).")
        parser.add_argument(
            "--revision",
            default=LATEST.version,
            choices=REVISIONS,
            help="The MCP revision of the result.",
        )

    def handle(
        self, *, name: str, arguments: str, user: str | None, revision: str, **options: object
    ) -> None:
        self.warn_of_settings()
        try:
            # Reports the column; decode() also rejects what lenient parsers accept.
            json.loads(arguments)
            sent = decode(arguments.encode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError, ProtocolError) as error:
            raise CommandError(f"The arguments are not JSON: {str(error).rstrip('.')}.") from None
        caller = named_user(user) if user else AnonymousUser()
        context = context_for(caller, revision=REVISIONS[revision], client=_CLIENT)
        try:
            result = call_labelled(MCPServer(), name, sent, context)
        except UnknownFeatureError as error:
            why = why_missing(name, caller) or "Its code did not find the object, or refused it."
            raise CommandError(f"{error}. {why}") from None
        except ProtocolError as error:
            raise CommandError(f"The call was refused: {error}") from None
        written = json.loads(result.to_json(context.revision))
        self.stdout.write(json.dumps(written, indent=2, ensure_ascii=False))
        if written.get("isError") is not False:
            raise CommandError("The result is an error.")

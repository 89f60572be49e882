from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.http import HttpRequest

from mcp_bridge.management.users import named_user
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry import registry
from mcp_bridge.server import MCPServer
from mcp_bridge.tools import Context, Tool


class Command(BaseCommand):
    help = (
        "List the tools on offer: from which file and line, who may use them, and what is left "
        "out and why."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", help="Only what this user may see and call.")
        parser.add_argument("--json", action="store_true", help="As JSON, schemas included.")

    def handle(self, *args: Any, user: str | None, **options: Any) -> None:
        snapshot = registry.snapshot
        server = MCPServer(snapshot=snapshot)
        tools = list(snapshot if user is None else server.policy.filter(snapshot, _context(user)))
        if options["json"]:
            self.stdout.write(json.dumps([_described(tool) for tool in tools], indent=2))
            return
        self._table(tools)
        whose = "" if user is None else f" for {user}"
        self.stdout.write(f"\n{len(tools)} of {len(snapshot)} tools{whose}.")
        for message in snapshot.messages:
            self.stderr.write(self.style.WARNING(f"{message.id}: {message.msg}"))

    def _table(self, tools: Iterable[Tool]) -> None:
        for tool in tools:
            hints = ", ".join(name for name, is_so in tool.annotations.items() if is_so)
            lines = (f"source: {tool.source}", f"access: {access(tool)}", f"hints:  {hints}")
            self.stdout.write(self.style.MIGRATE_HEADING(tool.name))
            for line in lines if hints else lines[:2]:
                self.stdout.write(f"    {line}")


def access(tool: Tool) -> str:
    """Who may use the tool, in a phrase."""
    if tool.access.public:
        needs = ["everybody"]
    else:
        needs = [*tool.access.permissions] or ["authenticated users"]
    if tool.access.predicate is not None:
        needs.append("the procedure's own auth")
    return " + ".join(needs)


def _described(tool: Tool) -> dict[str, Any]:
    return {
        **tool.definition(LATEST),
        "source": tool.source,
        "public": tool.access.public,
        "permissions": list(tool.access.permissions),
    }


def _context(name: str) -> Context:
    user = named_user(name)
    request = HttpRequest()
    request.user = user
    return Context(user=user, request=request, revision=LATEST)

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_bridge.management.base import named_source


class Command(BaseCommand):
    help = "Show which methods of a gRPC source are tools, and why the others are none."

    # A descriptor set that is not there yet is a finding of the checks.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", help="The name of the source in MCP_BRIDGE['SOURCES'].")

    def handle(self, *args: Any, source: str, **options: Any) -> None:
        found = named_source(source)
        # Not by its class, whose module needs the extra.
        outcomes: dict[str, str] | None = getattr(found, "outcomes", None)
        if outcomes is None:
            raise CommandError(
                f"MCP_BRIDGE['SOURCES'][{source!r}] cannot be used: it is no source of gRPC."
            )
        found.tools()
        width = max(map(len, outcomes), default=0)
        for path, told in outcomes.items():
            self.stdout.write(f"{path:<{width}}  {told}")
        for message in found.messages:
            self.stderr.write(str(message))

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_bridge.management.base import named_source
from mcp_bridge.sources.base import first_line


class Command(BaseCommand):
    help = (
        "Show which methods of a gRPC source are tools, and why others are not; write its "
        "descriptor set from the server's reflection, or compare the two."
    )

    # Checks would fail if the descriptor set does not exist yet.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", help="The name of the source in MCP_BRIDGE['SOURCES'].")
        group = parser.add_mutually_exclusive_group()
        group.add_argument(
            "--reflect",
            action="store_true",
            help="Write the descriptor set from the server's reflection, without comments.",
        )
        group.add_argument(
            "--check",
            action="store_true",
            help="Fail if the services of the server differ from the descriptor set.",
        )

    def handle(self, *args: Any, source: str, reflect: bool, check: bool, **options: Any) -> None:
        found = named_source(source)
        # Imported here, since it needs the extra.
        from mcp_bridge.ext.grpc.source import GRPCSource

        if not isinstance(found, GRPCSource):
            raise CommandError(f"MCP_BRIDGE['SOURCES'][{source!r}] is not a gRPC source.")
        if reflect or check:
            self._ask(found, check)
        found.tools()
        width = max(map(len, found.outcomes), default=0)
        for path, told in found.outcomes.items():
            self.stdout.write(f"{path:<{width}}  {told}")
        for message in found.messages:
            self.stderr.write(str(message))

    def _ask(self, source: Any, check: bool) -> None:
        from mcp_bridge.ext.grpc.descriptors import Descriptors
        from mcp_bridge.ext.grpc.reflection import differences, reflect

        path = source.path
        try:
            known = path.read_bytes() if path.exists() else None
            reflected = reflect(source.channel.get(), source.limits["timeout"])
        except (OSError, ValueError) as exception:
            told = first_line(exception)
            raise CommandError(f"{source.target} {told}.") from exception
        if check:
            if known is None:
                raise CommandError(f"There is no {path}: write it with --reflect, or with protoc.")
            if found := list(differences(known, reflected)):
                raise CommandError("\n".join(found))
            return
        if known is not None and Descriptors(known).has_comments:
            raise CommandError(
                f"{path} has comments, which the tools' descriptions come from, and reflection "
                "would lose them: compare the two with --check, or move the file away first."
            )
        path.write_bytes(reflected)
        self.stderr.write(f"{path}: written ({len(reflected)} bytes).")

from __future__ import annotations

import logging
from collections.abc import Iterable
from json import dumps

from django.core import checks
from django.core.management.base import CommandError, CommandParser

from mcp_bridge.access.policy import visible
from mcp_bridge.features import Candidate, Tool
from mcp_bridge.management.base import TablesCommand, named_user
from mcp_bridge.management.missing import why_missing
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry.definitions import sent_definition
from mcp_bridge.registry.linting import budget, tokens
from mcp_bridge.registry.linting import lint as lint_tool
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.registry.tool_status import ToolStatus, read_settings, status_of


class Command(TablesCommand):
    help = (
        "List the tools: from which file and line, who may use them, whether they are on, and what "
        "is left out and why."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--user", help="Only what this user may see and call, and why the rest is missing."
        )
        parser.add_argument(
            "--candidates",
            action="store_true",
            help="Instead, the operations without a mark that an administrator may switch on, none "
            "of which is built.",
        )
        parser.add_argument("--json", action="store_true", help="As JSON, schemas included.")
        parser.add_argument(
            "--lint",
            action="store_true",
            help="Instead, what strict clients refuse in the definitions, and what those cost. "
            "Fails where there is something, so that it can stand in a build.",
        )
        parser.add_argument(
            "--fail-level",
            default="WARNING",
            choices=["CRITICAL", "ERROR", "WARNING", "INFO"],
            help="The least serious kind of finding that makes --lint fail (default: WARNING).",
        )

    def handle(
        self,
        *,
        user: str | None,
        candidates: bool,
        json: bool,
        lint: bool,
        fail_level: str,
        skip_checks: bool,
        **options: object,
    ) -> None:
        discovered = registry.discovered
        if candidates:
            self._list_candidates(discovered, json)
            return
        caller = None if user is None else named_user(user)
        tools = list(discovered if caller is None else visible(caller))
        if lint:
            found = [*discovered.messages, *(each for tool in tools for each in lint_tool(tool))]
            self._report(found, tools, getattr(checks, fail_level))
            return
        settings = read_settings()
        listed = [(tool, status_of(tool, settings.get(tool.name))) for tool in tools]
        if json:
            described = [
                {
                    **sent_definition(tool, LATEST),
                    "source": tool.source,
                    "public": tool.access.public,
                    "permissions": list(tool.access.permissions),
                    "status": status,
                }
                for tool, status in listed
            ]
            self.stdout.write(dumps(described, indent=2))
            return
        for tool, status in listed:
            self.stdout.write(self.style.MIGRATE_HEADING(tool.name))
            self.stdout.write(f"    source: {tool.source}\n    access: {tool.access.words}")
            self._write_hints(tool)
            if status is not ToolStatus.SERVED:
                self.stdout.write(f"    state:  {status.label}")
        whose = "" if user is None else f" for {user}"
        self.stdout.write(f"\n{len(tools)} of {len(discovered)} tools{whose}.")
        # The checks that have run before a command print these.
        for message in discovered.messages if skip_checks else ():
            self.stderr.write(self.style.WARNING(f"{message.id}: {message.msg}"))
        if caller is not None:
            for tool in discovered:
                why = why_missing(tool.name, caller)
                if why is not None:
                    self.stderr.write(f"{tool.name}: {why}")

    def _list_candidates(self, discovered: Snapshot, json: bool) -> None:
        offered = discovered.candidates.values()
        if json:
            described = [
                {
                    "name": each.name,
                    "summary": str(each.summary),
                    "source": each.source,
                    "offered_by": alias,
                    "app": each.app,
                    "access": each.who,
                    "annotations": dict(each.annotations),
                    "status": "on" if each.name in discovered.tools else "off",
                }
                for each, alias in offered
            ]
            self.stdout.write(dumps(described, indent=2))
            return
        for each, alias in offered:
            self.stdout.write(self.style.MIGRATE_HEADING(each.name))
            source = f"{alias}, {each.source}" if each.source else alias
            self.stdout.write(f"    source: {source}\n    access: {each.who or 'not known yet'}")
            self._write_hints(each)
            if each.name in discovered.tools:
                self.stdout.write("    state:  switched on")
        on = len(discovered.candidates.keys() & discovered.tools.keys())
        self.stdout.write(f"\n{len(offered)} candidates, {on} of them switched on in the admin.")

    def _write_hints(self, of: Tool | Candidate) -> None:
        if hints := ", ".join(name for name, is_so in of.annotations.items() if is_so):
            self.stdout.write(f"    hints:  {hints}")

    def _report(self, found: Iterable[checks.CheckMessage], tools: list[Tool], level: int) -> None:
        shown = [message for message in found if not message.is_silenced()]
        for message in shown:
            # Django's levels are those of logging.
            kind = logging.getLevelName(message.level)
            self.stdout.write(f"{kind} {message.id}: {message.msg}\n    {message.hint}")
        sizes = {tool.name: budget(tool) for tool in tools}
        for name, size in sorted(sizes.items(), key=lambda each: -each[1]):
            self.stdout.write(f"{size:>8} bytes, {tokens(size):>6} tokens  {name}")
        total = sum(sizes.values())
        self.stdout.write(
            f"{len(tools)} tools take {total} bytes: about {tokens(total)} tokens (bytes / 4, an "
            "approximation)."
        )
        grave = sum(message.level >= level for message in shown)
        if grave:
            raise CommandError(f"{grave} of {len(shown)} findings must be mended.")

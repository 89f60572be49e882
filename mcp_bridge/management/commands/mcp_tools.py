from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from json import dumps

from django.core import checks
from django.core.management.base import CommandError, CommandParser

from mcp_bridge.access.policy import visible
from mcp_bridge.conf import conf
from mcp_bridge.features import Candidate, Tool
from mcp_bridge.management.base import TablesCommand, check_names, named_user
from mcp_bridge.management.missing import why_missing
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry.definitions import sent_definition
from mcp_bridge.registry.linting import budget, lint_list
from mcp_bridge.registry.linting import lint as lint_tool
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.registry.tool_status import ToolStatus, read_settings, status_of, with_settings
from mcp_bridge.registry.toolsets import DEFAULT, members


class Command(TablesCommand):
    help = (
        "List the tools: from which file and line, who may use them, whether they are on, how many "
        "tokens of a model they take, and what is left out and why."
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
        parser.add_argument("--toolset", help="Only the tools of this toolset.")
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
        toolset: str | None,
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
        toolsets = {name: set(members(each, tools)) for name, each in conf.toolsets.items()}
        if toolset is not None:
            check_names("toolset", [toolset], toolsets)
            toolsets = {toolset: toolsets[toolset]}
            tools = [tool for tool in tools if tool in toolsets[toolset]]
        settings = read_settings()
        listed = [(tool, status_of(tool, settings.get(tool.name))) for tool in tools]
        tokens = {
            tool: budget(
                with_settings(tool, settings[tool.name]) if tool.name in settings else tool
            )
            for tool in tools
        }
        lists = {f"Toolset {name}": part for name, part in toolsets.items()}
        if toolset is None and DEFAULT not in toolsets:
            lists = {"All tools": set(tools), **lists}
        served = {tool for tool, status in listed if status is ToolStatus.SERVED}
        sizes = {name: [tokens[tool] for tool in part & served] for name, part in lists.items()}
        if lint:
            found = [*discovered.messages, *(each for tool in tools for each in lint_tool(tool))]
            for name, part_sizes in sizes.items():
                found += lint_list(name, len(part_sizes), sum(part_sizes))
            self._report(found, getattr(checks, fail_level), tokens, sizes)
            return
        if json:
            described = [
                {
                    **sent_definition(tool, LATEST),
                    "source": tool.source,
                    "public": tool.access.public,
                    "permissions": list(tool.access.permissions),
                    "status": status,
                    "tokens": tokens[tool],
                    "toolsets": [name for name, part in toolsets.items() if tool in part],
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
            self.stdout.write(f"    tokens: {tokens[tool]:,}")
        whose = "" if user is None else f" for {user}"
        self.stdout.write(f"\n{len(tools)} of {len(discovered)} tools{whose}.")
        self._write_sizes(sizes)
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

    def _write_sizes(self, sizes: Mapping[str, list[int]]) -> None:
        """Write how long each list of tools is, by what its tools that are on take."""
        for name, tokens in sizes.items():
            self.stdout.write(
                f"{name}: {len(tokens):,} on, about {sum(tokens):,} tokens (bytes / 4)."
            )

    def _report(
        self,
        found: Iterable[checks.CheckMessage],
        level: int,
        tokens: Mapping[Tool, int],
        sizes: Mapping[str, list[int]],
    ) -> None:
        shown = [message for message in found if not message.is_silenced()]
        for message in shown:
            # Django's levels are those of logging.
            kind = logging.getLevelName(message.level)
            self.stdout.write(f"{kind} {message.id}: {message.msg}\n    {message.hint}")
        for tool, size in sorted(tokens.items(), key=lambda each: -each[1]):
            self.stdout.write(f"{size:>7,} tokens  {tool.name}")
        self._write_sizes(sizes)
        grave = sum(message.level >= level for message in shown)
        if grave:
            raise CommandError(f"{grave} of {len(shown)} findings must be mended.")

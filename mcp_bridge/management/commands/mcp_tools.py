from __future__ import annotations

import logging
from json import dumps
from typing import Any, NamedTuple

from django.core import checks
from django.core.management.base import CommandError, CommandParser

from mcp_bridge.access.policy import context_for, may_discover, visible
from mcp_bridge.conf import conf
from mcp_bridge.features import Feature, Tool
from mcp_bridge.management.base import TablesCommand, check_names, named_user, why_missing
from mcp_bridge.management.formats import FORMATS
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry.definitions import app_of, sent_definition
from mcp_bridge.registry.linting import budget, lint_list
from mcp_bridge.registry.linting import lint as lint_tool
from mcp_bridge.registry.listing import members, title_of
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.registry.tool_status import ToolStatus, read_settings, status_of, with_settings

# The tokens of each enabled tool, by the title of its list.
Lengths = dict[str, list[int]]


class Command(TablesCommand):
    help = (
        "List the tools: their source, who may use them, whether they are enabled, how many tokens "
        "of a model they use, and which are omitted and why."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--user", help="List only what this user may see and call, and why others are missing."
        )
        parser.add_argument(
            "--candidates",
            action="store_true",
            help="Instead, list the unmarked operations that an administrator may enable, without "
            "building them.",
        )
        parser.add_argument("--toolset", help="List only the tools of this toolset.")
        parser.add_argument("--json", action="store_true", help="Print as JSON, including schemas.")
        parser.add_argument(
            "--format",
            choices=[*FORMATS],
            help="Instead, print a document that describes the enabled tools: OpenAPI of their "
            "REST addresses, OpenRPC, or a reference in Markdown.",
        )
        parser.add_argument(
            "--lint",
            action="store_true",
            help="Instead, report what strict clients reject in the definitions, and their size. "
            "Fails if there are findings, for use in CI.",
        )
        parser.add_argument(
            "--fail-level",
            default="WARNING",
            choices=["CRITICAL", "ERROR", "WARNING", "INFO"],
            help="The lowest level of finding that makes --lint fail (default: WARNING).",
        )

    def handle(self, *, user: str | None, toolset: str | None, json: bool, **options: Any) -> None:
        self.warn_of_settings()
        discovered = registry.discovered
        if options["candidates"]:
            self._list_candidates(discovered, json)
            return
        caller = None if user is None else named_user(user)
        tools = list(discovered.by_label.values()) if caller is None else visible(caller)
        lists = [*discovered.lists()]
        if toolset is not None:
            check_names("toolset", [toolset], conf.toolsets)
            tools, lists = list(members(conf.toolsets[toolset], tools)), [toolset]
        if options["format"] is not None:
            part = registry.snapshot.of(toolset)
            assert part is not None, "its name has been checked"
            seen = part.by_label if caller is None else [tool.label for tool in visible(caller)]
            described = [tool for tool in part.tools.values() if tool.label in seen]
            self.stdout.write(FORMATS[options["format"]](described, toolset))
            return
        settings, rows = read_settings(), []
        for tool in tools:
            setting = settings.get(tool.key)
            tokens = budget(tool if setting is None else with_settings(tool, setting))
            names = [it for it in conf.toolsets if any(members(conf.toolsets[it], [tool]))]
            rows.append(Row(tool, status_of(tool, setting), tokens, names))
        served = [row for row in rows if row.status is ToolStatus.SERVED]
        lengths = {
            title_of(name): [row.tokens for row in served if name is None or name in row.toolsets]
            for name in lists
        }
        if options["lint"]:
            found = [*discovered.messages, *(each for tool in tools for each in lint_tool(tool))]
            self._report(found, rows, lengths, getattr(checks, options["fail_level"]))
            return
        if json:
            self.stdout.write(dumps([row.to_json() for row in rows], indent=2))
            return
        for row in rows:
            state = "" if row.status is ToolStatus.SERVED else str(row.status.label)
            self._write(row.tool, row.tool.source, state)
            self.stdout.write(f"    tokens: {row.tokens:,}")
        whose = "" if user is None else f" for {user}"
        noun = "tools" if discovered.kinds <= {Tool.kind} else "tools, resources and prompts"
        self.stdout.write(f"\n{len(tools)} of {len(discovered)} {noun}{whose}.")
        self._write_lengths(lengths)
        for message in discovered.messages:
            self.stderr.write(self.style.WARNING(f"{message.id}: {message.msg}"))
        if caller is not None:
            for label in discovered.by_label:
                why = why_missing(label, caller)
                if why is not None:
                    self.stderr.write(f"{label}: {why}")
            if not may_discover(context_for(caller)):
                name = conf.DISCOVERY_PERMISSION
                text = f"{user} may not list tools: lacks {name} (DISCOVERY_PERMISSION)."
                self.stderr.write(self.style.WARNING(text))

    def _list_candidates(self, discovered: Snapshot, json: bool) -> None:
        offered = discovered.candidates.values()
        if json:
            described = [
                {
                    "name": each.name,
                    "summary": str(each.description),
                    "source": each.source,
                    "offered_by": each.source_alias,
                    "app": app_of(each),
                    "access": each.access.words,
                    "annotations": dict(each.annotations),
                    "status": "on" if each.name in discovered.tools else "off",
                }
                for each in offered
            ]
            self.stdout.write(dumps(described, indent=2))
            return
        for each in offered:
            source = ", ".join(filter(None, (each.source_alias, each.source)))
            self._write(each, source, "enabled" * (each.name in discovered.tools))
        on = len(discovered.candidates.keys() & discovered.tools.keys())
        self.stdout.write(f"\n{len(offered)} candidates, {on} of them enabled in the admin.")

    def _write(self, tool: Feature, source: str, state: str) -> None:
        """Print the details of a tool."""
        self.stdout.write(self.style.MIGRATE_HEADING(tool.label))
        self.stdout.write(f"    source: {source}\n    access: {tool.access.words}")
        annotations = tool.annotations if isinstance(tool, Tool) else {}
        if hints := ", ".join(name for name, is_so in annotations.items() if is_so):
            self.stdout.write(f"    hints:  {hints}")
        if state:
            self.stdout.write(f"    state:  {state}")

    def _write_lengths(self, lengths: Lengths) -> None:
        for name, sizes in lengths.items():
            self.stdout.write(
                f"{name}: {len(sizes):,} enabled, about {sum(sizes):,} tokens (bytes / 4)."
            )

    def _report(
        self, found: list[checks.CheckMessage], rows: list[Row], lengths: Lengths, level: int
    ) -> None:
        for name, sizes in lengths.items():
            found += lint_list(name, len(sizes), sum(sizes))
        shown = [message for message in found if not message.is_silenced()]
        for message in shown:
            # Django's levels equal those of logging.
            kind = logging.getLevelName(message.level)
            self.stdout.write(f"{kind} {message.id}: {message.msg}\n    {message.hint}")
        for row in sorted(rows, key=lambda row: -row.tokens):
            self.stdout.write(f"{row.tokens:>7,} tokens  {row.tool.name}")
        self._write_lengths(lengths)
        grave = sum(message.level >= level for message in shown)
        if grave:
            raise CommandError(f"{grave} of {len(shown)} findings must be fixed.")


class Row(NamedTuple):
    """A tool with its status, its size in tokens as served, and its toolsets."""

    tool: Feature
    status: ToolStatus
    tokens: int
    toolsets: list[str]

    def to_json(self) -> dict[str, object]:
        return {
            **sent_definition(self.tool, LATEST),
            "kind": self.tool.kind,
            "source": self.tool.source,
            "public": self.tool.access.public,
            "permissions": list(self.tool.access.permissions),
            "status": self.status,
            "tokens": self.tokens,
            "toolsets": self.toolsets,
        }

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.core import checks
from django.core.management.base import CommandError, CommandParser

from mcp_bridge.access.policy import visible
from mcp_bridge.checks.tools import lint_messages
from mcp_bridge.features.tools import Tool
from mcp_bridge.management.tables import TablesCommand
from mcp_bridge.management.users import named_user
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry import tool_status
from mcp_bridge.registry.linting import budget, tokens
from mcp_bridge.registry.registry import registry

LEVELS: Final = {
    "CRITICAL": checks.CRITICAL,
    "ERROR": checks.ERROR,
    "WARNING": checks.WARNING,
    "INFO": checks.INFO,
    "DEBUG": checks.DEBUG,
}


class Command(TablesCommand):
    help = (
        "List the tools: from which file and line, who may use them, whether they are on, and what "
        "is left out and why."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", help="Only what this user may see and call.")
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
            choices=[level for level in LEVELS if level != "DEBUG"],
            help="The least serious kind of finding that makes --lint fail (default: WARNING).",
        )

    def handle(self, *args: Any, user: str | None, **options: Any) -> None:
        discovered = registry.discovered
        tools = list(discovered if user is None else visible(named_user(user)))
        if options["lint"]:
            found = [*discovered.messages, *lint_messages(tools, minor=True)]
            self._report(found, tools, LEVELS[options["fail_level"]])
            return
        settings = tool_status.read_settings()
        statuses = {
            tool.name: tool_status.status_of(tool, settings.get(tool.name)) for tool in tools
        }
        if options["json"]:
            told = [{**_described(tool), "status": statuses[tool.name]} for tool in tools]
            self.stdout.write(json.dumps(told, indent=2))
            return
        self._table(tools, statuses)
        whose = "" if user is None else f" for {user}"
        self.stdout.write(f"\n{len(tools)} of {len(discovered)} tools{whose}.")
        for message in discovered.messages:
            self.stderr.write(self.style.WARNING(f"{message.id}: {message.msg}"))

    def _report(self, found: Iterable[checks.CheckMessage], tools: list[Tool], level: int) -> None:
        told = [message for message in found if not message.is_silenced()]
        for message in told:
            kind = {number: name for name, number in LEVELS.items()}[message.level]
            self.stdout.write(f"{kind} {message.id}: {message.msg}\n    {message.hint}")
        sizes = {tool.name: budget(tool) for tool in tools}
        for name, size in sorted(sizes.items(), key=lambda each: -each[1]):
            self.stdout.write(f"{size:>8} bytes, {tokens(size):>6} tokens  {name}")
        total = sum(sizes.values())
        self.stdout.write(
            f"{len(tools)} tools take {total} bytes: about {tokens(total)} tokens (bytes / 4, an "
            "approximation)."
        )
        grave = sum(message.level >= level for message in told)
        if grave:
            raise CommandError(f"{grave} of {len(told)} findings must be mended.")

    def _table(self, tools: Iterable[Tool], statuses: Mapping[str, tool_status.ToolStatus]) -> None:
        for tool in tools:
            hints = ", ".join(name for name, is_so in tool.annotations.items() if is_so)
            is_served = statuses[tool.name] is tool_status.ToolStatus.SERVED
            self.stdout.write(self.style.MIGRATE_HEADING(tool.name))
            self.stdout.write(f"    source: {tool.source}\n    access: {access(tool)}")
            if hints:
                self.stdout.write(f"    hints:  {hints}")
            if not is_served:
                self.stdout.write(f"    state:  {statuses[tool.name].label}")


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

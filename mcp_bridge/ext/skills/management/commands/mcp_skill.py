from __future__ import annotations

import json
from pathlib import Path

from django.apps import apps
from django.core.management.base import CommandError, CommandParser

from mcp_bridge.conf import conf
from mcp_bridge.ext.skills.folders import MANIFEST, NAME
from mcp_bridge.ext.skills.source import PLACE
from mcp_bridge.features import Tool
from mcp_bridge.management.base import TablesCommand, check_names
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.registry import registry


class Command(TablesCommand):
    help = "Write a skill: instructions for models on how to use some tools together."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        new = commands.add_parser("new", help="Write a skill from the tools of a toolset.")
        new.add_argument("name", help='The name of the skill: "edit-an-article".')
        new.add_argument("--app", required=True, help="The label of the app that gets the skill.")
        new.add_argument("--toolset", help="The toolset whose tools it uses (default: all tools).")

    def handle(
        self, *, command: str, name: str, app: str, toolset: str | None, **options: object
    ) -> None:
        if not NAME.fullmatch(name):
            raise CommandError(
                f"{name!r} cannot be the name of a skill: use lower-case letters, digits and "
                "single hyphens between them, at most 64 characters."
            )
        labels = {each.label: each for each in apps.get_app_configs()}
        check_names("app", [app], labels)
        if toolset is not None:
            check_names("toolset", [toolset], conf.toolsets)
        snapshot = registry.snapshot.of(toolset)
        tools = [] if snapshot is None else [*snapshot.tools.values()]
        if not tools:
            raise CommandError("The list of tools is empty.")
        file = Path(labels[app].path, PLACE, name, MANIFEST)
        try:
            file.parent.mkdir(parents=True)
        except FileExistsError:
            raise CommandError(f"The folder {file.parent} exists.") from None
        named = dict(conf.toolsets[toolset]) if toolset is not None else {}
        file.write_text(skill_of(name, tools, str(named.get("instructions") or "")), "utf-8")
        needed = sorted({each for tool in tools for each in tool.access.permissions})
        is_held = conf.NEW_TOOLS == "disabled"
        self.stdout.write(
            f"Written: {file}\nDescribe when to use the skill in its description, and the order of "
            "the calls below it.\n"
            + ("It is pending approval in the admin." if is_held else "It is served at once.")
        )
        if needed:
            entry = json.dumps({name: {"permissions": needed}})
            self.stdout.write(
                f'To restrict it to users who may call its tools, set "SKILLS": {entry}.'
            )


def skill_of(name: str, tools: list[Tool], instructions: str) -> str:
    """Return the text of a SKILL.md that uses tools."""
    title = name.replace("-", " ").capitalize()
    told = ", ".join(each.name for each in tools)
    description = cut(f"{title} with the tools {told}.", 1024)
    lines = [f"- `{each.name}`: {first_sentence(str(each.description))}" for each in tools]
    for number, tool in enumerate(tools):
        if tool.options.confirm:
            lines[number] += " A person confirms each call."
    # Quoted, since "123" is a number.
    parts = [
        f"---\nname: {json.dumps(name)}\ndescription: {description}\n---",
        f"# {title}",
        instructions,
    ]
    return "\n\n".join([*filter(None, parts), "## Tools", "\n".join(lines)]) + "\n"


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, in one line."""
    sentence, full_stop, _ = " ".join(text.split()).partition(". ")
    return sentence + "." * bool(full_stop)

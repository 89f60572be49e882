"""Warnings of tools that nobody can use, or that everybody can."""

from __future__ import annotations

from django.utils.translation import gettext

from mcp_bridge.admin.audience import Audience
from mcp_bridge.features import Tool


def warning(tool: Tool, audience: Audience) -> str:
    """Return a warning of who can use a tool once it is served; empty where there is none."""
    if audience.public:
        return _of_everybody(tool, audience)
    if audience.count == 0:
        return _of_nobody(tool)
    # What the code's own rule refuses is not known here.
    if audience.is_every_user and not audience.further and may_delete(tool):
        return gettext("Every user of the site can use it, and it may delete or overwrite.")
    return ""


def may_delete(tool: Tool) -> bool:
    """Return whether a tool may delete; one that says nothing of it may, as clients read it."""
    # MCP schema, ToolAnnotations: the default of destructiveHint is true.
    return not tool.is_read_only and tool.annotations.get("destructiveHint", True)


def _of_everybody(tool: Tool, audience: Audience) -> str:
    if tool.is_read_only or audience.further:
        return ""
    return gettext("Everybody can use it, signed in or not, and it may change data.")


def _of_nobody(tool: Tool) -> str:
    if tool.access.groups is None:
        return gettext("Nobody can use it: no active user has the permissions that it needs.")
    if not tool.access.groups:
        return gettext("Nobody can use it: it is only for groups, and no group is chosen.")
    return gettext(
        "Nobody can use it: no active user is in its groups and has the permissions that it needs."
    )

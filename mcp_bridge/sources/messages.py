"""What the checks say of tools, whatever source they are from."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from django.core import checks

from mcp_bridge.sources.base import PACKAGES, NotYet, first_line

# The names that the large clients accept.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class IllegalName(ValueError):
    """A name that clients refuse for a tool."""


def check_name(name: str, where: str, *, is_dotted: bool = False) -> None:
    """Raise IllegalName for a name that clients refuse; ``is_dotted`` where dots are wanted."""
    if not _NAME.fullmatch(name) or ("." in name and not is_dotted):
        raise IllegalName(f"{name!r} ({where}) is no name for a tool")


def unserved(error: str, warning: str, text: str, hint: str, module: str) -> checks.CheckMessage:
    """
    Return the message on code that cannot be a tool: an error with the first id.

    It is a warning with the second id if the module belongs to an installed package, which the site
    cannot repair: no command stops for it.
    """
    if _is_installed(module):
        return checks.Warning(text, hint=hint, id=f"mcp_bridge.{warning}")
    return checks.Error(text, hint=hint, id=f"mcp_bridge.{error}")


def _is_installed(module: str) -> bool:
    """Return whether a module, or the nearest package above it that is loaded, is installed."""
    while module:
        file = getattr(sys.modules.get(module), "__file__", None)
        if file:
            return not PACKAGES.isdisjoint(Path(file).parts)
        module = module.rpartition(".")[0]
    return False


def illegal_name(exception: IllegalName) -> checks.CheckMessage:
    """Return the error of a tool that has an illegal name."""
    return checks.Error(
        f"{exception}, so it is not served.",
        hint="Clients accept 1 to 64 of the characters A-Z a-z 0-9 _ and -: give "
        "mcp_tool(name=...), or the name that the source has for that.",
        id="mcp_bridge.E005",
    )


def no_description(where: str) -> checks.CheckMessage:
    """Return the warning on a tool without a description."""
    return checks.Warning(
        f"{where} has no description.",
        hint="Write a docstring that tells a model what the tool does and when to use it, or give "
        "mcp_tool(description=...).",
        id="mcp_bridge.W002",
    )


def not_yet(where: str, exception: Exception) -> NotYet:
    """Return the message of a tool whose description reads from the database what is not there."""
    return NotYet(
        f"{where} is not served yet, since its types read from the database: "
        f"{first_line(exception)}.",
        hint="Run manage.py migrate and add the rows that are missing: a process that runs already "
        "tries again by itself.",
        id="mcp_bridge.W019",
    )

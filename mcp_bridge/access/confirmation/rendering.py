"""
A call's arguments as a person reads them before agreeing: all of them, but no secrets.

What is secret is judged as for a record (``mcp_bridge.audit.redaction``). Unlike there,
nothing is cut and nothing is too deep to be shown: nobody can agree to what is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from mcp_bridge.audit.redaction import SensitiveFields, sensitive_fields
from mcp_bridge.features.tools import Tool

HIDDEN: Final = "•••"
# Strings of JSON in one another; beyond, one is shown as the string it is, or not at all.
_MOST_INSIDE: Final = 2
# What Python takes to be printable, though a page shows nothing of it (Unicode, Default_Ignorable).
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def render_arguments(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The arguments as indented JSON in which every character shows; secrets are replaced."""
    text = json.dumps(_shown(arguments, sensitive_fields(tool)), indent=2, ensure_ascii=False)
    # What JSON has in strings is escaped already, so that a new line is one of the indented text.
    return "\n".join(map(_visible, text.split("\n")))


def _visible(line: str) -> str:
    if line.isprintable() and not _BLANK.search(line):
        return line
    hidden = (each for each in set(line) if not each.isprintable() or _BLANK.match(each))
    return line.translate({ord(each): json.dumps(each)[1:-1] for each in hidden})


def _shown(value: Any, secrets: SensitiveFields, inside: int = 0) -> Any:
    """The value without its secrets; ``inside`` is in how many strings of JSON it stands."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if secrets.hides(name) else _shown(each, secrets, inside)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_shown(each, secrets, inside) for each in value]
    return _text(value, secrets, inside) if isinstance(value, str) else value


def _text(text: str, secrets: SensitiveFields, inside: int) -> str:
    """The text as it was sent, unless it is JSON with secrets in it."""
    if inside == _MOST_INSIDE:
        return HIDDEN if secrets.are_named_in(text) else text
    inner = secrets.read(text)
    if inner is None or inner is text:
        return HIDDEN if inner is None else text
    shown = _shown(inner, secrets, inside + 1)
    return text if shown == inner else json.dumps(shown, ensure_ascii=False)

"""
Renders the arguments of a call for the people who decide whether it runs.

Values are hidden if the tool's schema marks them as secret (``records.redaction``) or by name.
Unlike in a record, nothing that the caller writes can hide a value.
"""

from __future__ import annotations

import json
from typing import Final

from mcp_bridge.conf import conf
from mcp_bridge.features import Feature
from mcp_bridge.features.secrets import names_secret
from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.text import printable, shows
from mcp_bridge.records.redaction import is_marked
from mcp_bridge.schemas.walk import SchemaDocument

HIDDEN: Final = "•••"


def render_arguments(tool: Feature, arguments: JSONObject) -> str:
    """Return the arguments as indented JSON with all characters visible, without secrets."""
    # Never truncated, unlike in a record: people must see all that they approve.
    shown = json.loads(json.dumps({**arguments}))
    try:
        document = SchemaDocument(tool.input_schema)
        marked = {id(each) for each in document.subschemas if is_marked(each, document)}
        for place in document.visit(shown):
            is_secret = not marked.isdisjoint(map(id, place.schemas))
            if is_secret or place.is_named and names_secret(str(place.key), conf.sensitive_names):
                place.holder[place.key] = HIDDEN
    except (AttributeError, TypeError, ValueError):
        # The schema of a site's own source is invalid.
        shown = dict.fromkeys(arguments, HIDDEN)
    return visible(json.dumps(shown, indent=2, ensure_ascii=False))


def named_values(arguments: str) -> list[tuple[str, str, bool]]:
    """
    Return the names and values of rendered arguments, and whether each value is nested.

    Values are JSON, except texts that cannot be confused with it and hide nothing. Arguments other
    than an object do not have names: the result is empty.
    """
    members, found = json.loads(arguments), []
    for name, value in members.items() if isinstance(members, dict) else ():
        is_plain = _is_plain(value)
        text = value if is_plain else visible(json.dumps(value, indent=2, ensure_ascii=False))
        found.append((printable(name), text, not is_plain and "\n" in text))
    return found


def _is_plain(value: object) -> bool:
    """Return whether a value is a text that is read as such, with all that it contains."""
    if not isinstance(value, str) or not value or value != value.strip() or "\n\n\n" in value:
        return False
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return all(shows(each) or each == "\n" for each in value)
    return False


def visible(text: str) -> str:
    """Return JSON in which invisible and direction-changing characters are escaped."""
    hidden = {each for each in set(text) if not shows(each)}
    # JSON has escaped newlines in strings already; those left are its own.
    return text.translate({ord(each): json.dumps(each)[1:-1] for each in hidden - {"\n"}})

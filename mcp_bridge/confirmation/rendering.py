"""
The arguments of a call, as people read them who decide whether it runs.

Hidden is what the tool's schema says is a secret, by a mark (``records.redaction``) or a name.
Nothing that a caller writes hides anything, unlike in a record, which hides all that may be one.
"""

from __future__ import annotations

import json
from typing import Final

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.features.secrets import names_secret
from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.text import shows
from mcp_bridge.records.redaction import is_marked
from mcp_bridge.schemas.walk import SchemaDocument

HIDDEN: Final = "•••"


def render_arguments(tool: Tool, arguments: JSONObject) -> str:
    """Return the arguments as indented JSON in which every character shows, without secrets."""
    # Nothing is cut, unlike in a record: nobody can agree to arguments that are not there.
    shown = json.loads(json.dumps({**arguments}))
    try:
        document = SchemaDocument(tool.input_schema)
        marked = {id(each) for each in document.subschemas if is_marked(each, document)}
        for place in document.visit(shown):
            is_secret = not marked.isdisjoint(map(id, place.schemas))
            if is_secret or place.is_named and names_secret(str(place.key), conf.sensitive_names):
                place.holder[place.key] = HIDDEN
    except (AttributeError, TypeError, ValueError):
        # The schema is none, of a source of the site's own.
        shown = dict.fromkeys(arguments, HIDDEN)
    return visible(json.dumps(shown, indent=2, ensure_ascii=False))


def visible(text: str) -> str:
    """Return JSON with escapes for all characters that do not show, or turn what follows."""
    hidden = {each for each in set(text) if not shows(each)}
    # JSON has escaped the new lines in texts already: those that are left are its own.
    return text.translate({ord(each): json.dumps(each)[1:-1] for each in hidden - {"\n"}})

"""
A call's arguments as text for the person who confirms it: all of them, but no secrets.

The secrets are those of a record (``mcp_bridge.audit.redaction``). Unlike there, nothing is cut and
nothing is too deep to be shown: nobody can agree to arguments that are not there.
"""

from __future__ import annotations

import json
import re
from typing import Final

from mcp_bridge.audit.redaction import Redactor, sensitive_fields
from mcp_bridge.features import Tool
from mcp_bridge.protocol import JSONObject

HIDDEN: Final = "•••"
# Texts of JSON inside each other that are read; each may be as deep as a request.
_MAX_INSIDE: Final = 2
# Characters that Python takes to be printable, though a page shows nothing of them (Unicode,
# Default_Ignorable).
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def render_arguments(tool: Tool, arguments: JSONObject) -> str:
    """Return the arguments as indented JSON in which every character shows, without secrets."""
    redactor = Redactor(sensitive_fields(tool), hidden=HIDDEN, max_inside=_MAX_INSIDE)
    text = json.dumps(redactor.value(arguments), indent=2, ensure_ascii=False)
    hidden = {each for each in set(text) if not each.isprintable() or _BLANK.match(each)}
    # JSON has escaped the new lines in texts already: those that are left are its own.
    return text.translate({ord(each): json.dumps(each)[1:-1] for each in hidden - {"\n"}})

"""A call's arguments as a person reads them before agreeing: all of them, but no secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from mcp_bridge.tools import Tool

HIDDEN: Final = "•••"
_SECRET: Final = re.compile(
    r"pass(word|wd|phrase|code)|secret|token|api[_-]?key|private[_-]?key|credential|authorization"
    r"|cookie|signature",
    re.IGNORECASE,
)


def in_words(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The arguments as indented JSON in which every character shows; secrets are replaced."""
    text = json.dumps(_open(arguments, tool.input_schema), indent=2, ensure_ascii=False)
    return "".join(
        each if each.isprintable() or each == "\n" else f"\\u{ord(each):04x}" for each in text
    )


def _open(value: Any, schema: Any) -> Any:
    """The value without what its names, or the schema beside it, say is secret."""
    known = schema if isinstance(schema, Mapping) else {}
    if known.get("writeOnly") is True or known.get("format") == "password":
        return HIDDEN
    if isinstance(value, Mapping):
        inner = known.get("properties", {})
        return {
            name: HIDDEN if _SECRET.search(name) else _open(each, inner.get(name))
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_open(each, known.get("items")) for each in value]
    return value

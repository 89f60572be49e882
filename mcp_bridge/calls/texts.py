"""Read arguments that arrive as text, as those of prompts and templates of URIs do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mcp_bridge.features.feature import as_text
from mcp_bridge.protocol import JSONObject, JSONSchema

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?")
# As Django's NullBooleanField reads them.
_TRUE: Final = frozenset({"true", "on", "yes", "1"})
_FALSE: Final = frozenset({"false", "off", "no", "0"})


def text_checker(
    schema: JSONSchema, check: Callable[[JSONObject], dict[str, Any]]
) -> Callable[[JSONObject], dict[str, Any]]:
    """
    Return a checker of texts by name, which are read by their schema before ``check`` gets them.

    Numbers, booleans and choices are read as forms read them, arrays and objects as JSON. A text
    that cannot be read is left to ``check``. Raises InvalidArguments as ``check`` does.
    """
    known, definitions = schema.get("properties", {}), schema.get("$defs", {})

    def check_texts(arguments: JSONObject) -> dict[str, Any]:
        return check(
            {
                name: _read(as_text(given), known.get(name, {}), definitions)
                for name, given in arguments.items()
            }
        )

    return check_texts


def choices_in(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Any]:
    """Return the values that a schema lists (JSON Schema 2020-12, ``enum`` and ``const``)."""
    found = list[Any]()
    for each in _branches(schema, definitions):
        found += each.get("enum", [each["const"]] if "const" in each else [])
    return found


def _branches(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int = 0
) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those that it combines, without references."""
    if depth > 8:
        return
    yield schema
    named = str(schema.get("$ref", "")).rpartition("/")[2]
    parts = [definitions[named]] if named in definitions else []
    for key in ("anyOf", "oneOf", "allOf"):
        parts += schema.get(key, ())
    for each in parts:
        yield from _branches(each, definitions, depth + 1)


def _read(text: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    for choice in choices_in(schema, definitions):
        if text == as_text(choice):
            return choice
    kinds = set[str]()
    for each in _branches(schema, definitions):
        kind = each.get("type", ())
        kinds |= {kind} if isinstance(kind, str) else {*kind}
    if "string" in kinds:
        return text
    stripped = text.strip()
    if "null" in kinds and not stripped:
        return None
    if "integer" in kinds and _WHOLE.fullmatch(stripped):
        return int(stripped)
    if "number" in kinds and _NUMBER.fullmatch(stripped):
        return float(stripped)
    if "boolean" in kinds and stripped.lower() in _TRUE | _FALSE:
        return stripped.lower() in _TRUE
    if kinds & {"array", "object"}:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text

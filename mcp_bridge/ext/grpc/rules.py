"""The static rules of buf.validate on a field, as keywords of JSON Schema."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_bridge.ext.grpc.descriptors import Descriptor, Message, values_of
from mcp_bridge.schemas import validation as bounded

RULES: Final = "buf.validate.field"
_KEYWORDS: Final = {
    **{"const": "const", "in": "enum", "unique": "uniqueItems"},
    **{"gte": "minimum", "lte": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"},
    **{"min_len": "minLength", "max_len": "maxLength"},
    **{"min_items": "minItems", "max_items": "maxItems"},
    **{"min_pairs": "minProperties", "max_pairs": "maxProperties"},
}
# The kinds of values whose rules no keyword says.
_WITHOUT_KEYWORDS: Final = frozenset({"enum", "any", "duration", "timestamp", "field_mask"})
_FORMATS: Final = frozenset({"email", "uuid", "ipv4", "ipv6", "uri"})
_AFFIXES: Final = {"contains": "{}", "prefix": "^{}", "suffix": "{}$"}
# Not re.escape(), which escapes what other engines may not have escaped.
_SPECIAL: Final = re.compile(r"[\\^$.|?*+()\[\]{}]")
# Rules of texts that JSON Schema has no word for that is checked.
_TOLD: Final = {
    "hostname": "a host name",
    "ip": "an IP address",
    "uri_ref": "a URI or a reference to one",
    "address": "a host name or an IP address",
    "tuuid": "a UUID without dashes",
    "host_and_port": "a host and a port",
}


def keywords_of(
    rules: Message, field: Descriptor, schema: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """
    Return the schema of a field, or of one value of it, with its rules (buf.validate.FieldRules).

    Returned besides are sentences on what no keyword says; the service checks it.
    """
    result, said = dict(schema), values_of(rules)
    if said.get("ignore"):
        return result, []
    notes = [each.message for each in said.get("cel", ()) if each.message]
    kind = rules.WhichOneof("type")
    given = {} if kind is None else values_of(said[kind])
    forbidden = () if kind in ("bytes", "enum") else given.get("not_in", ())
    if kind in _WITHOUT_KEYWORDS:
        given = {}
    if kind == "bytes":
        # Of base64, which has four characters for each three bytes that are begun.
        lengths = given.keys() & {"len", "min_len", "max_len"}
        given = {name: 4 * math.ceil(given[name] / 3) for name in lengths}
    if "len" in given:
        given |= {"min_len": given["len"], "max_len": given["len"]}
    lower, upper = given.get("gte", given.get("gt")), given.get("lte", given.get("lt"))
    if lower is not None and upper is not None and upper < lower:
        notes.append(f"Not between {upper} and {lower}.")
        given = {}
    target = result
    if "anyOf" in result and given:
        # The branch of integers, where the schema takes strings of digits as well.
        target = dict(result["anyOf"][0])
        result["anyOf"] = [target, *result["anyOf"][1:]]
    for rule, value in given.items():
        is_infinite = isinstance(value, float) and not math.isfinite(value)
        if rule in _KEYWORDS and value is not False and not is_infinite:
            target[_KEYWORDS[rule]] = value
    if kind == "string":
        notes += _add_patterns(given, result)
    inner: Mapping[str, Any] = field.message_type.fields_by_name if kind == "map" else {}
    for rule, keyword, part in (
        ("items", "items", field),
        ("values", "additionalProperties", inner.get("value")),
        ("keys", "propertyNames", inner.get("key")),
    ):
        if rule in given and (rule != "keys" or inner["key"].type == field.TYPE_STRING):
            below = result.get(keyword, {"type": "string"})
            result[keyword], more = keywords_of(given[rule], part, below)
            notes += more
    if forbidden:
        notes.append(f"Not one of {', '.join(map(str, forbidden))}.")
    if said.get("required") and not field.has_presence:
        # For what cannot be absent, required means that it is not empty.
        least = {"string": "minLength", "array": "minItems", "object": "minProperties"}
        if is_not_empty := least.get(result.get("type", "")):
            result.setdefault(is_not_empty, 1)
    return result, notes


def breaks(schema: Mapping[str, Any], zero: object) -> bool:
    """Return whether a schema refuses the value that a field has where it is not sent."""
    return not bounded.Bounded(schema, format_checker=bounded.FORMATS).is_valid(zero)


def excluded(rules: Message, numbers: Mapping[str, int]) -> set[str]:
    """Return the names of an enum that the rules exclude."""
    said = values_of(rules)
    if said.get("ignore") or "enum" not in said:
        return set()
    given = values_of(said["enum"])
    wanted = {given["const"]} if "const" in given else set(given.get("in", numbers.values()))
    wanted -= set(given.get("not_in", ()))
    return {name for name, number in numbers.items() if number not in wanted}


def _add_patterns(given: dict[str, Any], result: dict[str, Any]) -> Iterator[str]:
    """Add the patterns and formats of a text, and yield sentences on those that no keyword says."""
    escaped = {name: _SPECIAL.sub(r"\\\g<0>", given[name]) for name in given.keys() & set(_AFFIXES)}
    patterns = [given["pattern"]] if "pattern" in given else []
    patterns += [_AFFIXES[name].format(text) for name, text in sorted(escaped.items())]
    for pattern in patterns:
        try:
            bounded.matcher(pattern)
        except ValueError:
            yield f"Has to match the pattern {pattern}"
            continue
        if "pattern" in result:
            yield f"Has to match the pattern {pattern} too."
        result.setdefault("pattern", pattern)
    for name in given:
        if name in _FORMATS and given[name]:
            result["format"] = name
        elif name in _TOLD and given[name]:
            yield f"Has to be {_TOLD[name]}."

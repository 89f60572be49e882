"""Convert the static buf.validate rules of a field to JSON Schema keywords."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mcp_bridge.ext.grpc.descriptors import Descriptor, Message, values_of
from mcp_bridge.schemas import validation as bounded

RULES: Final = "buf.validate.field"
_FORMATS: Final = {each: each for each in ("email", "uuid", "ipv4", "ipv6", "uri")}
# String rules without an enforced JSON Schema keyword, as words for descriptions.
_TOLD: Final = {
    "hostname": "a host name",
    "ip": "an IP address",
    "uri_ref": "a URI or a reference to one",
    "address": "a host name or an IP address",
    "tuuid": "a UUID without dashes",
    "host_and_port": "a host and a port",
}


def with_rules(
    rules: Message, field: Descriptor, schema: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the schema of a field or value with its rules, and sentences about other rules."""
    result, said = dict(schema), values_of(rules)
    if said.get("ignore"):
        return result, []
    notes = [each.message for each in said.get("cel", ()) if each.message]
    kind = rules.WhichOneof("type")
    if kind is not None:
        given = values_of(said[kind])
        add: Callable[..., Iterator[str]] = _KINDS.get(kind, _of_number)
        notes += add(given, field, result)
        if (forbidden := given.get("not_in")) and kind not in ("bytes", "enum"):
            notes.append(f"Not one of {', '.join(map(str, forbidden))}.")
    if said.get("required") and not field.has_presence:
        # For fields without presence, required means not empty.
        least = {"string": "minLength", "array": "minItems", "object": "minProperties"}
        if keyword := least.get(result.get("type", "")):
            result.setdefault(keyword, 1)
    return result, notes


def breaks(schema: Mapping[str, Any], zero: object) -> bool:
    """Return whether a schema refuses a field's default value."""
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


def _of_string(given: dict[str, Any], field: Descriptor, result: dict[str, Any]) -> Iterator[str]:
    _lengths(given, result, lambda length: length)
    if "const" in given:
        result["const"] = given["const"]
    if "in" in given:
        result["enum"] = given["in"]
    escaped = {name: _SPECIAL.sub(r"\\\g<0>", given[name]) for name in given.keys() & set(_AFFIXES)}
    patterns = [given["pattern"]] if "pattern" in given else []
    patterns += [_AFFIXES[name].format(text) for name, text in sorted(escaped.items())]
    for pattern in patterns:
        try:
            bounded.matcher(pattern)
        except ValueError:
            yield f"Must match the pattern {pattern}"
            continue
        if "pattern" in result:
            yield f"Must also match the pattern {pattern}."
        result.setdefault("pattern", pattern)
    for name in given:
        if name in _FORMATS and given[name]:
            result["format"] = _FORMATS[name]
        elif name in _TOLD and given[name]:
            yield f"Must be {_TOLD[name]}."


_AFFIXES: Final = {"contains": "{}", "prefix": "^{}", "suffix": "{}$"}
# Not re.escape(), which escapes characters that other engines do not allow to be escaped.
_SPECIAL: Final = re.compile(r"[\\^$.|?*+()\[\]{}]")


def _of_bytes(given: dict[str, Any], field: Descriptor, result: dict[str, Any]) -> Iterator[str]:
    # Lengths of Base64, which has four characters for each started group of three bytes.
    _lengths(given, result, lambda length: 4 * math.ceil(length / 3))
    yield from ()


def _lengths(given: dict[str, Any], result: dict[str, Any], size: Callable[[int], int]) -> None:
    for rule, keyword in (("min_len", "minLength"), ("max_len", "maxLength")):
        if (length := given.get("len", given.get(rule))) is not None:
            result[keyword] = size(length)


def _of_number(given: dict[str, Any], field: Descriptor, result: dict[str, Any]) -> Iterator[str]:
    # The integer branch, if the schema accepts strings of digits as well.
    target = result
    if "anyOf" in result:
        first, *others = result["anyOf"]
        target = dict(first)
        result["anyOf"] = [target, *others]
    lower, upper = given.get("gte", given.get("gt")), given.get("lte", given.get("lt"))
    if lower is not None and upper is not None and upper < lower:
        yield f"Not between {upper} and {lower}."
        return
    for rule, keyword in (
        *(("gte", "minimum"), ("lte", "maximum")),
        *(("gt", "exclusiveMinimum"), ("lt", "exclusiveMaximum")),
    ):
        if rule in given and math.isfinite(given[rule]):
            target[keyword] = given[rule]
    if "const" in given:
        target["const"] = given["const"]
    if "in" in given:
        target["enum"] = given["in"]


def _of_items(given: dict[str, Any], field: Descriptor, result: dict[str, Any]) -> Iterator[str]:
    for rule, keyword in (("min_items", "minItems"), ("max_items", "maxItems")):
        if rule in given:
            result[keyword] = given[rule]
    if given.get("unique"):
        result["uniqueItems"] = True
    if "items" in given and "items" in result:
        result["items"], notes = with_rules(given["items"], field, result["items"])
        yield from notes


def _of_pairs(given: dict[str, Any], field: Descriptor, result: dict[str, Any]) -> Iterator[str]:
    for rule, keyword in (("min_pairs", "minProperties"), ("max_pairs", "maxProperties")):
        if rule in given:
            result[keyword] = given[rule]
    if "values" in given:
        value = field.message_type.fields_by_name["value"]
        schema = result["additionalProperties"]
        result["additionalProperties"], notes = with_rules(given["values"], value, schema)
        yield from notes
    if "keys" in given and field.message_type.fields_by_name["key"].type == field.TYPE_STRING:
        key = field.message_type.fields_by_name["key"]
        result["propertyNames"], notes = with_rules(given["keys"], key, {"type": "string"})
        yield from notes


_KINDS: Final[dict[str, Callable[..., Iterator[str]]]] = {
    "string": _of_string,
    "bytes": _of_bytes,
    "repeated": _of_items,
    "map": _of_pairs,
    **dict.fromkeys(("enum", "any", "duration", "timestamp", "field_mask"), lambda *_: iter(())),
}

"""
JSON Schemas of protobuf messages in ProtoJSON, with the field names of the .proto files.

The static rules of buf.validate on a field are keywords.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_bridge.ext.grpc.descriptors import Descriptor, Descriptors, Message, values_of
from mcp_bridge.protocol import JSONSchema
from mcp_bridge.schemas import validation
from mcp_bridge.schemas.walk import DEFS, Bundler, TooLarge

_RULES: Final = "buf.validate.field"
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

_ARGUMENT: Final = "mcp_bridge.argument"
_BEHAVIOR: Final = "google.api.field_behavior"
# The numbers of google.api.FieldBehavior.
_REQUIRED, _OUTPUT_ONLY, _INPUT_ONLY, _IMMUTABLE = 2, 3, 4, 5

_NULL: Final = {"type": "null"}
_DIGITS: Final = r"^(0|-?[1-9][0-9]{0,19})$"
_ZEROS: Final = {"string": "", "boolean": False, "array": [], "object": {}}
_ZERO: Final = {"": 0}
_TRUNCATED: Final = {
    "type": "boolean",
    "description": "Whether the list was cut, so that there may be more.",
}
_ABSENT: Final = (
    'A member that is absent has the value that it has by default: 0, "", false, or none.'
)
# By the number of a type in a FieldDescriptor: bits, and whether it has a sign.
_INTEGERS: Final = {
    **dict.fromkeys((5, 15, 17), (32, True)),
    **dict.fromkeys((7, 13), (32, False)),
    **dict.fromkeys((3, 16, 18), (64, True)),
    **dict.fromkeys((4, 6), (64, False)),
}
_DOUBLE, _FLOAT, _BOOL, _STRING, _BYTES, _ENUM = 1, 2, 8, 9, 12, 14
_PLAIN: Final[Mapping[int, JSONSchema]] = {
    _BOOL: {"type": "boolean"},
    _STRING: {"type": "string"},
    _BYTES: {"type": "string", "contentEncoding": "base64"},
}
# What has a form of its own in ProtoJSON.
_WELL_KNOWN: Final[Mapping[str, JSONSchema]] = {
    "Timestamp": {"type": "string", "format": "date-time"},
    "Duration": {
        "type": "string",
        "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$",
        "description": 'Seconds, as in "3.5s".',
    },
    "FieldMask": {
        "type": "string",
        "pattern": "^[^_]*$",
        "description": 'Names of fields in lowerCamelCase, as in "displayName,address.city".',
    },
    "Struct": {"type": "object"},
    "Value": {},
    "ListValue": {"type": "array"},
    "Any": {
        "type": "object",
        "properties": {
            "@type": {
                "type": "string",
                "description": 'Which message it is, as in "type.googleapis.com/" and its name.',
            }
        },
        "required": ["@type"],
    },
}
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)


def input_schema(descriptors: Descriptors, message: Descriptor) -> JSONSchema:
    """
    Return the schema of arguments that are a message.

    Raises ValueError for a message that is no object in JSON, or beyond the bounds of what can be
    enforced.
    """
    schema = _Schemas(descriptors, is_input=True).of(message)
    if schema.get("type") != "object":
        raise ValueError(f"its request, {message.full_name}, is no object in JSON")
    return schema


def output_schema(descriptors: Descriptors, message: Descriptor, is_stream: bool) -> JSONSchema:
    """
    Return the schema of a result: of a message, or of the list of those of a stream.

    Raises ValueError for one beyond the bounds of what clients take.
    """
    return _Schemas(descriptors, is_input=False).of(message, is_stream)


def is_map(field: Descriptor) -> bool:
    """Return whether a field is a map, which protobuf describes as a list of entries."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


class _Schemas:
    """Schemas of messages as they are sent, or as they are answered."""

    def __init__(self, descriptors: Descriptors, is_input: bool) -> None:
        self._descriptors = descriptors
        self._is_input = is_input
        self._definitions: dict[str, dict[str, Any]] = {}
        self._waiting: list[Descriptor] = []

    def of(self, message: Descriptor, is_stream: bool = False) -> JSONSchema:
        root = dict(self._of_message(message))
        # One by one, since messages may be in each other to any depth.
        while self._waiting:
            each = self._waiting.pop()
            self._definitions[DEFS + each.full_name] = self._object(each)
        if is_stream:
            said = {"description": _ABSENT} if "$ref" in root else {}
            members = {"result": {"type": "array", "items": root, **said}, "truncated": _TRUNCATED}
            root = {"type": "object", "properties": members, "required": list(members)}
        elif "$ref" in root:
            root = dict(self._definitions[root["$ref"]])
            if not self._is_input and root["properties"]:
                root["description"] = _joined(root.get("description"), _ABSENT)
        elif not self._is_input and root.get("type") != "object":
            root = {"type": "object", "properties": {"result": root}, "required": ["result"]}
        try:
            return Bundler(self._definitions.__getitem__).within_bounds(root)
        except TooLarge as why:
            raise ValueError(f"its schema {why}") from None

    def _of_message(self, message: Descriptor) -> JSONSchema:
        name = message.full_name
        if name in _WRAPPERS:
            return self._of_value(message.fields_by_name["value"])
        package, _, last = name.rpartition(".")
        if package == "google.protobuf" and last in _WELL_KNOWN:
            return _WELL_KNOWN[last]
        reference = DEFS + name
        if reference not in self._definitions:
            # Known from here on; what it is comes when its turn does.
            self._definitions[reference] = {}
            self._waiting.append(message)
        return {"$ref": reference}

    def _object(self, message: Descriptor) -> dict[str, Any]:
        left_out = _OUTPUT_ONLY if self._is_input else _INPUT_ONLY
        fields = {}
        for field in message.fields:
            options = self._descriptors.options(field, "Field")
            hidden = self._is_input and _ARGUMENT in options and options[_ARGUMENT].hidden
            if not hidden and left_out not in options.get(_BEHAVIOR, ()):
                fields[field] = options
        properties: dict[str, Any] = {}
        required: list[str] = []
        for field, options in fields.items():
            schema, is_required, notes = self._field(field, options)
            if self._is_input and field.containing_oneof is not None:
                names = [each.name for each in field.containing_oneof.fields if each in fields]
                if len(names) > 1:
                    notes.append(f"At most one of {', '.join(names)} may be given.")
            properties[field.name] = _described(schema, notes)
            if is_required:
                required.append(field.name)
        result: dict[str, Any] = {"type": "object", "properties": properties}
        if self._is_input:
            result["additionalProperties"] = False
            if required:
                result["required"] = required
        return _described(result, [self._descriptors.comment(message.full_name).text])

    def _field(
        self, field: Descriptor, options: Mapping[str, Any]
    ) -> tuple[JSONSchema, bool, list[str]]:
        """Return the schema of a member, whether callers have to send it, and what is said."""
        schema: dict[str, Any] = dict(self._of_field(field))
        said = values_of(options[_ARGUMENT]) if _ARGUMENT in options else {}
        own = said.get("description") or self._descriptors.comment(field.full_name).text
        notes = [own, schema.get("description", "")]
        if not self._is_input:
            return schema, False, notes
        behavior = options.get(_BEHAVIOR, ())
        rules = options.get(_RULES)
        is_required = _REQUIRED in behavior or field.is_required or said.get("required", False)
        if rules is not None and not rules.ignore:
            schema, more = _keywords_of(rules, field, schema)
            notes += more
            is_required |= rules.required
            if not field.has_presence:
                # What is not sent is zero, which the rules may forbid.
                if field.type == _ENUM and not field.is_repeated:
                    is_required |= bool(_excluded(rules, _ZERO))
                else:
                    checked = validation.Bounded(schema, format_checker=validation.FORMATS)
                    is_required |= not checked.is_valid(_ZEROS.get(schema.get("type", ""), 0))
        if _IMMUTABLE in behavior:
            notes.append("Cannot be changed later.")
        return schema, is_required, notes

    def _of_field(self, field: Descriptor) -> JSONSchema:
        if is_map(field):
            key, value = (field.message_type.fields_by_name[each] for each in ("key", "value"))
            schema: dict[str, Any] = {
                "type": "object",
                "additionalProperties": self._of_value(value),
            }
            if key.type in _INTEGERS:
                schema["propertyNames"] = {"type": "string", "pattern": _DIGITS}
            elif key.type == _BOOL:
                schema["propertyNames"] = {"type": "string", "enum": ["true", "false"]}
            return schema
        value = self._of_value(field)
        if field.is_repeated:
            return {"type": "array", "items": value}
        if self._is_input and field.message_type and field.message_type.full_name in _WRAPPERS:
            return {"anyOf": [*value.get("anyOf", [value]), _NULL]}
        return value

    def _of_value(self, field: Descriptor) -> JSONSchema:
        """Return the schema of one value of a field, which may be repeated."""
        if field.type in _PLAIN:
            return _PLAIN[field.type]
        if field.type in _INTEGERS:
            bits, is_signed = _INTEGERS[field.type]
            integer = {"type": "integer"}
            digits = {"type": "string", "pattern": _DIGITS}
            if not self._is_input:
                return integer if bits == 32 else digits
            lowest = -(2 ** (bits - 1)) if is_signed else 0
            bounded = {**integer, "minimum": lowest, "maximum": 2 ** (bits - is_signed) - 1}
            return bounded if bits == 32 else {"anyOf": [bounded, digits]}
        if field.type in (_DOUBLE, _FLOAT):
            odd = {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}
            return {"anyOf": [{"type": "number"}, odd]}
        if field.type == _ENUM:
            return self._of_enum(field)
        return self._of_message(field.message_type)

    def _of_enum(self, field: Descriptor) -> JSONSchema:
        enum = field.enum_type
        if enum.full_name == "google.protobuf.NullValue":
            return _NULL
        numbers = {each.name: each.number for each in enum.values}
        names = list(numbers)
        if not self._is_input:
            # A service may know values that this description does not.
            return {"anyOf": [{"type": "string", "enum": names}, {"type": "integer"}]}
        out = {name for name in names if not numbers[name] and name.endswith("UNSPECIFIED")}
        rules = self._descriptors.options(field, "Field").get(_RULES)
        if rules is not None and rules.WhichOneof("type") == "repeated":
            rules = rules.repeated.items
        if rules is not None:
            out |= _excluded(rules, numbers)
        kept = [name for name in names if name not in out] or names
        comments = {
            each: self._descriptors.comment(f"{enum.full_name}.{each}").text for each in kept
        }
        lines = [f"{name}: {text}" for name, text in comments.items() if text]
        return _described({"type": "string", "enum": kept}, lines)


def _described(schema: JSONSchema, notes: list[str]) -> dict[str, Any]:
    text = _joined(*notes)
    return {**schema, "description": text} if text else dict(schema)


def _joined(*texts: str | None) -> str:
    return "\n".join(filter(None, texts))


def _keywords_of(
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
            result[keyword], more = _keywords_of(given[rule], part, below)
            notes += more
    if forbidden:
        notes.append(f"Not one of {', '.join(map(str, forbidden))}.")
    if said.get("required") and not field.has_presence:
        # For what cannot be absent, required means that it is not empty.
        least = {"string": "minLength", "array": "minItems", "object": "minProperties"}
        if is_not_empty := least.get(result.get("type", "")):
            result.setdefault(is_not_empty, 1)
    return result, notes


def _excluded(rules: Message, numbers: Mapping[str, int]) -> set[str]:
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
            validation.matcher(pattern)
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

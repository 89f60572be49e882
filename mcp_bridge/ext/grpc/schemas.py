"""Make JSON Schemas of protobuf messages in ProtoJSON, with field names of the .proto files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_bridge.ext.grpc.descriptors import Descriptor, Descriptors, values_of
from mcp_bridge.ext.grpc.rules import RULES, breaks, excluded, with_rules
from mcp_bridge.protocol import JSONSchema
from mcp_bridge.schemas.walk import DEFS, Bundler, TooLarge

ARGUMENT: Final = "mcp_bridge.argument"
BEHAVIOR: Final = "google.api.field_behavior"
# The numbers of google.api.FieldBehavior.
_REQUIRED, _OUTPUT_ONLY, _INPUT_ONLY, _IMMUTABLE = 2, 3, 4, 5

_NULL: Final = {"type": "null"}
_DIGITS: Final = r"^(0|-?[1-9][0-9]{0,19})$"
_ZEROS: Final = {"string": "", "boolean": False, "array": [], "object": {}}
_ZERO: Final = {"": 0}
_ABSENT: Final = 'An absent member has its default value: 0, "", false, or none.'
# Bits and signedness by the number of a type in a FieldDescriptor.
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
# Messages with a special form in ProtoJSON.
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
        "description": 'Field names in lowerCamelCase, such as "displayName,address.city".',
    },
    "Struct": {"type": "object"},
    "Value": {},
    "ListValue": {"type": "array"},
    "Any": {
        "type": "object",
        "properties": {
            "@type": {
                "type": "string",
                "description": 'The type of the message: "type.googleapis.com/" and its name.',
            }
        },
        "required": ["@type"],
    },
}
# The file of the messages that are null if absent.
_WRAPPERS: Final = "google/protobuf/wrappers.proto"


def input_schema(descriptors: Descriptors, message: Descriptor) -> JSONSchema:
    """Return the schema of arguments. Raises ValueError if not an object or out of bounds."""
    schema = _Schemas(descriptors, is_input=True).of(message)
    if schema.get("type") != "object":
        raise ValueError(f"its request, {message.full_name}, is not an object in JSON")
    return schema


def output_schema(descriptors: Descriptors, message: Descriptor, is_stream: bool) -> JSONSchema:
    """Return the schema of a message or a list of them. Raises ValueError if out of bounds."""
    return _Schemas(descriptors, is_input=False).of(message, is_stream)


def is_map(field: Descriptor) -> bool:
    """Return whether a field is a map, which protobuf describes as a list of entries."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


class _Schemas:
    """Schemas of messages, for requests or for responses."""

    def __init__(self, descriptors: Descriptors, is_input: bool) -> None:
        self._descriptors = descriptors
        self._is_input = is_input
        self._definitions: dict[str, dict[str, Any]] = {}
        self._waiting: list[Descriptor] = []

    def of(self, message: Descriptor, is_stream: bool = False) -> JSONSchema:
        root = dict(self._of_message(message))
        # Iterative, since messages may be nested to any depth.
        while self._waiting:
            each = self._waiting.pop()
            self._definitions[DEFS + each.full_name] = self._object(each)
        if is_stream:
            said = {"description": _ABSENT} if "$ref" in root else {}
            root = self._result({"type": "array", "items": root, **said}, "truncated")
            root["properties"]["truncated"] = {
                "type": "boolean",
                "description": "Whether the list was cut; there may be more.",
            }
        elif "$ref" in root:
            root = dict(self._definitions[root["$ref"]])
            if not self._is_input and root["properties"]:
                root["description"] = _joined(root.get("description"), _ABSENT)
        elif not self._is_input and root.get("type") != "object":
            root = self._result(root)
        try:
            return Bundler(self._definitions.__getitem__).within_bounds(root)
        except TooLarge as why:
            raise ValueError(f"its schema {why}") from None

    def _result(self, schema: JSONSchema, *more: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"result": schema}, "required": ["result", *more]}

    def _of_message(self, message: Descriptor) -> JSONSchema:
        if message.file.name == _WRAPPERS:
            return self._of_value(message.fields_by_name["value"])
        if message.file.package == "google.protobuf" and message.name in _WELL_KNOWN:
            return _WELL_KNOWN[message.name]
        reference = DEFS + message.full_name
        if reference not in self._definitions:
            # Registered now, built later.
            self._definitions[reference] = {}
            self._waiting.append(message)
        return {"$ref": reference}

    def _object(self, message: Descriptor) -> dict[str, Any]:
        fields = dict(self._fields(message))
        properties: dict[str, Any] = {}
        required: list[str] = []
        for field, options in fields.items():
            schema, is_required, notes = self._field(field, options)
            if self._is_input and field.containing_oneof is not None:
                names = [each.name for each in field.containing_oneof.fields if each in fields]
                if len(names) > 1:
                    notes.append(f"At most one of {', '.join(names)} may be sent.")
            properties[field.name] = _described(schema, notes)
            if is_required:
                required.append(field.name)
        result: dict[str, Any] = {"type": "object", "properties": properties}
        if self._is_input:
            result["additionalProperties"] = False
            if required:
                result["required"] = required
        return _described(result, [self._descriptors.comment(message.full_name).text])

    def _fields(self, message: Descriptor) -> Iterator[tuple[Descriptor, Mapping[str, Any]]]:
        """Yield the fields of this direction with their options."""
        left_out = _OUTPUT_ONLY if self._is_input else _INPUT_ONLY
        for field in message.fields:
            options = self._descriptors.options(field, "Field")
            hidden = self._is_input and ARGUMENT in options and options[ARGUMENT].hidden
            if not hidden and left_out not in options.get(BEHAVIOR, ()):
                yield field, options

    def _field(
        self, field: Descriptor, options: Mapping[str, Any]
    ) -> tuple[JSONSchema, bool, list[str]]:
        """Return the schema of a member, whether it is required, and notes on it."""
        schema: dict[str, Any] = dict(self._of_field(field))
        said = values_of(options[ARGUMENT]) if ARGUMENT in options else {}
        own = said.get("description") or self._descriptors.comment(field.full_name).text
        notes = [own, schema.get("description", "")]
        if not self._is_input:
            return schema, False, notes
        behavior = options.get(BEHAVIOR, ())
        rules = options.get(RULES)
        is_required = _REQUIRED in behavior or field.is_required or said.get("required", False)
        if rules is not None and not rules.ignore:
            schema, more = with_rules(rules, field, schema)
            notes += more
            is_required |= rules.required
            if not field.has_presence:
                # An omitted field is zero, which the rules may forbid.
                is_one = field.type == _ENUM and not field.is_repeated
                zero = _ZEROS.get(schema.get("type", ""), 0)
                is_required |= bool(excluded(rules, _ZERO)) if is_one else breaks(schema, zero)
        if _IMMUTABLE in behavior:
            notes.append("Cannot be changed later.")
        return schema, is_required, notes

    def _of_field(self, field: Descriptor) -> JSONSchema:
        if is_map(field):
            key, value = (field.message_type.fields_by_name[each] for each in ("key", "value"))
            values = self._of_value(value)
            schema: dict[str, Any] = {"type": "object", "additionalProperties": values}
            if key.type in _INTEGERS:
                schema["propertyNames"] = {"type": "string", "pattern": _DIGITS}
            elif key.type == _BOOL:
                schema["propertyNames"] = {"type": "string", "enum": ["true", "false"]}
            return schema
        value = self._of_value(field)
        if field.is_repeated:
            return {"type": "array", "items": value}
        if self._is_input and field.message_type and field.message_type.file.name == _WRAPPERS:
            return {"anyOf": [*value.get("anyOf", [value]), _NULL]}
        return value

    def _of_value(self, field: Descriptor) -> JSONSchema:
        """Return the schema of one value of a possibly repeated field."""
        if field.type in _PLAIN:
            return _PLAIN[field.type]
        if field.type in _INTEGERS:
            return self._of_integer(*_INTEGERS[field.type])
        if field.type in (_DOUBLE, _FLOAT):
            odd = {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}
            return {"anyOf": [{"type": "number"}, odd]}
        if field.type == _ENUM:
            return self._of_enum(field)
        return self._of_message(field.message_type)

    def _of_integer(self, bits: int, is_signed: bool) -> JSONSchema:
        lowest = -(2 ** (bits - 1)) if is_signed else 0
        integer = {"type": "integer", "minimum": lowest, "maximum": 2 ** (bits - is_signed) - 1}
        if bits == 32:
            return integer if self._is_input else {"type": "integer"}
        digits = {"type": "string", "pattern": _DIGITS}
        return {"anyOf": [integer, digits]} if self._is_input else digits

    def _of_enum(self, field: Descriptor) -> JSONSchema:
        enum = field.enum_type
        if enum.full_name == "google.protobuf.NullValue":
            return _NULL
        numbers = {each.name: each.number for each in enum.values}
        names = list(numbers)
        if not self._is_input:
            # A service may return values that this description lacks.
            return {"anyOf": [{"type": "string", "enum": names}, {"type": "integer"}]}
        out = {name for name in names if not numbers[name] and name.endswith("UNSPECIFIED")}
        rules = self._descriptors.options(field, "Field").get(RULES)
        if rules is not None and rules.WhichOneof("type") == "repeated":
            rules = rules.repeated.items
        if rules is not None:
            out |= excluded(rules, numbers)
        kept = [name for name in names if name not in out] or names
        comments = {it: self._descriptors.comment(f"{enum.full_name}.{it}").text for it in kept}
        lines = [f"{name}: {text}" for name, text in comments.items() if text]
        return _described({"type": "string", "enum": kept}, lines)


def _described(schema: JSONSchema, notes: list[str]) -> dict[str, Any]:
    text = _joined(*notes)
    return {**schema, "description": text} if text else dict(schema)


def _joined(*texts: str | None) -> str:
    return "\n".join(filter(None, texts))

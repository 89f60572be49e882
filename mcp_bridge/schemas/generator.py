"""
Generate pydantic's JSON Schemas, and make them as simple as strict clients want them.

Everything is inlined but what refers to itself, null is a branch of its own (never one of several
types), and titles that only repeat a name are left out. The dialect is JSON Schema 2020-12.
"""

from __future__ import annotations

import base64
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pydantic.json_schema import (
    CoreModeRef,
    DefsRef,
    GenerateJsonSchema,
    JsonSchemaMode,
    JsonSchemaValue,
    JsonSchemaWarningKind,
)
from pydantic.warnings import ArbitraryTypeWarning
from pydantic_core import (
    CoreSchema,
    PydanticSerializationError,
    core_schema,
    to_jsonable_python,
)

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.schemas.core_schemas import DESCRIPTION, CoreNode
from mcp_bridge.schemas.strictness import LONGEST_DECIMAL
from mcp_bridge.schemas.walk import IN_PLACE, change_subschemas, subschemas

_REFERENCE: Final = "#/$defs/"
# How Python writes a Decimal that is a number.
_WRITTEN: Final = r"^-?[0-9]+(\.[0-9]+)?(E[+-][0-9]+)?$"
_NULL: Final[JsonSchemaValue] = {"type": "null"}
# What is said of a value, and does not restrict it.
_ANNOTATIONS: Final = frozenset(
    {"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?"
_OFFSET: Final = "([Zz]|[+-][0-9]{2}:[0-9]{2})?"
_NAIVE: Final = f"^{_DAY}[Tt ]{_CLOCK}$"
_DURATION: Final = "^-?P([0-9]+Y)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\\.[0-9]+)?S)?)?$"


class SchemaGenerator(GenerateJsonSchema):
    """
    pydantic's generator without the titles that it makes of field names.

    With ``of_results`` a time or a duration has a pattern instead of a format: clients assert
    formats, which require an offset and allow no fraction or sign.
    """

    # A default that is no JSON is left out of the schema; the parameter stays optional.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"non-serializable-default"}

    def __init__(self, *, of_results: bool = False) -> None:
        super().__init__()
        self._of_results = of_results
        self._names: dict[CoreModeRef, DefsRef] = {}

    def generate(self, schema: CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        # pydantic's own compares all definitions several times, to give each the shortest name;
        # simplify() inlines most of them, and shortens the names of the others.
        self._mode = mode
        root = self.generate_inner(schema)
        if self.defs_to_core_refs.keys() - self.definitions.keys():
            # A definition that is no JSON was left out: this raises why, where it is referred to.
            self.get_json_ref_counts(root)
        return {**root, "$defs": self.definitions}

    def get_defs_ref(self, core_mode_ref: CoreModeRef) -> DefsRef:
        if core_mode_ref not in self._names:
            # Of "module.Box:1[module.Item:2]" the name is "Box[Item]".
            name = self.normalize_name(re.sub(r"[^\][,]*\.|:\d+", "", core_mode_ref[0]))
            taken = name in self._names.values()
            self._names[core_mode_ref] = DefsRef(f"{len(self._names)}__{name}" if taken else name)
        return self._names[core_mode_ref]

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        # The lengths in the hint are of the bytes, and not of the text that encodes them.
        return {"type": "string", "contentEncoding": "base64"}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        # The members of a core schema include aliases.
        members = list({id(each): each for each in schema["members"]}.values())
        result = super().enum_schema({**schema, "members": members})
        description = schema.get("metadata", {}).get(DESCRIPTION)
        return {**result, "description": description} if description else result

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        # A literal may list a member of an enum and its value.
        values = {repr(to_jsonable_python(each)): each for each in schema["expected"]}
        return super().literal_schema({**schema, "expected": list(values.values())})

    def ser_schema(
        self,
        schema: core_schema.SerSchema
        | core_schema.IncExSeqSerSchema
        | core_schema.IncExDictSerSchema,
    ) -> JsonSchemaValue | None:
        # A serializer function without a return hint may return anything.
        function = schema.get("function")
        code = getattr(getattr(function, "func", function), "__module__", None) or "pydantic"
        known = super().ser_schema(schema)
        return {} if known is None and not code.startswith("pydantic") else known

    def encode_default(self, dft: object) -> object:
        if isinstance(dft, bytes):
            # pydantic's own is in the url-safe alphabet.
            return base64.b64encode(dft).decode("ascii")
        # pydantic's own would make a serializer for each.
        if dft is None or type(dft) in (str, int, bool):
            return dft
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as exception:
            # pydantic catches it and leaves the default out.
            raise PydanticSerializationError(
                "it holds a number that JSON does not have"
            ) from exception
        return encoded

    def field_is_present(
        self,
        field: core_schema.ModelField
        | core_schema.DataclassField
        | core_schema.TypedDictField
        | core_schema.ComputedField,
    ) -> bool:
        # A member that the constructor does not take cannot be sent.
        sent = self.mode != "validation" or field.get("init") is not False
        return sent and super().field_is_present(field)

    def get_decimal_pattern(self, schema: core_schema.DecimalSchema) -> str:
        # For a result pydantic's own pattern is long, and nobody has to keep to it.
        if self.mode != "validation":
            return _WRITTEN
        # Of more digits Python makes no Decimal, or one that is slow to calculate with.
        return self.build_decimal_pattern(schema).replace("[eE][+-]?[0-9]+", "[eE][+-]?[0-9]{1,4}")

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        result = super().decimal_schema(schema)
        # The branches of a parameter are a number and a text.
        for branch in result.get("anyOf", ())[1:]:
            branch["maxLength"] = LONGEST_DECIMAL
        return result

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        # The format "date-time" demands the offset that a naive one must not have.
        zone = schema.get("tz_constraint")
        result = super().datetime_schema(schema)
        if zone == "naive":
            return _with_pattern(result, _NAIVE)
        is_open = self._of_results and zone is None
        return _with_pattern(result, f"^{_DAY}T{_CLOCK}{_OFFSET}$") if is_open else result

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        # The format "time" requires an offset too, which no Django database can store.
        offset = _OFFSET if self._of_results else ""
        return _with_pattern(super().time_schema(schema), f"^{_CLOCK}{offset}$")

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        result = super().timedelta_schema(schema)
        return _with_pattern(result, _DURATION) if self._of_results else result


def _with_pattern(schema: JsonSchemaValue, pattern: str) -> JsonSchemaValue:
    """Return the schema of a time with a pattern in place of its format, if it has one."""
    return {"type": "string", "pattern": pattern} if "format" in schema else schema


def generate(
    schema: CoreNode, mode: JsonSchemaMode, *, of_results: bool = False
) -> JsonSchemaValue:
    """Return the simplified schema of a core schema; raises PydanticInvalidForJsonSchema."""
    return simplify(SchemaGenerator(of_results=of_results).generate(schema, mode))


@contextmanager
def reading_hints() -> Iterator[None]:
    """
    Silence pydantic's warning about TypedDicts with ReadOnly items while it reads hints.

    Raises TypeError for a hint that is not a type, such as ``[int]``: pydantic only warns.
    """
    with warnings.catch_warnings():
        # The dict that a procedure receives is its own, so nothing has to protect its items.
        warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier")
        warnings.simplefilter("error", ArbitraryTypeWarning)
        try:
            yield
        except ArbitraryTypeWarning as warning:
            raise TypeError(str(warning).partition(" (")[0]) from warning


def simplify(schema: JSONSchema) -> JsonSchemaValue:
    """Return a schema that refers to ``$defs`` only for recursion, and without generated titles."""
    definitions = {
        name: {key: value for key, value in each.items() if not _names_itself(name, key, value)}
        for name, each in schema.get("$defs", {}).items()
    }
    root = {key: value for key, value in schema.items() if key not in ("$defs", "title")}
    graph = {name: set(_references(each)) for name, each in definitions.items()}
    used = {
        name for name in _reached(graph, _references(root)) if name in _reached(graph, graph[name])
    }
    # The names without the prefixes by which a SchemaGenerator tells them apart.
    short: dict[str, str] = {}
    for name in sorted(used):
        wanted = last = name.rsplit("__", 1)[-1]
        number = 1
        while wanted in short.values():
            number += 1
            wanted = f"{last}{number}"
        short[name] = wanted

    def inline(part: JsonSchemaValue) -> JsonSchemaValue:
        result = change_subschemas(part, inline)
        # OpenAPI's discriminator is no JSON Schema, and refers to definitions.
        result.pop("discriminator", None)
        name = str(result.get("$ref", "")).removeprefix(_REFERENCE)
        if name in short:
            result["$ref"] = _REFERENCE + short[name]
        elif name:
            del result["$ref"]
            result = {**inline(definitions[name]), **result}
        return with_null_apart(result)

    inlined = inline(root)
    if used:
        inlined["$defs"] = {short[name]: inline(definitions[name]) for name in sorted(used)}
    return inlined


def _names_itself(name: str, key: str, value: object) -> bool:
    """Return whether it is a title made of a class's name, which arguments may follow."""
    if key != "title":
        return False
    title = re.escape(re.sub(r"\W", "_", str(value)))
    return re.search(rf"{title}$|(^|__){title}_", name) is not None


def _references(schema: object) -> Iterator[str]:
    """Yield the name of each definition to which a schema refers directly."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_REFERENCE)
        for part in subschemas(schema):
            yield from _references(part.schema)


def _reached(graph: Mapping[str, set[str]], names: Iterable[str]) -> set[str]:
    """Return these names and all to which they lead, over any number of others."""
    found = set(names)
    waiting = list(found)
    while waiting:
        new = graph.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def with_null_apart(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Make null the last branch of an ``anyOf``, in place of lists of types and of values."""
    kinds, values = schema.get("type"), schema.get("enum", ())
    if isinstance(kinds, list) or (None in values and len(values) > 1):
        schema = _parted(schema)
    if "anyOf" not in schema:
        return schema
    branches = _flat(schema["anyOf"])
    others = [each for each in branches if each != _NULL]
    if len(others) < len(branches):
        if len(others) == 1 and isinstance(others[0], dict):
            # Clients show what stands beside the branches; a member's own text comes first.
            inner = {**others[0]}
            for key in ("title", "description"):
                if key in inner:
                    schema.setdefault(key, inner.pop(key))
            others = _flat([inner])
        branches = [*others, _NULL]
    schema["anyOf"] = branches
    return schema


def _flat(branches: list[Any]) -> list[Any]:
    """Return the branches of an ``anyOf``, with those of a branch that is nothing but another."""
    flat: list[Any] = []
    for each in branches:
        nested = isinstance(each, dict) and each.keys() == {"anyOf"}
        flat += each["anyOf"] if nested else [each]
    return flat


def _parted(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Return a schema of several types, or of null among its values, with a branch for each."""
    kinds, values = schema.get("type"), schema.get("enum")
    about = {key: value for key, value in schema.items() if key in _ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in (*about, "type")}
    takes_null = kinds is None or "null" in kinds
    if values is not None:
        takes_null = takes_null and None in values
        rest["enum"] = [each for each in values if each is not None]
    if isinstance(kinds, list):
        takes_null = takes_null and rest.get("const") is None
        branches = [{"type": kind, **rest} for kind in kinds if kind != "null"]
    else:
        types = {type(each) for each in rest["enum"]}
        kind = kinds or (_TYPES.get(types.pop()) if len(types) == 1 else None)
        branches = [{"type": kind, **rest} if kind else rest]
    if takes_null:
        branches.append({**_NULL, **{key: rest[key] for key in rest if key in IN_PLACE}})
    if len(branches) > 1:
        return {"anyOf": branches, **about}
    return {**branches[0], **about} if branches else schema

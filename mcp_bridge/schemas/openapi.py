"""Convert the schemas of OpenAPI documents (3.0 and 3.1) to JSON Schemas of dialect 2020-12."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, TypeGuard
from urllib.parse import unquote

from mcp_bridge.protocol import JSONObject, JSONSchema
from mcp_bridge.protocol.text import cut, quoted
from mcp_bridge.schemas.walk import ANNOTATIONS, MAX_DEPTH, SINGLE, Bundler, TooLarge, strict

Schema = dict[str, Any]

_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
PLAIN: Final = ANNOTATIONS | {"type", "properties", "required", "additionalProperties"}
_PARTS: Final = SINGLE - {"contentSchema", "unevaluatedItems", "unevaluatedProperties"}
# Schemas within the bounds are never nested deeper.
_MAX_LEVELS: Final = 40
# Chains of references in documents that people write are never longer.
_MAX_HOPS: Final = 32
# Formats that only OpenAPI has, and the JSON Schema keyword for each.
_ENCODED: Final = {
    "byte": ("contentEncoding", "base64"),
    "binary": ("contentMediaType", "application/octet-stream"),
}
# Formats that clients assert and responses often violate, with a missing offset or a fraction.
_UNHELD: Final = ("date-time", "time", "duration")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


# The keywords that are kept, each with a function that validates its value.
_VALUES: Final[dict[str, Callable[[object], bool]]] = {
    **dict.fromkeys(
        ("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"),
        lambda value: isinstance(value, str) and value != "",
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems")
        + ("minProperties", "maxProperties", "minContains", "maxContains"),
        lambda value: type(value) is int and value >= 0,
    ),
    **dict.fromkeys(("deprecated", "uniqueItems"), lambda value: value is True),
    **dict.fromkeys(("default", "const"), lambda value: True),
    "type": lambda value: isinstance(value, str) or (_is_texts(value) and value != []),
    "enum": lambda value: isinstance(value, list) and value != [],
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "dependentRequired": lambda value: (
        isinstance(value, Mapping) and all(map(_is_texts, value.values()))
    ),
}


class Unmappable(ValueError):
    """Raised if a schema or operation cannot be used for a tool; the text is a sentence."""


class Side(Enum):
    """The use of a schema: read-only and write-only members exist on one side only."""

    INPUT = "input"
    # Without defaults: a client that fills them in would overwrite other members.
    PATCH = "patch"
    OUTPUT = "output"


class Components:
    """
    The schemas of a document; each is converted once, however many operations use it.

    With ``has_bare_references``, members beside a reference are ignored (OpenAPI 3.0, "Reference
    Object"). Converted schemas share parts, so neither they nor the document may be modified.
    ``notes`` collects sentences about keywords that were removed.
    """

    def __init__(self, data: JSONObject, *, has_bare_references: bool = False) -> None:
        self.data = data
        self.has_bare_references = has_bare_references
        self.notes: list[str] = []
        # By side and reference, each with its notes.
        self._converted: dict[tuple[Side, str], tuple[Schema, list[str]]] = {}
        self._bundlers = {side: Bundler(partial(self._component, side), _merged) for side in Side}

    def target(self, reference: object) -> object:
        """Return the target of a local reference. Raises Unmappable if it does not exist."""
        reference = str(reference)
        if not reference.startswith("#"):
            text = quoted(reference)
            raise Unmappable(f"it refers to {text}, outside its document, which is not fetched")
        try:
            return look_up(self.data, reference)
        except LookupError:
            text = f"it refers to {quoted(reference)}, which its document does not contain"
            raise Unmappable(text) from None

    def resolve(self, value: object, *, is_item: bool = False) -> JSONObject:
        """
        Return an object, or the target of its reference, followed through other references.

        Members beside a reference win; in OpenAPI 3.0 those of a path item alone (``is_item``).
        """
        keeps = is_item or not self.has_bare_references
        for _ in range(_MAX_HOPS):
            if not isinstance(value, Mapping):
                raise Unmappable("its document lacks a required object")
            if "$ref" not in value:
                return value
            target = self.target(value["$ref"])
            if isinstance(target, Mapping) and keeps:
                beside = {name: each for name, each in value.items() if name != "$ref"}
                target = {**target, **beside} if beside else target
            value = target
        raise Unmappable("its references are circular")

    def convert(
        self, schema: object, side: Side, absent: Collection[str] = (), level: int = 0
    ) -> Schema:
        """Return a schema as JSON Schema; ``absent`` are members that another part omitted."""
        if level > _MAX_LEVELS:
            raise Unmappable(f"one of its schemas is more than {MAX_DEPTH} levels deep")
        if not isinstance(schema, Mapping):
            return {"not": {}} if schema is False else {}
        if "$ref" in schema:
            return self._convert_reference(schema, side, level)

        def below(part: object) -> Schema:
            return self.convert(part, side, level=level + 1)

        result: Schema = {}
        for name, value in schema.items():
            if name in _VALUES:
                if _VALUES[name](value) and (name != "default" or side is Side.INPUT):
                    result[name] = value
            elif name == "additionalProperties" and value is False:
                result[name] = False
            elif name in _PARTS:
                result[name] = below(value)
            elif name in ("patternProperties", "dependentSchemas") and isinstance(value, Mapping):
                result[name] = {str(key): below(each) for key, each in value.items()}
            elif name in ("anyOf", "oneOf", "prefixItems") and isinstance(value, list) and value:
                # Without discriminators and read-only members, several branches may match a value:
                # whether exactly one does is left to the service.
                is_choice = name == "oneOf" and "anyOf" not in schema
                result["anyOf" if is_choice else name] = [below(each) for each in value]
        if isinstance(schema.get("items"), list):
            result["prefixItems"] = [below(each) for each in schema["items"]] or [{}]
            del result["items"]
        gone = {*absent, *self._left_out(schema, side)}
        if isinstance(properties := schema.get("properties"), Mapping):
            result["properties"] = {
                str(name): self.member(str(name), each, side, level)
                for name, each in properties.items()
                if name not in gone
            }
        names = dict.fromkeys(each for each in listed(schema, "required") if isinstance(each, str))
        if wanted := [each for each in names if each not in gone]:
            result["required"] = wanted
        self._clean(schema, result)
        if side is Side.OUTPUT and result.get("format") in _UNHELD:
            del result["format"]
        merged = []
        for each in listed(schema, "allOf"):
            target = self._schema(each)
            part = target if any(name in gone for name in listed(target, "required")) else each
            merged.append(self.convert(part, side, gone, level + 1))
        _add_parts(result, merged)
        if schema.get("nullable") is True:
            result = nullable(result)
        return strict(result)

    def member(self, name: str, schema: object, side: Side, level: int = 0) -> Schema:
        """Return the converted schema of a member or parameter of that name."""
        result = self.convert(schema, side, level=level + 1)
        # A title that only repeats the name, as generators produce.
        if _plain(result.get("title")) == _plain(name):
            result.pop("title", None)
        return result

    def within_bounds(self, schema: JSONSchema, side: Side, name: str) -> JSONSchema:
        """Return a self-contained converted schema. Raises Unmappable with ``name`` if large."""
        bundler = self._bundlers[side]
        try:
            whole = bundler.within_bounds(schema)
        except TooLarge as why:
            raise Unmappable(f"{name} {why}") from None
        for each in bundler.reached(schema):
            self.notes += self._converted[side, each][1]
        return whole

    def root(self, schema: JSONSchema, side: Side) -> JSONSchema:
        """Return a converted schema with the targets of its references at its root merged in."""
        for _ in range(_MAX_LEVELS):
            if "$ref" in schema:
                beside = {key: each for key, each in schema.items() if key != "$ref"}
                schema = {**self._component(side, schema["$ref"]), **beside}
            elif "allOf" in schema:
                merged = {key: each for key, each in schema.items() if key != "allOf"}
                _add_parts(merged, [dict(self.root(each, side)) for each in schema["allOf"]])
                if "allOf" in merged:
                    return merged
                schema = merged
            else:
                return schema
        raise Unmappable("its references are circular")

    def _convert_reference(self, schema: JSONObject, side: Side, level: int) -> Schema:
        reference = schema["$ref"]
        if not isinstance(self.target(reference), Mapping | bool):
            raise Unmappable(f"it refers to {quoted(str(reference))}, which is not a schema")
        if self.has_bare_references:
            return {"$ref": reference}
        beside = self.convert({k: v for k, v in schema.items() if k != "$ref"}, side, (), level)
        if schema.get("nullable") is True:
            return {**nullable({"$ref": reference}), **_about_of(beside)}
        if rest := {key: each for key, each in beside.items() if key not in ANNOTATIONS}:
            return {"allOf": [{"$ref": reference}, rest], **_about_of(beside)}
        return {"$ref": reference, **beside}

    def _left_out(self, schema: JSONObject, side: Side, level: int = 0) -> Iterator[str]:
        """Yield the names of the members, in all parts, that are not on this side."""
        keyword = "writeOnly" if side is Side.OUTPUT else "readOnly"
        for name, each in nested(schema, "properties").items():
            found = self._schema(each)
            parts = listed(found, "allOf")
            if found.get(keyword) is not True and len(parts) == 1:
                # OpenAPI 3.0 uses this to add keywords to a reference.
                found = self._schema(parts[0])
            if found.get(keyword) is True:
                yield name
        for each in listed(schema, "allOf") if level < _MAX_LEVELS else ():
            yield from self._left_out(self._schema(each), side, level + 1)

    def _schema(self, value: object) -> JSONObject:
        """Return a schema as resolve() does; {} for a boolean one."""
        return self.resolve(value) if isinstance(value, Mapping) else {}

    def _clean(self, given: JSONObject, schema: Schema) -> None:
        """Remove keywords that cannot be enforced, and convert those specific to OpenAPI 3.0."""
        if (kinds := schema.get("type")) is not None:
            named = kinds if isinstance(kinds, list) else [kinds]
            known = list(dict.fromkeys(each for each in named if each in _TYPES))
            schema["type"] = known[0] if len(known) == 1 else known
            if not known:
                self.notes.append(f"The type {quoted(str(kinds))} is unknown: any value is taken.")
                del schema["type"]
        pattern = schema.get("pattern", "")
        if why := _unmatchable(pattern):
            del schema["pattern"]
            text = f"It must match the pattern {cut(pattern, 200)}"
            schema["description"] = f"{schema.get('description', '')}\n{text}".strip()
            self.notes.append(
                f"The pattern {quoted(pattern)} is described but not enforced, since it cannot be "
                f"matched in linear time: {why}."
            )
        if any(map(_unmatchable, schema.get("patternProperties", ()))):
            del schema["patternProperties"]
            # It applied to members that match none of the patterns.
            schema.pop("additionalProperties", None)
            self.notes.append("Patterns of names are not enforced, since one has look-around.")
        # Imported here, since it imports jsonschema, and most sites lack such schemas.
        from mcp_bridge.schemas.validation import FORMATS

        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        name = schema.get("format", "")
        if not all(FORMATS.conforms(each, name) for each in values):
            del schema["format"]
        for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if given.get(bound) is True and limit in schema:
                schema[bound] = schema.pop(limit)
        if name in _ENCODED:
            schema.pop("format", None)
            schema.setdefault(*_ENCODED[name])

    def _component(self, side: Side, reference: str) -> JSONSchema:
        """Return the target of a reference, converted once."""
        key = (side, reference)
        if key not in self._converted:
            before, self.notes = self.notes, []
            schema = self.member(reference.rpartition("/")[2], self.target(reference), side, -1)
            self._converted[key] = schema, self.notes
            self.notes = before
        return self._converted[key][0]


def look_up(value: object, reference: str) -> object:
    """Return the target of a reference within a document (RFC 6901). Raises LookupError."""
    for part in unquote(reference[1:]).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value[name]
        elif isinstance(value, list) and name.isdecimal():
            value = value[int(name)]
        else:
            raise LookupError(reference)
    return value


def nested(data: JSONObject, name: str) -> JSONObject:
    """Return a member that is an object, or {} if it is absent or of another type."""
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def listed(data: JSONObject, name: str) -> list[Any]:
    """Return a member that is a list, or [] if it is absent or of another type."""
    value = data.get(name)
    return value if isinstance(value, list) else []


def _merged(schema: Schema) -> Schema:
    """Return a schema with its ``allOf``, whose references are inlined, merged if possible."""
    _add_parts(schema, schema.pop("allOf", []))
    return strict(schema)


def _plain(text: object) -> str:
    return re.sub(r"[\W_]", "", str(text)).casefold()


def _merge_objects(parts: Iterable[JSONSchema]) -> Schema | None:
    """Return the parts of an ``allOf`` as one schema, or None if one is not a plain object."""
    merged: Schema = {"type": "object"}
    properties: dict[str, JSONSchema] = {}
    required: dict[str, None] = {}
    others = []
    for part in parts:
        kind = part.get("type", "object" if "properties" in part else None)
        is_object = kind == "object" or part.keys() <= {*ANNOTATIONS, "required"}
        if not is_object or part.keys() - PLAIN:
            return None
        for name, each in part.get("properties", {}).items():
            before = properties.get(name, each)
            properties[name] = each if before == each else {"allOf": [before, each]}
        required |= dict.fromkeys(part.get("required", ()))
        others += [part["additionalProperties"]] if "additionalProperties" in part else []
        merged |= _about_of(part)
    if properties:
        merged["properties"] = properties
    if required:
        merged["required"] = list(required)
    # In each part, the prohibition of other members did not take the other parts into account.
    if others and all(each == others[0] is not False for each in others):
        merged["additionalProperties"] = others[0]
    return merged


def _add_parts(schema: Schema, parts: list[Schema]) -> None:
    """Add the parts of an ``allOf`` to its schema, merged if possible."""
    own = {key: each for key, each in schema.items() if key not in ANNOTATIONS}
    parts = [each for each in parts if each]
    if not parts:
        return
    whole = {**parts[0], **schema}
    is_alone = "$ref" not in whole or whole.keys() <= {"$ref", *ANNOTATIONS}
    if len(parts) == 1 and is_alone and not own.keys() & parts[0].keys():
        schema.update(whole)
        return
    merged = _merge_objects([*parts, schema]) if len(parts) > 1 or own else None
    if merged is not None and "properties" in merged:
        schema.clear()
        schema.update(merged)
    else:
        schema["allOf"] = parts


def nullable(schema: Schema) -> Schema:
    """Return the schema of the same values or null."""
    rest = {key: each for key, each in schema.items() if key not in ANNOTATIONS}
    if "enum" in rest:
        rest["enum"] = [each for each in rest["enum"] if each is not None]
    # An empty schema allows null anyway.
    return {"anyOf": [rest, {"type": "null"}], **_about_of(schema)} if rest else schema


def _about_of(schema: JSONSchema) -> Schema:
    """Return the keywords of a schema that do not restrict its values."""
    return {key: each for key, each in schema.items() if key in ANNOTATIONS}


def _unmatchable(pattern: str) -> str:
    """Return why a pattern cannot be matched in linear time or read by Python, or ""."""
    from mcp_bridge.schemas.validation import matcher

    try:
        matcher(pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (ValueError, re.error) as why:
        return str(why)
    return ""

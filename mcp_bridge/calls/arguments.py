"""
A call's arguments, checked and converted.

All errors are found at once, each a line that a model can act on: where (a JSON pointer, RFC 6901),
what is wrong, and what is wanted.

Several clients send strings of JSON where the schema wants an object or an array. These are only
looked for in arguments that were refused: with the setting COERCE_STRINGIFIED they are decoded and
checked again, and without it the error says what to send. No string is decoded where the schema may
mean a string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError
from pydantic_core import to_json

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ArgumentError, InvalidArguments
from mcp_bridge.features import Tool
from mcp_bridge.protocol import JSONObject, JSONSchema, ProtocolError, jsonrpc
from mcp_bridge.protocol.text import cut, pointer
from mcp_bridge.schemas import Inputs
from mcp_bridge.schemas.walk import SchemaDocument

if TYPE_CHECKING:
    from mcp_bridge.schemas.validation.validator import SchemaValidator

# An error, and the branches of unions that it is in: a union's place, and the name of the branch.
_Located = tuple[ArgumentError, Sequence[tuple[str, str]]]

MAX_ERRORS: Final = 25
# More errors than that are only counted, and more values are not decoded: it would cost seconds.
MOST_ERRORS_READ: Final = 5000
MOST_VALUES_READ: Final = 10_000
# A value of another kind altogether: in a union, such a branch was not meant.
_OTHER_KIND: Final = frozenset(
    {"model_type", "dataclass_type", "dict_type", "list_type", "literal_error", "none_required"}
)
# What pydantic calls a type that a function checks first, in the name of a branch.
_CHECKED: Final = re.compile(r"function-\w+\[[^\[\]]*\(\), ([^\[\]]*)\]")
_ANYTHING: Final = frozenset({"null", "boolean", "number", "string", "object", "array"})
_KINDS: Final = {dict: "object", list: "array", str: "string", type(None): "null", bool: "boolean"}
# The schema of values of which no schema says anything.
_OPEN: Final[JSONSchema] = {}


def typed_checker(
    inputs: Inputs, schema: JSONSchema | None = None
) -> Callable[[JSONObject], dict[str, object]]:
    """
    Return a checker that enforces type hints, after a JSON Schema (2020-12) given by hand.

    It takes the arguments as JSON values, and returns the Python values that the hints name by
    parameter name, or raises InvalidArguments. This raises ValueError for a schema that cannot be
    enforced within bounds (SchemaValidator).
    """
    validator: SchemaValidator | None = None
    if schema is not None:
        # Imported here, since jsonschema takes time, and few sites give a schema by hand.
        from mcp_bridge.schemas.validation.validator import SchemaValidator

        validator = SchemaValidator(schema, "input_schema")

    def check(arguments: JSONObject) -> dict[str, object]:
        if validator is not None:
            _check_schema(validator, arguments)
        errors = []
        if inputs.hidden:
            errors = [
                _error((name,), "extra_forbidden", "is filled by the server; leave it out")
                for name in sorted(inputs.hidden & arguments.keys())
            ]
        try:
            values = validate(inputs, arguments)
        except ValidationError as exception:
            errors += _explained(exception, arguments, inputs.schema)
        if errors:
            raise _refusal(errors)
        return values

    return check


def plain_checker(schema: JSONSchema) -> Callable[[JSONObject], dict[str, object]]:
    """
    Return a checker that enforces a JSON Schema (2020-12) which a source has made, and no hints.

    It returns the arguments as they are, or raises InvalidArguments. The first call prepares it, so
    that tools which nobody calls cost nothing; it takes the schema to be valid and within the
    bounds of SchemaValidator.
    """

    @cache
    def validator() -> SchemaValidator:
        from mcp_bridge.schemas.validation.validator import SchemaValidator

        return SchemaValidator(schema, "input_schema", is_generated=True)

    def check(arguments: JSONObject) -> dict[str, object]:
        _check_schema(validator(), arguments)
        return dict(arguments)

    return check


def _check_schema(validator: SchemaValidator, arguments: JSONObject) -> None:
    from mcp_bridge.schemas.validation.keywords import UncheckableError

    try:
        errors = [
            _error(each.path, each.keyword, each.message) for each in validator.errors(arguments)
        ]
    except UncheckableError as why:
        errors = [_error((), "uncheckable", str(why))]
    if errors:
        raise _refusal(errors)


def validate(inputs: Inputs, arguments: JSONObject) -> dict[str, object]:
    """
    Return JSON values by name as Python values; those that were not sent are left out.

    Raises pydantic's ValidationError, with all errors.
    """
    body = to_json(arguments)
    try:
        instance = inputs.validator.validate_json(body)
    except ValidationError:
        # JSON Schema counts 2.0 among the integers, and pydantic's strict mode does not.
        if not _has_whole_float(arguments):
            raise
        instance = inputs.lenient_validator.validate_json(body)
    fields = instance.__dict__
    values: dict[str, object] = dict(instance.__pydantic_extra__ or {})
    for field, name in inputs.names.items():
        if name in arguments or field in inputs.given:
            values[name] = fields[field]
    return values


def _has_whole_float(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and value.is_integer()


def _error(place: Iterable[str | int], kind: str, message: str) -> ArgumentError:
    return ArgumentError(path=pointer(place), type=kind, message=message)


def _refusal(errors: list[ArgumentError]) -> InvalidArguments:
    """Return the exception, of as many errors as a model can use: a long answer helps nobody."""
    more = len(errors) - MAX_ERRORS
    if more > 0:
        errors = [*errors[:MAX_ERRORS], _error((), "more", f"and {more} more errors like these")]
    return InvalidArguments(errors)


def _explained(
    exception: ValidationError, arguments: JSONObject, schema: JSONSchema
) -> list[ArgumentError]:
    """Return pydantic's errors as lines for a model; those of one union become one line."""
    count = exception.error_count()
    if count > MOST_ERRORS_READ:
        return [_error((), "many", f"{count} values break the schema; read it again and send less")]
    found: list[_Located] = []
    for each in exception.errors(include_url=False, include_context=False, include_input=False):
        kind = each["type"]
        place, branches = _located(each["loc"], arguments, kind)
        if kind == "missing":
            text = "is required and was not sent"
        elif kind not in ("extra_forbidden", "unexpected_keyword_argument"):
            text = cut(each["msg"].removeprefix("Value error, "), 300)
        elif len(place) > 1:
            text = "is not a known member; leave it out"
        elif known := ", ".join(schema.get("properties", {})):
            text = f"is not a parameter of this tool, which takes {cut(known, 500)}; leave it out"
        else:
            text = "is not a parameter: this tool takes no arguments; send {}"
        found.append((_error(place, kind, text), branches))
    return sorted(_merged(found), key=lambda error: error.path)


def _located(
    location: Sequence[str | int], arguments: JSONObject, kind: str
) -> tuple[list[str | int], list[tuple[str, str]]]:
    """Return where an error is in the arguments, and in which branches of which unions."""
    # pydantic puts the names of a union's branches into its locations; a key is one of them where
    # it is neither a member nor an index of the value at hand.
    place: list[str | int] = []
    branches: list[tuple[str, str]] = []
    value: object = arguments
    for index, key in enumerate(location):
        absent = index == len(location) - 1 and kind == "missing"
        if isinstance(value, Mapping) and (key in value or absent):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value) + absent:
            value = None if absent else value[key]
        else:
            branches.append((pointer(place), str(key)))
            continue
        place.append(key)
    return place, branches


def _merged(found: Iterable[_Located]) -> list[ArgumentError]:
    """Return the errors, those of a union as the ones of the branch that was meant, or as one."""
    merged: list[ArgumentError] = []
    unions: dict[str, dict[str, list[_Located]]] = {}
    for error, branches in found:
        if branches:
            (union, branch), *rest = branches
            unions.setdefault(union, {}).setdefault(branch, []).append((error, rest))
        else:
            merged.append(error)
    for union, located in unions.items():
        errors_of = {branch: _merged(each) for branch, each in located.items()}
        meant = [
            branch
            for branch, errors in errors_of.items()
            if not any(error.type in _OTHER_KIND or error.path == union for error in errors)
        ]
        if len(meant) == 1:
            merged += errors_of[meant[0]]
            continue
        wanted: list[str] = []
        for branch, errors in errors_of.items():
            # The line begins with the path of the union: its members are named below it.
            below = [replace(each, path=each.path.removeprefix(union)) for each in errors]
            text = "; ".join(str(each) if each.path else each.message for each in below)
            if branch in meant:
                name = _CHECKED.sub(r"\1", branch)
                text = f"as {cut(name)}: {text}"
            wanted.append(text)
        text = cut(" | or: ".join(dict.fromkeys(wanted)), 1000)
        merged.append(ArgumentError(path=union, type="union", message=text))
    return merged


def repair(
    tool: Tool, arguments: JSONObject, refused: InvalidArguments
) -> tuple[dict[str, object], tuple[str, ...]]:
    """
    Check refused arguments again, with those decoded that came as strings of JSON.

    Return what ``tool.check`` returns, and JSON pointers to the arguments that were decoded. Raises
    InvalidArguments: ``refused`` where none was, or with advice where the site does not decode.
    """
    decoding = Decoding(_document(tool))
    decoded, found = decoding.decode(arguments), decoding.found
    if not found:
        raise refused
    if not conf.COERCE_STRINGIFIED:
        advice = {
            path: f"; send the {kind} itself, not a string of JSON" for path, kind in found.items()
        }
        errors = [
            replace(error, message=error.message + advice.get(error.path, ""))
            for error in refused.errors
        ]
        raise InvalidArguments(errors) from None
    try:
        return tool.check(decoded), tuple(found)
    except InvalidArguments as again:
        raise InvalidArguments(again.errors, repaired=tuple(found)) from None


@lru_cache(maxsize=256)
def _document(tool: Tool) -> SchemaDocument:
    return SchemaDocument(tool.input_schema)


class Decoding:
    """
    Decodes the strings in arguments that a JSON Schema wants as objects or arrays.

    ``found`` has, by JSON pointer, which of the two each of them was.
    """

    def __init__(self, document: SchemaDocument) -> None:
        self.found: dict[str, str] = {}
        self._document = document
        self._left = MOST_VALUES_READ
        # By identity, so that schemas that hold themselves end, and no schema is read twice. All
        # live as long: in the document, in _members, or as _OPEN.
        self._kinds: dict[int, frozenset[str]] = {}
        self._members: dict[tuple[int, str | int], object] = {}

    def decode(self, arguments: JSONObject) -> JSONObject:
        """Return the arguments, decoded where they have to be."""
        decoded: JSONObject = self._decoded((), self._document.root, arguments)
        return decoded

    def _decoded(self, place: tuple[str | int, ...], schema: object, value: object) -> Any:
        if isinstance(value, str):
            value = self._read(place, schema, value)

        def member(key: str | int, each: object) -> object:
            if not isinstance(each, str | Mapping | list):
                return each
            self._left -= 1
            if self._left < 0 or len(place) >= jsonrpc.MAX_DEPTH:
                return each
            return self._decoded((*place, key), self._member(schema, key), each)

        if isinstance(value, Mapping):
            return {key: member(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [member(index, each) for index, each in enumerate(value)]
        return value

    def _read(self, place: tuple[str | int, ...], schema: object, text: str) -> object:
        if not text.lstrip().startswith(("{", "[")) or "string" in self._kinds_of(schema):
            return text
        try:
            value: object = jsonrpc.decode(text.encode("utf-8"))
        except (ProtocolError, UnicodeError):
            return text
        kind = _KINDS[type(value)]
        if kind not in self._kinds_of(schema):
            return text
        self.found[pointer(place)] = kind
        return value

    def _kinds_of(self, schema: object) -> frozenset[str]:
        """Return the types that a schema may accept; in doubt, all of them."""
        if not isinstance(schema, Mapping):
            return frozenset() if schema is False else _ANYTHING
        if id(schema) in self._kinds:
            return self._kinds[id(schema)]
        # What a schema that holds itself is, as long as it is being read.
        self._kinds[id(schema)] = kinds = _ANYTHING
        if "type" in schema:
            named = schema["type"]
            kinds &= {named} if isinstance(named, str) else set(named)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if values is not None:
            kinds &= {_KINDS.get(type(each), "number") for each in values}
        for branches in self._choices(schema):
            kinds &= frozenset().union(*map(self._kinds_of, branches))
        self._kinds[id(schema)] = kinds
        return kinds

    def _member(self, schema: object, key: str | int) -> object:
        """Return a schema of a member of an object, or an item of an array, of this schema."""
        if not isinstance(schema, Mapping):
            return _OPEN
        known = (id(schema), key)
        if known in self._members:
            return self._members[known]
        self._members[known] = _OPEN
        first = schema.get("prefixItems", ())
        if isinstance(key, str):
            own = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
        else:
            own = first[key] if key < len(first) else schema.get("items", {})
        parts: list[object] = [own]
        for branches in self._choices(schema):
            members = [self._member(each, key) for each in branches]
            parts.append(members[0] if len(members) == 1 else {"anyOf": members})
        meant = [each for each in parts if each or each is False]
        self._members[known] = meant[0] if len(meant) == 1 else {"allOf": meant}
        return self._members[known]

    def _choices(self, schema: JSONSchema) -> Iterator[list[object]]:
        """Yield lists of schemas; the value has to fit one schema of each list."""
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield schema[keyword]
        for each in (*schema.get("allOf", ()), *self._document.targets(schema).values()):
            yield [each]

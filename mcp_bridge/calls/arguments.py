"""
A call's arguments, checked and converted.

All errors are found at once, each a line that a model can act on: where (a JSON pointer, RFC 6901),
what is wrong, and what is wanted. A checker takes the arguments as JSON values and
returns them by parameter name, or raises InvalidArguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pydantic import ValidationError
from pydantic_core import to_json

from mcp_bridge.exceptions import ArgumentError, InvalidArguments
from mcp_bridge.protocol import JSONObject, JSONSchema
from mcp_bridge.protocol.text import cut, pointer
from mcp_bridge.schemas import Inputs
from mcp_bridge.schemas.validation.keywords import UncheckableError
from mcp_bridge.schemas.validation.validator import SchemaValidator

Checker = Callable[[JSONObject], dict[str, object]]
# A union's place, as a JSON pointer, and the name of one of its branches.
_Branch = tuple[str, str]
_Located = tuple[ArgumentError, tuple[_Branch, ...]]

MAX_ERRORS: Final = 25
# More errors than that are only counted: reading them would cost seconds.
MOST_READ: Final = 5000
# A value of another kind altogether: in a union, such a branch was not meant.
_OTHER_KIND: Final = (
    "model_type",
    "dataclass_type",
    "dict_type",
    "list_type",
    "literal_error",
    "none_required",
)
# What pydantic calls a type that a function checks first, in the name of a branch.
_CHECKED: Final = re.compile(r"function-\w+\[[^\[\]]*\(\), ([^\[\]]*)\]")


def typed_checker(inputs: Inputs) -> Checker:
    """Return a checker that enforces type hints, and returns the Python values they name."""

    def check(arguments: JSONObject) -> dict[str, object]:
        errors = [
            _error((name,), "extra_forbidden", "is filled by the server; leave it out")
            for name in sorted(inputs.hidden & arguments.keys())
        ]
        try:
            values = validate(inputs, arguments)
        except ValidationError as exception:
            errors += _explained(exception, arguments, inputs.schema)
        if errors:
            raise InvalidArguments(_limited(errors))
        return values

    return check


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


def schema_checker(schema: JSONSchema, inputs: Inputs) -> Checker:
    """
    Return a checker that enforces a JSON Schema (2020-12) given by hand, then the type hints.

    Raises ValueError for a schema that cannot be enforced within bounds (SchemaValidator).
    """
    validator = SchemaValidator(schema, "input_schema")
    check_types = typed_checker(inputs)

    def check(arguments: JSONObject) -> dict[str, object]:
        try:
            errors = [
                _error(each.path, each.keyword, each.message)
                for each in validator.errors(arguments)
            ]
        except UncheckableError as why:
            errors = [_error((), "uncheckable", str(why))]
        if errors:
            raise InvalidArguments(_limited(errors))
        return check_types(arguments)

    return check


def _explained(
    exception: ValidationError, arguments: JSONObject, schema: JSONSchema
) -> list[ArgumentError]:
    """Return pydantic's errors as lines for a model; those of one union become one line."""
    if exception.error_count() > MOST_READ:
        count = exception.error_count()
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
) -> tuple[list[str | int], tuple[_Branch, ...]]:
    """
    Return where an error is in the arguments, and in which branches of which unions.

    pydantic puts the names of a union's branches into its locations; a key is one of them where it
    is neither a member nor an index of the value at hand.
    """
    place: list[str | int] = []
    branches: list[_Branch] = []
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
    return place, tuple(branches)


def _merged(found: Iterable[_Located]) -> list[ArgumentError]:
    """Return the errors, those of a union as the ones of the branch that was meant, or as one."""
    merged: list[ArgumentError] = []
    unions: dict[str, dict[str, list[_Located]]] = {}
    for error, branches in found:
        if not branches:
            merged.append(error)
            continue
        (union, branch), *rest = branches
        members = unions.setdefault(union, {}).setdefault(branch, [])
        members.append((error, tuple(rest)))
    for union, members_of in unions.items():
        merged += _union(union, {name: _merged(each) for name, each in members_of.items()})
    return merged


def _union(union: str, branches: Mapping[str, list[ArgumentError]]) -> list[ArgumentError]:
    meant = [
        branch
        for branch, errors in branches.items()
        if not any(error.type in _OTHER_KIND or error.path == union for error in errors)
    ]
    if len(meant) == 1:
        return branches[meant[0]]
    wanted: list[str] = []
    for branch, errors in branches.items():
        text = "; ".join(error.message if error.path == union else str(error) for error in errors)
        if branch in meant:
            name = _CHECKED.sub(r"\1", branch)
            text = f"as {cut(name)}: {text}"
        if text not in wanted:
            wanted.append(text)
    return [ArgumentError(path=union, type="union", message=cut(" | or: ".join(wanted), 1000))]


def _error(place: Iterable[str | int], kind: str, message: str) -> ArgumentError:
    return ArgumentError(path=pointer(place), type=kind, message=message)


def _limited(errors: list[ArgumentError]) -> list[ArgumentError]:
    """Return as many errors as a model can use, since a bad request must not make a long answer."""
    if len(errors) <= MAX_ERRORS:
        return errors
    more = len(errors) - MAX_ERRORS
    return [*errors[:MAX_ERRORS], _error((), "more", f"and {more} more errors like these")]

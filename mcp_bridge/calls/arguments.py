"""
A call's arguments, checked and converted.

Every violation is found at once and told in a line that a model can act on: where (a JSON
pointer, RFC 6901), what is wrong, and what is wanted. A checker takes the arguments as JSON values
and returns them by parameter name, or raises InvalidArguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from mcp_bridge.exceptions import ArgumentError, InvalidArguments
from mcp_bridge.protocol.text import cut, pointer
from mcp_bridge.schemas import Inputs
from mcp_bridge.schemas.validation.validator import SchemaValidator, UncheckableError, Violation

Checker = Callable[[Mapping[str, Any]], dict[str, Any]]
# Where a union is, and the name of one of its branches.
_Branch = tuple[str, str]
_Located = tuple[ArgumentError, tuple[_Branch, ...]]

MAX_ERRORS: Final = 25
# More errors than that are only counted: reading them would cost seconds.
MOST_READ: Final = 5000
_UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument")
# A value of another kind altogether: in a union, such a branch was not meant.
_OTHER_KIND: Final = (
    "model_type",
    "dataclass_type",
    "dict_type",
    "list_type",
    "literal_error",
    "none_required",
)


def typed_checker(inputs: Inputs) -> Checker:
    """A checker that enforces type hints, and returns the Python values they name."""

    def check(arguments: Mapping[str, Any]) -> dict[str, Any]:
        refused = [
            _error((name,), "extra_forbidden", "is filled by the server; leave it out")
            for name in inputs.hidden(arguments)
        ]
        try:
            values = _validated(inputs, arguments)
        except ValidationError as exception:
            refused += _explained(exception, arguments, inputs.schema)
        if refused:
            raise InvalidArguments(_limited(refused))
        return values

    return check


def schema_checker(schema: Mapping[str, Any], inputs: Inputs) -> Checker:
    """
    A checker that enforces a JSON Schema (2020-12) given by hand, then the type hints.

    Raises ValueError for a schema that cannot be enforced within bounds (see ``handmade``).
    """
    validator = SchemaValidator(schema, "input_schema")
    typed = typed_checker(inputs)

    def check(arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            violations = validator.violations(arguments)
        except UncheckableError as why:
            raise InvalidArguments([_error((), "uncheckable", str(why))]) from why
        if violations:
            raise InvalidArguments(_limited(_violation(each) for each in violations))
        return typed(arguments)

    return check


def _validated(inputs: Inputs, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return inputs.validate(arguments)
    except ValidationError:
        # JSON Schema counts 2.0 among the integers, and pydantic's strict mode does not.
        whole = _whole(arguments)
        if repr(whole) == repr(arguments):
            raise
        return inputs.validate(whole)


def _whole(value: Any) -> Any:
    """The same value with integral floats as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return value


def _explained(
    exception: ValidationError, arguments: Mapping[str, Any], schema: Mapping[str, Any]
) -> list[ArgumentError]:
    """pydantic's errors as lines for a model; those of one union become one line."""
    if exception.error_count() > MOST_READ:
        count = exception.error_count()
        return [_error((), "many", f"{count} values break the schema; read it again and send less")]
    found: list[_Located] = []
    for each in exception.errors(include_url=False, include_context=False, include_input=False):
        kind = each["type"]
        place, branches = _located(each["loc"], arguments, kind)
        text = _text(kind, each["msg"], schema if len(place) == 1 else None)
        found.append((_error(place, kind, text), branches))
    return sorted(_merged(found), key=lambda error: error.path)


def _located(
    location: Sequence[str | int], arguments: Any, kind: str
) -> tuple[tuple[Any, ...], tuple[_Branch, ...]]:
    """
    Where an error is in the arguments, and in which branches of which unions.

    pydantic puts the names of a union's branches into its locations; what is neither a member
    nor an index of the value at hand is one of them.
    """
    place: list[Any] = []
    branches: list[_Branch] = []
    value = arguments
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
    return tuple(place), tuple(branches)


def _merged(found: Iterable[_Located]) -> list[ArgumentError]:
    """The errors, those of a union as the one of the branch that was meant, or as one line."""
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
        lines = "; ".join(error.message if error.path == union else str(error) for error in errors)
        text = lines if branch not in meant else f"as {cut(branch)}: {lines}"
        if text not in wanted:
            wanted.append(text)
    return [ArgumentError(path=union, type="union", message=cut(" | or: ".join(wanted), 1000))]


def _text(kind: str, message: str, schema: Mapping[str, Any] | None) -> str:
    if kind == "missing":
        return "is required and was not sent"
    if kind in _UNKNOWN:
        return _unknown(schema)
    if kind == "value_error":
        message = message.removeprefix("Value error, ")
    return cut(message, 300)


def _unknown(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return "is not a known member; leave it out"
    known = ", ".join(schema.get("properties", {}))
    if not known:
        return "is not a parameter: this tool takes no arguments; send {}"
    return f"is not a parameter of this tool, which takes {cut(known, 500)}; leave it out"


def _violation(violation: Violation) -> ArgumentError:
    """One violation of a schema given by hand."""
    return _error(violation.path, violation.keyword, violation.message)


def _error(place: Iterable[Any], kind: str, message: str) -> ArgumentError:
    return ArgumentError(path=pointer(place), type=kind, message=message)


def _limited(errors: Iterable[ArgumentError]) -> list[ArgumentError]:
    """As many errors as a model can use: a bad request must not grow its answer without end."""
    found = list(errors)
    if len(found) <= MAX_ERRORS:
        return found
    more = len(found) - MAX_ERRORS
    return [*found[:MAX_ERRORS], _error((), "more", f"and {more} more errors like these")]

"""
Check and convert the arguments of a call.

All errors are reported at once. Each is one line that a model can act on: a JSON pointer
(RFC 6901), what is wrong, and what to send instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError
from pydantic_core import PydanticKnownError, PydanticSerializationError, to_json
from pydantic_core import SchemaValidator as CoreValidator

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ArgumentError, InvalidArguments
from mcp_bridge.protocol import JSONObject, JSONSchema
from mcp_bridge.protocol.jsonrpc import split_at_quotes
from mcp_bridge.protocol.text import cut, nul_places, pointer
from mcp_bridge.schemas.inputs import Inputs
from mcp_bridge.schemas.limits import UNCHECKABLE, TooManyStepsError, limited_steps
from mcp_bridge.schemas.strictness import strict_validator

if TYPE_CHECKING:
    from mcp_bridge.schemas.validation import SchemaValidator

# An error and its union branches, each as the union's JSON pointer and the branch's name.
_Located = tuple[ArgumentError, Sequence[tuple[str, str]]]

MAX_ERRORS: Final = 25
# PostgreSQL cannot store NUL in text and raises its own error.
_NUL: Final = "contains the character U+0000 (NUL), which is not allowed in text; leave it out"
# The total length of all errors, so that a short request cannot cause a long response.
MAX_ERRORS_LENGTH: Final = 8000
# More errors than this are only counted: reading one takes 25 microseconds.
MOST_ERRORS_READ: Final = 1000
# If a body has more values than this, or more bytes in its member names, arrays and dicts are read
# only up to their first error: collecting all errors would take seconds.
MANY_VALUES: Final = 256
LONG_NAMES: Final = 4096
# The longest name in bytes. pydantic copies a value's path into each of its errors: a megabyte of
# names would take gigabytes of memory.
LONGEST_NAME: Final = 1000
_LONG_NAME: Final = (
    f"has a member whose name takes more than {LONGEST_NAME} bytes of JSON; send a shorter name"
)
# Errors for a value of a different kind: in a union, the client did not mean such a branch.
_OTHER_KIND: Final = frozenset(
    {"model_type", "dataclass_type", "dict_type", "list_type", "literal_error", "none_required"}
)
# The most characters of an error that lists choices which are not in the schema.
_LONGEST_CHOICES: Final = 3000
# Names of JSON kinds in error messages, by their first character.
_KINDS: Final = {"{": "object", "[": "array"}
# pydantic's branch name for a type with a validator function before it.
_CHECKED: Final = re.compile(r"function-\w+\[[^\[\]]*\(\), ([^\[\]]*)\]")


def typed_checker(
    inputs: Inputs, schema: JSONSchema | None = None
) -> Callable[[JSONObject], dict[str, object]]:
    """
    Return a checker that enforces an explicit JSON Schema (2020-12), if any, then the type hints.

    The checker takes the arguments as JSON values and returns Python values by parameter name, or
    raises InvalidArguments. Raises ValueError for a schema that cannot be enforced within bounds
    (SchemaValidator).
    """
    validator = None if schema is None else _validator(schema)
    of_schema = inputs.schema if schema is None else schema
    of_nulls = cache(lambda: validator or _validator(of_schema, is_generated=True))
    without_nulls = _without_nulls(of_schema, of_nulls)

    # Built on the first call: many tools of a process are never called.
    @cache
    def reader(stops_early: bool) -> CoreValidator:
        return strict_validator(inputs.core(), read_integer=_whole, stops_early=stops_early)

    if conf.BUILD == "eager":
        reader(False)

    def check(arguments: JSONObject) -> dict[str, object]:
        arguments = without_nulls(arguments)
        body = _written(arguments)
        if validator is not None:
            _check_schema(validator, arguments)
        errors = [
            _error((name,), "extra_forbidden", "is filled by the server; leave it out")
            for name in sorted(inputs.hidden & arguments.keys())
        ]
        count, names, longest = _measured(body)
        if longest > LONGEST_NAME:
            # The name of an unknown parameter appears in its own error only.
            named = _long_named(arguments, is_open=inputs.is_open)
            if long := [_error(place, "name_too_long", _LONG_NAME) for place in named]:
                raise _refusal(long)
        read = reader(count > MANY_VALUES or names > LONG_NAMES).validate_json
        try:
            with limited_steps(count) if inputs.definitions else nullcontext():
                instance = read(body)
        except ValidationError as exception:
            errors += _explained(exception, arguments, inputs.schema)
        except TooManyStepsError:
            errors.append(_error((), "uncheckable", UNCHECKABLE))
        if errors:
            raise _refusal(errors)
        fields = vars(instance)
        return dict(instance.__pydantic_extra__ or {}) | {
            name: fields[field]
            for field, name in inputs.names.items()
            if name in arguments or field in inputs.given
        }

    return check


def plain_checker(
    schema: JSONSchema, *, asserts_formats: bool = True
) -> Callable[[JSONObject], dict[str, object]]:
    """
    Return a checker that enforces a JSON Schema (2020-12) that a source has generated.

    Formats are enforced if ``asserts_formats``; else they are left to the service or view.

    The checker returns the arguments unchanged, or raises InvalidArguments. It is prepared on the
    first call, so that unused tools cost nothing. The schema must be valid and within the bounds
    of SchemaValidator.
    """
    validator = cache(
        lambda: _validator(schema, is_generated=True, asserts_formats=asserts_formats)
    )
    without_nulls = _without_nulls(schema, validator)

    def check(arguments: JSONObject) -> dict[str, object]:
        arguments = without_nulls(arguments)
        # The schema check below refuses values that cannot be serialised, such as a lone surrogate.
        with suppress(PydanticSerializationError):
            _written(arguments)
        _check_schema(validator(), arguments)
        return dict(arguments)

    return check


def _validator(schema: JSONSchema, **options: bool) -> SchemaValidator:
    # Imported here: jsonschema is slow to import, and few sites write schemas themselves.
    from mcp_bridge.schemas.validation import SchemaValidator

    return SchemaValidator(schema, "input_schema", **options)


def _without_nulls(
    schema: JSONSchema, validator: Callable[[], SchemaValidator]
) -> Callable[[JSONObject], JSONObject]:
    """Return a function that drops null, which agents send, from non-nullable optional members."""
    optional = schema.get("properties", {}).keys() - {*schema.get("required", ())}

    @cache
    def is_absent(name: str) -> bool:
        # A schema that cannot be checked is reported when the arguments are checked.
        with suppress(Exception):
            return any(each.path[:1] == (name,) for each in validator().errors({name: None}))
        return False

    def leave_out(arguments: JSONObject) -> JSONObject:
        if None not in arguments.values():
            return arguments
        return {
            name: each
            for name, each in arguments.items()
            if each is not None or name not in optional or not is_absent(name)
        }

    return leave_out


def _advice(arguments: JSONObject, place: Iterable[str | int], wanted: str) -> str:
    """Return advice if the value is JSON in a string, as some clients send it, else ""."""
    value: object = arguments
    for key in place:
        value = value[key]  # type: ignore[index]
    kind = _KINDS.get(value.lstrip()[:1]) if isinstance(value, str) else None
    is_advised = kind is not None and kind in wanted
    return f"; send the {kind} itself, not a string of JSON" if is_advised else ""


def _check_schema(validator: SchemaValidator, arguments: JSONObject) -> None:
    from mcp_bridge.schemas.validation import UncheckableError

    try:
        errors = [
            _error(path, kind, text + (_advice(arguments, path, text) if kind == "type" else ""))
            for kind, text, path in validator.errors(arguments)
        ]
    except UncheckableError as why:
        errors = [_error((), "uncheckable", str(why))]
    if errors:
        raise _refusal(errors)


def _written(arguments: JSONObject) -> bytes:
    """Return the arguments as JSON text. Raises InvalidArguments for a NUL in a text or a name."""
    body = to_json(arguments)
    # True as well for a text that contains a backslash followed by "u0000".
    if b"\\u0000" in body:
        errors = [_error(place, "nul", _NUL) for place in islice(nul_places(arguments), MAX_ERRORS)]
        if errors:
            raise InvalidArguments(errors)
    return body


def _long_named(
    value: object, place: tuple[str | int, ...] = (), *, is_open: bool = True
) -> Iterator[Iterable[str | int]]:
    """Yield the paths of objects that have a name of more than LONGEST_NAME bytes in JSON."""
    members = value.items() if isinstance(value, Mapping) else ()
    if is_open and any(len(to_json(name)) - 2 > LONGEST_NAME for name, _ in members):
        yield place
        return
    for name, each in members or (enumerate(value) if isinstance(value, list) else ()):
        yield from _long_named(each, (*place, name))


def _whole(value: object) -> object:
    # In JSON Schema, 2.0 is an integer too.
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        # pydantic does not convert larger floats to integers.
        return value if abs(value) < 2**53 else int(value)
    raise PydanticKnownError("int_type")


def _measured(body: bytes) -> tuple[int, int, int]:
    """Return the value count of compact JSON text, and the bytes of all and of the longest name."""
    outside, names, longest = body, 0, 0
    # In a short body, commas in strings and the lengths of names do not matter.
    if len(body) > LONGEST_NAME:
        parts = split_at_quotes(body)
        outside = b"".join(parts[::2])
        followed = zip(parts[1::2], parts[2::2], strict=True)
        found = [len(text) for text, rest in followed if rest[:1] == b":"]
        names, longest = sum(found), max(found, default=0)
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{"), names, longest


def _error(place: Iterable[str | int], kind: str, message: str) -> ArgumentError:
    return ArgumentError(path=pointer(place), type=kind, message=message)


def _refusal(errors: list[ArgumentError]) -> InvalidArguments:
    """Return the exception with as many errors as a model can use, and a count of the rest."""
    lengths = accumulate(len(each.path) + len(each.message) for each in errors)
    # The first error is always included.
    told = max(1, sum(length <= MAX_ERRORS_LENGTH for length in islice(lengths, MAX_ERRORS)))
    if more := len(errors) - told:
        text = f"and {more} more error{'s' * (more > 1)} like these"
        errors = [*errors[:told], _error((), "more", text)]
    return InvalidArguments(errors)


def _explained(
    exception: ValidationError, arguments: JSONObject, schema: JSONSchema
) -> list[ArgumentError]:
    """Return pydantic's errors as lines for a model; the errors of one union become one line."""
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
            longest = _LONGEST_CHOICES if kind == "invalid_choice" else 300
            text = cut(each["msg"].removeprefix("Value error, "), longest)
            if kind.endswith("_type"):
                text += _advice(arguments, place, text)
        elif len(place) > 1:
            text = "is not a known member; leave it out"
        elif known := ", ".join(schema.get("properties", {})):
            text = f"is not a parameter (known are {cut(known, 500)}); leave it out"
        else:
            text = "is not a parameter: there are none; send {}"
        found.append((_error(place, kind, text), branches))
    return sorted(_merged(found), key=lambda error: error.path)


def _located(
    location: Sequence[str | int], arguments: JSONObject, kind: str
) -> tuple[list[str | int], list[tuple[str, str]]]:
    """Return the path of an error in the arguments, and the union branches that it is in."""
    # pydantic puts the names of union branches into its locations: a key is a branch if it is
    # neither a member nor an index of the current value.
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
    """Return the errors; those of a union become one, unless one branch was clearly meant."""
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
            # The line begins with the union's path, so the paths of members are relative to it.
            below = [replace(each, path=each.path.removeprefix(union)) for each in errors]
            text = "; ".join(str(each) if each.path else each.message for each in below)
            if branch in meant:
                name = _CHECKED.sub(r"\1", branch)
                text = f"as {cut(name)}: {text}"
            wanted.append(text)
        text = cut(" | or: ".join(dict.fromkeys(wanted)), 1000)
        merged.append(ArgumentError(path=union, type="union", message=text))
    return merged

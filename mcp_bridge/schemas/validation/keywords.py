"""jsonschema's keywords of 2020-12: each costs steps, and those that cost too much are replaced."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.protocol.text import quoted
from mcp_bridge.schemas.limits import UNCHECKABLE
from mcp_bridge.schemas.walk import canonical_text

# One of jsonschema's validators, whose methods ``extend`` leaves without types.
Validator: TypeAlias = Any
# Takes a validator, the keyword's value, the instance and the schema.
Keyword = Callable[[Validator, Any, object, JSONSchema], Iterable[ValidationError] | None]
Errors = Iterator[ValidationError]

# No format that is asserted has longer values, and some are slow to read.
_LONGEST_FORMATTED: Final = 2000
_DATE_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.IGNORECASE | re.ASCII
)
# In steps of about four microseconds: a reference is searched for, a choice keeps the errors of
# all its branches.
_PRICES: Final = {"$ref": 8, "$dynamicRef": 8, "anyOf": 5, "oneOf": 5}
# These look at every item or member, also where they find nothing to check in it.
_GO_THROUGH: Final = (
    *("additionalProperties", "contains", "items", "patternProperties", "prefixItems"),
    *("propertyNames", "unevaluatedItems", "unevaluatedProperties"),
)


class UncheckableError(ValueError):
    """An instance cannot be checked; the text is a sentence for its sender."""


@dataclass(slots=True)
class Budget:
    """The steps that a check may still take, and the validators of its schema's parts by id()."""

    left: int
    validators: dict[int, Validator]


# Steps, not seconds, so that the same is refused on every machine.
BUDGET: Final[ContextVar[Budget | None]] = ContextVar("mcp_bridge_budget", default=None)


def _spend(steps: int) -> None:
    """Count steps, where any are counted. Raises UncheckableError once there are none left."""
    budget = BUDGET.get()
    if budget is not None:
        budget.left -= steps
        if budget.left < 0:
            raise UncheckableError(UNCHECKABLE)


def _descend(
    self: Validator, instance: object, schema: Any, path: str | int | None = None, **rest: object
) -> Errors:
    """
    Yield the errors of a part of an instance, as jsonschema's own method does.

    The validator of a subschema is made once, and not for each value. A resolver is not needed,
    since every reference is a pointer from the root (SchemaDocument.localize), nor a schema_path.
    """
    budget = BUDGET.get()
    known = {} if budget is None else budget.validators
    below = known.get(id(schema))
    if below is None:
        # It holds the subschema, whose id is therefore no other's.
        below = known[id(schema)] = self.evolve(schema=schema)
    for error in below.iter_errors(instance):
        if path is not None:
            error.path.appendleft(path)
        yield error


def _size(value: object) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def price_of(schema: JSONSchema) -> int:
    """Return about the steps that one small value costs, without those of its subschemas."""
    return sum(_PRICES.get(name, 1) + _size(value) // 16 for name, value in schema.items())


def _counted(name: str, keyword: Keyword) -> Keyword:
    price, goes_through = _PRICES.get(name, 1), name in _GO_THROUGH

    def check(validator: Validator, value: Any, instance: object, schema: JSONSchema) -> Any:
        size = _size(value)
        if goes_through and isinstance(instance, dict | list):
            size += len(instance)
        _spend(price + size // 16)
        return keyword(validator, value, instance, schema)

    return check


@lru_cache(maxsize=2048)
def matcher(pattern: str) -> Callable[[str], bool]:
    """
    Return pydantic's search for a pattern, which takes time linear in the length of a text.

    Raises ValueError for a pattern that it cannot read, such as one with look-around.
    """
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError as exception:
        reason = str(exception).strip().splitlines()[-1].strip().removeprefix("error: ")
        raise ValueError(reason) from exception


def _pattern(validator: Validator, pattern: str, instance: object, *rest: object) -> Errors:
    if isinstance(instance, str):
        _spend(len(instance) // 256)
        if not matcher(pattern)(instance):
            yield ValidationError("does not match the pattern")


def _pattern_properties(
    validator: Validator, patterns: Mapping[str, object], instance: object, *rest: object
) -> Errors:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        _spend(len(instance))
        for name, value in instance.items():
            if matcher(pattern)(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Validator, wanted: object, instance: object, schema: JSONSchema
) -> Errors:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", ())
    _spend(len(instance) * len(patterns))
    extra = [
        name
        for name in instance
        if name not in known and not any(matcher(pattern)(name) for pattern in patterns)
    ]
    if wanted is not False:
        for name in extra:
            yield from validator.descend(instance[name], wanted, path=name)
    elif extra:
        names = ", ".join(map(quoted, islice(known, 10)))
        among = f"; known are {names}" if names else ""
        for name in extra:
            yield ValidationError(f"is not a known member; leave it out{among}", path=[name])


def _required(validator: Validator, names: list[str], instance: object, *rest: object) -> Errors:
    if isinstance(instance, dict):
        for name in names:
            if name not in instance:
                yield ValidationError("is required and was not given", path=[name])


def _property_names(validator: Validator, names: object, instance: object, *rest: object) -> Errors:
    for name in instance if isinstance(instance, dict) else ():
        if any(validator.descend(name, names)):
            yield ValidationError(f"has a member with a name it may not have: {quoted(name)}")


def _unique_items(validator: Validator, wanted: bool, instance: object, *rest: object) -> Errors:
    if not wanted or not isinstance(instance, list):
        return
    # Texts, since the hashes of numbers can be made to collide.
    seen: set[str] = set()
    for item in instance:
        text = _text_of(item)
        if text in seen:
            yield ValidationError("holds an item twice")
            return
        seen.add(text)


def _enum(validator: Validator, values: list[Any], instance: object, *rest: object) -> Errors:
    if isinstance(instance, dict | list):
        text = _text_of(instance)
        found = any(isinstance(each, dict | list) and _text_of(each) == text for each in values)
    else:
        truth = isinstance(instance, bool)
        # Looked up first, since Python takes 1 for True: the loop costs far more.
        found = instance in values and any(
            each == instance and isinstance(each, bool) is truth for each in values
        )
    if not found:
        yield ValidationError("is none of the values")


def _const(validator: Validator, value: object, instance: object, *rest: object) -> Errors:
    return _enum(validator, [value], instance)


def _text_of(value: object) -> str:
    text = canonical_text(value)
    _spend(1 + len(text) // 16)
    return text


def _format(validator: Validator, name: str, instance: object, *rest: object) -> Errors:
    if not isinstance(instance, str) or name not in validator.format_checker.checkers:
        return
    if len(instance) <= _LONGEST_FORMATTED:
        _spend(1 + len(instance))
        if validator.format_checker.conforms(instance, name):
            return
    yield ValidationError("is not of the format")


def _multiple_of(validator: Validator, step: float, instance: object, *rest: object) -> Errors:
    if isinstance(instance, int | float) and not isinstance(instance, bool):
        # Decimal arithmetic: 4.35 is a multiple of 0.01, but not in binary.
        number = Fraction(repr(instance) if isinstance(instance, float) else instance)
        if (number / Fraction(repr(step))).denominator != 1:
            yield ValidationError("is no multiple")


def _content_encoding(validator: Validator, name: str, instance: object, *rest: object) -> Errors:
    # JSON Schema leaves it open whether it is asserted (Validation, section 8.2): a library that
    # takes bytes as text may store what it could read of it.
    if name != "base64" or not isinstance(instance, str):
        return
    _spend(len(instance) // 256)
    try:
        b64decode(instance, validate=True)
    except ValueError:
        yield ValidationError("must be base64 (RFC 4648, section 4), with its padding")


def _is_date_time(text: str) -> bool:
    # Python knows no leap second, which RFC 3339 allows.
    known = text[:17] + text[17:19].replace("60", "59") + text[19:]
    return bool(_DATE_TIME.fullmatch(text) and datetime.fromisoformat(known.upper()))


def _is_uri(text: str) -> bool:
    plain = text.isascii() and text.isprintable() and " " not in text
    return plain and bool(urlsplit(text).scheme)


def _add_format(name: str, is_valid: Callable[[str], bool]) -> None:
    # A value that is no text is of every format (JSON Schema Validation, section 7.1).
    FORMATS.checks(name, ValueError)(lambda value: not isinstance(value, str) or is_valid(value))


NO_FORMATS: Final = FormatChecker(formats=())
# jsonschema's formats, and those for which it needs packages: where these are installed, they would
# refuse what they are missing for elsewhere, such as a leap second.
FORMATS: Final = FormatChecker(formats=())
_add_format("date-time", _is_date_time)
_add_format("time", lambda text: _is_date_time(f"2000-01-01T{text}"))
_add_format("uri", _is_uri)
FORMATS.checkers = {**Draft202012Validator.FORMAT_CHECKER.checkers, **FORMATS.checkers}

_KEYWORDS: Final[dict[str, Keyword]] = {
    **Draft202012Validator.VALIDATORS,
    "additionalProperties": _additional_properties,
    "const": _const,
    "contentEncoding": _content_encoding,
    "enum": _enum,
    "format": _format,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "propertyNames": _property_names,
    "required": _required,
    "uniqueItems": _unique_items,
}
_extend: Any = extend
Bounded: Final[Validator] = _extend(
    Draft202012Validator, {name: _counted(name, each) for name, each in _KEYWORDS.items()}
)
# No keyword, and no public name of jsonschema: the differential tests notice where it changes.
Bounded.descend = _descend
# For schemas of which only the size of the instance is a concern: nothing but one keyword is new.
Linear: Final[Validator] = _extend(Draft202012Validator, {"uniqueItems": _unique_items})

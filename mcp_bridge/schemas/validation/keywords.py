"""jsonschema's keywords of 2020-12: each costs steps, and those that cost too much are new."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema
from referencing.jsonschema import DRAFT202012

from mcp_bridge.protocol.text import quoted
from mcp_bridge.schemas.validation.budget import current, spend

Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]

# No format that is asserted has longer values, and some are slow to read.
_LONGEST_FORMATTED: Final = 2000
_TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.IGNORECASE | re.ASCII)


# In steps of about four microseconds: a reference is searched for, a choice keeps the errors of
# all its branches.
_PRICES: Final = {"$ref": 8, "$dynamicRef": 8, "anyOf": 5, "oneOf": 5}
# These look at every item or member, also where they find nothing to check in it.
_GO_THROUGH: Final = (
    "additionalProperties",
    "contains",
    "items",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)


def _descend(
    self: Any,
    instance: Any,
    schema: Any,
    path: Any = None,
    schema_path: Any = None,
    resolver: Any = None,
) -> Iterator[ValidationError]:
    """jsonschema's own, but for the validator: made once for a part, not for each value."""
    budget = current()
    known = budget.validators if budget is not None else None
    below = None if known is None else known.get(id(schema))
    if below is None:
        resource = DRAFT202012.create_resource(schema)
        resolver = resolver or self._resolver.in_subresource(resource)
        below = self.evolve(schema=schema, _resolver=resolver)
        if known is not None:
            # It holds the part, whose id is therefore no other's.
            known[id(schema)] = below
    for error in below.iter_errors(instance):
        if path is not None:
            error.path.appendleft(path)
        if schema_path is not None:
            error.schema_path.appendleft(schema_path)
        yield error


def _counted(name: str, keyword: Keyword) -> Keyword:
    price, goes_through = _PRICES.get(name, 1), name in _GO_THROUGH

    def check(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterable[ValidationError] | None:
        size = len(value) if isinstance(value, dict | list) else 0
        if goes_through and isinstance(instance, dict | list):
            size += len(instance)
        spend(price + size // 16)
        return keyword(validator, value, instance, schema)

    return check


@lru_cache(maxsize=2048)
def matcher(pattern: str) -> Callable[[str], bool]:
    """
    What searches a text for a pattern, in time linear in the text's length.

    That is the engine pydantic uses for patterns in hints. Raises ValueError for a pattern it
    cannot read, such as one with look-around or back-references.
    """
    try:
        matches = SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError as exception:
        reason = str(exception).strip().splitlines()[-1].strip().removeprefix("error: ")
        raise ValueError(reason) from exception
    return matches


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str):
        spend(len(instance) // 256)
        if not matcher(pattern)(instance):
            yield ValidationError("does not match the pattern")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        spend(len(instance))
        for name, value in instance.items():
            if matcher(pattern)(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, wanted: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", ())
    spend(len(instance) * len(patterns))
    extra = [
        name
        for name in instance
        if name not in known and not any(matcher(pattern)(name) for pattern in patterns)
    ]
    if wanted is False:
        names = ", ".join(map(quoted, islice(known, 10))) if extra else ""
        among = f"; known are {names}" if names else ""
        for name in extra:
            yield ValidationError(f"is not a known member; leave it out{among}", path=[name])
        return
    for name in extra:
        yield from validator.descend(instance[name], wanted, path=name)


def _required(
    validator: Any, names: list[str], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    for name in names if isinstance(instance, dict) else ():
        if name not in instance:
            yield ValidationError("is required and was not given", path=[name])


def _property_names(
    validator: Any, wanted: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    for name in instance if isinstance(instance, dict) else ():
        if any(validator.descend(name, wanted)):
            yield ValidationError(f"has a member with a name it may not have: {quoted(name)}")


def _unique_items(
    validator: Any, wanted: bool, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not wanted or not isinstance(instance, list):
        return
    # Texts, since the hashes of numbers can be made to collide.
    seen: set[str] = set()
    for item in instance:
        text = _text(item)
        if text in seen:
            yield ValidationError("holds an item twice")
            return
        seen.add(text)


def _enum(validator: Any, values: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict | list):
        text = _text(instance)
        found = any(isinstance(each, dict | list) and _text(each) == text for each in values)
    else:
        truth = isinstance(instance, bool)
        # Looked up first, since Python takes 1 for True: the loop costs far more.
        found = instance in values and any(
            each == instance and isinstance(each, bool) is truth for each in values
        )
    if not found:
        yield ValidationError("is none of the values")


def _const(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    return _enum(validator, [value], instance, schema)


def _text(value: Any) -> str:
    """The same text for values that are equal."""
    text = json.dumps(_canonical(value), sort_keys=True)
    spend(1 + len(text) // 16)
    return text


def _canonical(value: Any) -> Any:
    """The same for values that JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    return value


def _format(validator: Any, name: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str) or name not in validator.format_checker.checkers:
        return
    if len(instance) <= _LONGEST_FORMATTED:
        spend(1 + len(instance))
        if validator.format_checker.conforms(instance, name):
            return
    yield ValidationError("is not of the format")


def _formats() -> FormatChecker:
    """jsonschema's formats, and those for which it needs packages that may be missing."""
    formats = FormatChecker(formats=())
    formats.checkers = dict(Draft202012Validator.FORMAT_CHECKER.checkers)
    own: dict[str, Callable[[str], bool]] = {
        "date-time": _is_date_time,
        "time": lambda text: (
            _TIME.fullmatch(text) is not None and _is_date_time(f"2000-01-01T{text}")
        ),
        "uri": _is_uri,
    }
    for name, check in own.items():
        if name not in formats.checkers:
            register: Any = formats.checks(name, raises=ValueError)
            register(partial(_is_text_of, check))
    return formats


def _is_text_of(check: Callable[[str], bool], value: object) -> bool:
    """Whether a value is of a format; only texts can be of none."""
    return not isinstance(value, str) or check(value)


def _is_date_time(text: object) -> bool:
    date, _, time = str(text).upper().partition("T")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date, re.ASCII) or not _TIME.fullmatch(time):
        return False
    # Python knows no leap second, which RFC 3339 allows.
    return bool(
        datetime.fromisoformat(f"{date}T{time[:6]}{time[6:8].replace('60', '59')}{time[8:]}")
    )


def _is_uri(text: object) -> bool:
    uri = str(text)
    return uri.isascii() and uri.isprintable() and " " not in uri and bool(urlsplit(uri).scheme)


_OWN: Final[dict[str, Keyword]] = {
    "additionalProperties": _additional_properties,
    "const": _const,
    "enum": _enum,
    "format": _format,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "propertyNames": _property_names,
    "required": _required,
    "uniqueItems": _unique_items,
}
FORMATS: Final = _formats()
_extend: Any = extend
Bounded: Final[Any] = _extend(
    Draft202012Validator,
    {
        name: _counted(name, keyword)
        for name, keyword in {**Draft202012Validator.VALIDATORS, **_OWN}.items()
    },
)
Bounded.descend = _descend
# For schemas of which only the size of the instance is a concern: nothing but one keyword is new.
Linear: Final[Any] = _extend(Draft202012Validator, {"uniqueItems": _unique_items})

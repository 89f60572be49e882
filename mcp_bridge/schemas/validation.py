"""
Enforce explicit JSON Schemas within bounds.

Only this module creates jsonschema validators for them. When a tool is registered, a schema is
refused if it is not of dialect 2020-12, has external references, or is too large. An instance is
refused if checking it takes more steps than its size allows: each keyword costs steps, and
expensive keywords are replaced. Nothing is fetched.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import pydantic_core
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut, pointer, quoted
from mcp_bridge.schemas import walk
from mcp_bridge.schemas.limits import UNCHECKABLE

# More errors are not useful, and each costs some kilobytes.
MAX_ERRORS: Final = 1000
# About a fifth of a second of jsonschema's work.
MAX_STEPS: Final = 50_000
# Plus one for each keyword at each byte: small values need no more, unless a recursive schema reads
# their parts repeatedly.
LEAST_STEPS: Final = 10_000

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_LONG: Final = 100
_MANY: Final = 50
_SENTENCES: Final = {
    None: "is not allowed here",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} members",
    "maxProperties": "must have at most {} members",
    "const": "must be {}",
    "pattern": "must match the pattern {}",
    "format": "must be of the format {}",
    "uniqueItems": "must not contain the same item twice",
    "not": "must not match the schema in 'not'",
    "contains": "does not contain the number of items that 'contains' requires",
    "anyOf": "matches none of the allowed schemas",
    "oneOf": "matches more than one schema",
    "unevaluatedItems": "contains items that are not allowed",
    "unevaluatedProperties": "contains members that are not allowed",
    "items": "contains more items than allowed",
}
_TYPES: Final = {"null": "null"} | {kind: f"an {kind}" for kind in ("array", "integer", "object")}
# jsonschema puts the repr of a value into each message, which for a large value would take most of
# the time of a check.
_Text, _Object, _Array = (
    type(kind.__name__, (kind,), {"__repr__": lambda value: "…"}) for kind in (str, dict, list)
)

logger = get_logger("mcp_bridge.schemas")
# A jsonschema validator; ``extend`` leaves its methods untyped.
Validator: TypeAlias = Any
# Takes a validator, the keyword's value, the instance and the schema.
Keyword = Callable[[Validator, Any, object, JSONSchema], Iterable[ValidationError] | None]
Errors = Iterator[ValidationError]

# Values of asserted formats are never longer, and some formats are slow to parse.
_LONGEST_FORMATTED: Final = 2000
_DATE_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.IGNORECASE | re.ASCII
)
# In steps of about four microseconds: a reference is looked up, a choice keeps the errors of all
# its branches.
_PRICES: Final = {"$ref": 8, "$dynamicRef": 8, "anyOf": 5, "oneOf": 5}
# Keywords that visit every item or member, even if there is nothing to check.
_GO_THROUGH: Final = walk.FURTHER | walk.ITEMS | {"propertyNames"}


class UncheckableError(ValueError):
    """Raised if an instance cannot be checked; the text is a sentence for its sender."""


@dataclass(slots=True)
class Budget:
    """The remaining steps of a check, and the validators of its schema's parts by id()."""

    left: int
    validators: dict[int, Validator]


# Steps rather than seconds, so that all machines refuse the same values.
BUDGET: Final[ContextVar[Budget | None]] = ContextVar("mcp_bridge_budget", default=None)


def _spend(steps: int) -> None:
    """Count steps if a budget is active. Raises UncheckableError once it is exhausted."""
    budget = BUDGET.get()
    if budget is not None:
        budget.left -= steps
        if budget.left < 0:
            raise UncheckableError(UNCHECKABLE)


def _descend(
    self: Validator,
    instance: object,
    schema: Any,
    path: str | int | None = None,
    schema_path: object = None,
    resolver: Any = None,
) -> Errors:
    """Yield errors like jsonschema's method, with one validator for each subschema."""
    budget = BUDGET.get()
    known = {} if budget is None else budget.validators
    below = known.get(id(schema))
    if below is None:
        if resolver is None:
            resolver = self._resolver.in_subresource(DRAFT202012.create_resource(schema))
        # It references the subschema, which keeps the id unique.
        below = known[id(schema)] = self.evolve(schema=schema, _resolver=resolver)
    for error in below.iter_errors(instance):
        if path is not None:
            error.path.appendleft(path)
        yield error


def _size(value: object) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _counted(name: str, keyword: Keyword) -> Keyword:
    price, goes_through = _PRICES.get(name, 1), name in _GO_THROUGH

    def check(validator: Validator, value: Any, instance: object, schema: JSONSchema) -> Any:
        size = _size(value) + (_size(instance) if goes_through else 0)
        _spend(price + size // 16)
        return keyword(validator, value, instance, schema)

    return check


@lru_cache(maxsize=2048)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return pydantic's linear search for a pattern. Raises ValueError if it is unsupported."""
    text = pydantic_core.core_schema.str_schema(pattern=pattern)
    try:
        return pydantic_core.SchemaValidator(text).isinstance_python
    except pydantic_core.SchemaError as exception:
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
    unnamed = [name for name in instance if name not in known]
    extra = [name for name in unnamed if not any(matcher(each)(name) for each in patterns)]
    if wanted is not False:
        for name in extra:
            yield from validator.descend(instance[name], wanted, path=name)
    elif extra:
        names = ", ".join(map(quoted, islice(known, 10)))
        among = f"; known members are {names}" if names else ""
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
            yield ValidationError(f"has a member with a name that is not allowed: {quoted(name)}")


def _unique_items(validator: Validator, wanted: bool, instance: object, *rest: object) -> Errors:
    # Strings, since hashes of numbers can be made to collide.
    if wanted and isinstance(instance, list) and len(set(map(_text_of, instance))) < len(instance):
        yield ValidationError("contains an item twice")


def _enum(validator: Validator, values: list[Any], instance: object, *rest: object) -> Errors:
    if isinstance(instance, dict | list):
        text = _text_of(instance)
        found = any(isinstance(each, dict | list) and _text_of(each) == text for each in values)
    else:
        truth = isinstance(instance, bool)
        # ``in`` first, which is much faster; then the types, since 1 equals True in Python.
        found = instance in values and any(
            each == instance and isinstance(each, bool) is truth for each in values
        )
    if not found:
        yield ValidationError("is not one of the values")


def _text_of(value: object) -> str:
    text = walk.canonical_text(value)
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
            yield ValidationError("is not a multiple")


def _content_encoding(validator: Validator, name: str, instance: object, *rest: object) -> Errors:
    # JSON Schema makes assertion optional (Validation, section 8.2), but a library that decodes
    # leniently may store truncated bytes.
    if name != "base64" or not isinstance(instance, str):
        return
    _spend(len(instance) // 256)
    try:
        b64decode(instance, validate=True)
    except ValueError:
        yield ValidationError("must be base64 (RFC 4648, section 4) with padding")


def _is_date_time(text: str) -> bool:
    # Python does not support leap seconds, which RFC 3339 allows.
    known = text[:17] + text[17:19].replace("60", "59") + text[19:]
    return bool(_DATE_TIME.fullmatch(text) and datetime.fromisoformat(known.upper()))


def _add_format(name: str, is_valid: Callable[[str], bool]) -> None:
    # A value that is not a string matches every format (JSON Schema Validation, section 7.1).
    FORMATS.checks(name, ValueError)(lambda value: not isinstance(value, str) or is_valid(value))


NO_FORMATS: Final = FormatChecker(formats=())
# jsonschema's formats, and those for which it needs packages. These are defined here, so that
# results do not depend on which packages are installed.
FORMATS: Final = FormatChecker(formats=())
_add_format("date-time", _is_date_time)
_add_format("time", lambda text: _is_date_time(f"2000-01-01T{text}"))
_add_format("uri", lambda text: bool(re.fullmatch("[!-~]+", text) and urlsplit(text).scheme))
FORMATS.checkers = {**Draft202012Validator.FORMAT_CHECKER.checkers, **FORMATS.checkers}

_KEYWORDS: Final[dict[str, Keyword]] = {
    **Draft202012Validator.VALIDATORS,
    "additionalProperties": _additional_properties,
    "const": lambda validator, value, instance, schema: _enum(validator, [value], instance),
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
# Not a public name of jsonschema: the differential tests detect changes.
Bounded.descend = _descend
# For schemas that are trusted with instances of any size: only one keyword is replaced.
Linear: Final[Validator] = _extend(Draft202012Validator, {"uniqueItems": _unique_items})


class InstanceError(NamedTuple):
    """A value that breaks a schema: the keyword that refuses it, a sentence, and its path."""

    keyword: str
    message: str
    path: tuple[str | int, ...]


class SchemaValidator:
    """
    A validator for a JSON Schema (2020-12); ``format`` is asserted if ``asserts_formats``.

    Raises ValueError, with a sentence that begins with ``name``, for a schema that is invalid, of
    another dialect, larger than the bounds, or has external references. The validity of generated
    schemas (``is_generated``) is not checked, which would take most of the time; tests check them.
    """

    def __init__(
        self,
        schema: JSONSchema,
        name: str,
        *,
        is_generated: bool = False,
        asserts_formats: bool = True,
    ) -> None:
        self.name = name
        self._has_logged = False
        try:
            plain = _read(schema)
            if not is_generated:
                # Without formats: patterns are checked below by the engine that matches them.
                Draft202012Validator.check_schema(plain, format_checker=NO_FORMATS)
            document = walk.SchemaDocument(plain)
            _check_parts(document)
        except ValueError as exception:
            raise ValueError(f"its {name} {exception}") from exception
        except SchemaError as error:
            place, text = pointer(error.absolute_path) or "/", cut(error.message, 200)
            raise ValueError(f"its {name} is not valid at {place}: {text}") from error
        # The approximate steps for one small value.
        self._price = sum(
            _PRICES.get(name, 1) + _size(value) // 16
            for part in document.subschemas
            for name, value in part.items()
        )
        # By the id of a subschema, which its validator keeps alive.
        self._validators: dict[int, Any] = {}
        formats = FORMATS if asserts_formats else NO_FORMATS
        self._validator = Bounded(plain, registry=Registry(), format_checker=formats)

    def errors(self, instance: object) -> list[InstanceError]:
        """
        Return at most MAX_ERRORS errors of a JSON value, ordered by path.

        Raises UncheckableError if checking takes too many steps or fails, which is logged once.
        """
        budget = Budget(0, self._validators)
        token = BUDGET.set(budget)
        try:
            enough = LEAST_STEPS + self._price * len(json.dumps(instance))
            budget.left = min(enough, MAX_STEPS)
            errors = self._validator.iter_errors(_quiet(instance))
            found = list(islice(chain.from_iterable(map(_explained, errors)), MAX_ERRORS))
        except Exception as exception:
            if not self._has_logged:
                self._has_logged = True
                text = cut(f"{type(exception).__name__}: {exception}", 300)
                logger.warning("A value could not be checked against %s: %r", self.name, text)
            if isinstance(exception, UncheckableError):
                raise
            raise UncheckableError("could not be checked; send simpler values") from exception
        finally:
            BUDGET.reset(token)
        return sorted(found, key=lambda each: [str(key) for key in each.path])


def _read(schema: JSONSchema) -> dict[str, Any]:
    """Return a copy of a schema as plain JSON, without the name of its dialect."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exception:
        raise ValueError(f"is not JSON: {exception}") from exception
    if wrong := walk.excess(plain):
        raise ValueError(wrong)
    # For the name, jsonschema would use its own, unbounded validators.
    dialect = plain.pop("$schema", _DIALECT)
    if not isinstance(dialect, str) or dialect.removesuffix("#") != _DIALECT:
        raise ValueError(f"is of the dialect {cut(str(dialect), 200)}, not {_DIALECT}")
    return plain


def _check_parts(document: walk.SchemaDocument) -> None:
    parts = document.subschemas
    if len(parts) > walk.MAX_SUBSCHEMAS:
        text = f"has {len(parts)} subschemas, but at most {walk.MAX_SUBSCHEMAS} are allowed"
        raise ValueError(text)
    if any("$schema" in each for each in parts):
        raise ValueError("names a dialect ($schema) below its root")
    if document.external:
        raise ValueError(f"refers to {cut(document.external[0], 200)}, which is not fetched")
    if document.unresolved:
        raise ValueError(f"refers to {cut(document.unresolved[0], 200)}, which it does not contain")
    anchors = [each["$dynamicAnchor"] for each in parts if "$dynamicAnchor" in each]
    if len(set(anchors)) < len(anchors) and any("$dynamicRef" in each for each in parts):
        raise ValueError("has a $dynamicAnchor twice, so a $dynamicRef is ambiguous")
    edges: dict[int, list[int]] = {}
    for schema in parts:
        in_place = [
            each.schema for each in walk.subschemas(schema) if each.keyword in walk.IN_PLACE
        ]
        # Booleans, which share their ids, do not have edges.
        edges[id(schema)] = [id(each) for each in (*in_place, *document.targets(schema).values())]
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        raise ValueError("has a circular $ref") from None
    patterns = [each["pattern"] for each in parts if "pattern" in each]
    names = [name for each in parts for name in each.get("patternProperties", ())]
    if names and any("unevaluatedProperties" in each for each in parts):
        raise ValueError(
            "has patternProperties and unevaluatedProperties, which cannot be checked together; "
            "use additionalProperties"
        )
    for pattern in patterns + names:
        try:
            matcher(pattern)
        except ValueError as exception:
            raise ValueError(
                f"has the pattern {cut(pattern, 100)!r}, which cannot be matched in linear time: "
                f"{exception}"
            ) from exception


def _quiet(value: object) -> object:
    """Return the same JSON value with a short repr at every level."""
    if isinstance(value, str):
        return value if len(value) <= _LONG else _Text(value)
    if isinstance(value, dict):
        return _Object({key: _quiet(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return _Array([_quiet(each) for each in value])
    return value


def _explained(error: ValidationError, may_be_null: bool = False) -> Iterator[InstanceError]:
    """Yield an error; for a nullable value, the errors of the non-null schema instead."""
    branches: Any = error.validator_value if error.validator == "anyOf" else ()
    null = next((each for each in branches if each == {"type": "null"}), None)
    # By identity, since the other branch may contain an equal schema.
    meant = [each for each in error.context or () if each.schema is not null]
    if len(branches) == 2 and null is not None and meant:
        for each in meant:
            yield from _explained(each, may_be_null=not each.path)
        return
    wanted: Any = error.validator_value
    match error.validator:
        case "type":
            names = [wanted] if isinstance(wanted, str) else wanted
            text = f"must be {' or '.join(_TYPES.get(name, f'a {name}') for name in names)}"
        case "enum":
            more = ", …" if len(wanted) > _MANY else ""
            text = f"must be one of {', '.join(map(_json, wanted[:_MANY]))}{more}"
        case "oneOf" if error.context:
            text = "matches none of the schemas in 'oneOf'"
        case keyword if keyword in _SENTENCES:
            text = _SENTENCES[keyword].format(_json(wanted))
        case _:
            # Messages that name members, from this module or the schema itself.
            text = error.message
    text = cut(text, 300)
    if may_be_null and error.validator in ("type", "enum", "const"):
        text += " or null"
    yield InstanceError(str(error.validator or "false"), text, tuple(error.absolute_path))


def _json(value: object) -> str:
    return cut(json.dumps(value, ensure_ascii=False), 200)

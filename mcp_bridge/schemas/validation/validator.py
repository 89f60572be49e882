"""
JSON Schemas given by hand, enforced within bounds.

This is the one place that makes jsonschema validators of them. A schema is refused where the tool
is registered, if it is not of the dialect 2020-12, needs anything from outside, or is too large; an
instance is refused once checking it costs more steps than its size allows. Nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut, pointer
from mcp_bridge.schemas.validation import keywords
from mcp_bridge.schemas.walk import IN_PLACE, MAX_SUBSCHEMAS, SchemaDocument, excess, subschemas

# More errors than that help nobody, and each costs some kilobytes.
MAX_ERRORS: Final = 1000
# About a fifth of a second of jsonschema's work.
MAX_STEPS: Final = 50_000
# And one for each keyword at each byte: a small value needs no more, unless a schema that refers to
# itself reads its parts many times over.
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
    "uniqueItems": "must not hold the same item twice",
    "not": "must not be as this schema's 'not' says",
    "contains": "does not hold as many items as 'contains' wants, of the kind it describes",
    "anyOf": "fits none of the schemas that are allowed here",
    "oneOf": "fits more than one schema",
    "unevaluatedItems": "holds items that are not allowed",
    "unevaluatedProperties": "holds members that are not allowed",
    "items": "holds more items than are allowed",
}
_TYPES: Final = {"null": "null"} | {kind: f"an {kind}" for kind in ("array", "integer", "object")}
# jsonschema puts the repr of a value into each message: with a large one, that is most of the work
# of a check.
_Text, _Object, _Array = (
    type(kind.__name__, (kind,), {"__repr__": lambda value: "…"}) for kind in (str, dict, list)
)

logger = get_logger("mcp_bridge.schemas")


class InstanceError(NamedTuple):
    """One value that breaks a schema: the keyword that refuses it, a sentence, and its path."""

    keyword: str
    message: str
    path: tuple[str | int, ...]


class SchemaValidator:
    """
    A JSON Schema (2020-12), ready to be enforced; ``format`` is asserted if ``asserts_formats``.

    Raises ValueError, with a sentence that begins with ``name``, for a schema that is not valid,
    of another dialect, larger than the bounds, or refers to schemas that it does not hold itself.
    Whether it is valid is not asked of one that a program has made (``is_generated``): its tests
    ask, and here it would take most of the time.
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
                _check_validity(plain)
            document = SchemaDocument(plain)
            _check_parts(document)
        except ValueError as exception:
            raise ValueError(f"its {name} {exception}") from exception
        document.localize()
        # Of one small value.
        self._price = sum(map(keywords.price_of, document.subschemas))
        # By the id of a subschema, which the validator that is kept for it holds.
        self._validators: dict[int, Any] = {}
        self._validator = keywords.Bounded(
            plain,
            registry=Registry(),
            format_checker=keywords.FORMATS if asserts_formats else keywords.NO_FORMATS,
        )

    def errors(self, instance: object) -> list[InstanceError]:
        """
        Return the errors of a JSON value, in the order of their paths; at most MAX_ERRORS.

        Raises UncheckableError where checking takes too many steps or fails, which is logged once.
        """
        budget = keywords.Budget(0, self._validators)
        token = keywords.BUDGET.set(budget)
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
            if isinstance(exception, keywords.UncheckableError):
                raise
            raise keywords.UncheckableError(
                "could not be checked; send simpler values"
            ) from exception
        finally:
            keywords.BUDGET.reset(token)
        return sorted(found, key=lambda each: [str(key) for key in each.path])


def _read(schema: JSONSchema) -> dict[str, Any]:
    """Return a copy of a schema as JSON has it, without the name of its dialect."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exception:
        raise ValueError(f"is no JSON: {exception}") from exception
    if wrong := excess(plain):
        raise ValueError(wrong)
    # jsonschema would take its own validators, which have no bounds, wherever it reads the name.
    dialect = plain.pop("$schema", _DIALECT)
    if not isinstance(dialect, str) or dialect.removesuffix("#") != _DIALECT:
        raise ValueError(f"is of the dialect {cut(str(dialect), 200)}, not {_DIALECT}")
    return plain


def _check_validity(plain: JSONSchema) -> None:
    try:
        # Without formats: patterns are read below, by the engine that matches them.
        Draft202012Validator.check_schema(plain, format_checker=keywords.NO_FORMATS)
    except SchemaError as error:
        place, text = pointer(error.absolute_path) or "/", cut(error.message, 200)
        raise ValueError(f"is not valid at {place}: {text}") from error


def _check_parts(document: SchemaDocument) -> None:
    parts = document.subschemas
    if len(parts) > MAX_SUBSCHEMAS:
        raise ValueError(f"has {len(parts)} subschemas, and at most {MAX_SUBSCHEMAS} are allowed")
    if any("$schema" in each for each in parts):
        raise ValueError("names a dialect ($schema) below its root")
    if document.external:
        raise ValueError(f"refers to {cut(document.external[0], 200)}, and nothing is fetched")
    if document.unresolved:
        raise ValueError(f"refers to {cut(document.unresolved[0], 200)}, which it does not hold")
    anchors = [each["$dynamicAnchor"] for each in parts if "$dynamicAnchor" in each]
    if len(set(anchors)) < len(anchors) and any("$dynamicRef" in each for each in parts):
        raise ValueError("has a $dynamicAnchor twice, so that a $dynamicRef has no one target")
    edges: dict[int, list[int]] = {}
    for schema in parts:
        in_place = [each.schema for each in subschemas(schema) if each.keyword in IN_PLACE]
        # Booleans, whose ids are all the same, lead nowhere.
        edges[id(schema)] = [id(each) for each in (*in_place, *document.targets(schema).values())]
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        raise ValueError("has a $ref that leads back to itself") from None
    patterns = [each["pattern"] for each in parts if "pattern" in each]
    names = [name for each in parts for name in each.get("patternProperties", ())]
    if names and any("unevaluatedProperties" in each for each in parts):
        raise ValueError(
            "has patternProperties and unevaluatedProperties, which cannot be checked together; "
            "use additionalProperties"
        )
    for pattern in patterns + names:
        try:
            keywords.matcher(pattern)
        except ValueError as exception:
            raise ValueError(
                f"has the pattern {cut(pattern, 100)!r}, which cannot be matched in linear time: "
                f"{exception}"
            ) from exception


def _quiet(value: object) -> object:
    """Return the same JSON value, with a short repr at every level."""
    if isinstance(value, str):
        return value if len(value) <= _LONG else _Text(value)
    if isinstance(value, dict):
        return _Object({key: _quiet(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return _Array([_quiet(each) for each in value])
    return value


def _explained(error: ValidationError, may_be_null: bool = False) -> Iterator[InstanceError]:
    """Yield an error; for a value that may be null, those of the schema that it has besides."""
    branches: Any = error.validator_value if error.validator == "anyOf" else ()
    null = next((each for each in branches if each == {"type": "null"}), None)
    # By identity, since the other branch may hold a schema that is equal.
    meant = [each for each in error.context or () if each.schema is not null]
    if len(branches) == 2 and null is not None and meant:
        for each in meant:
            yield from _explained(each, may_be_null=not each.path)
        return
    text = _explain(error)
    if may_be_null and error.validator in ("type", "enum", "const"):
        text += " or null"
    yield InstanceError(str(error.validator or "false"), text, tuple(error.absolute_path))


def _explain(error: ValidationError) -> str:
    """Return an error as a sentence of at most 300 characters, without the value itself."""
    wanted: Any = error.validator_value
    match error.validator:
        case "type":
            names = [wanted] if isinstance(wanted, str) else wanted
            return f"must be {' or '.join(_TYPES.get(name, f'a {name}') for name in names)}"
        case "enum":
            more = ", …" if len(wanted) > _MANY else ""
            return cut(f"must be one of {', '.join(map(_json, wanted[:_MANY]))}{more}", 300)
        case "oneOf" if error.context:
            return "fits none of the schemas in 'oneOf'"
        case keyword if keyword in _SENTENCES:
            return cut(_SENTENCES[keyword].format(_json(wanted)), 300)
    # The other keywords name members: those of this package, and the ones of the schema's own.
    return cut(error.message, 300)


def _json(value: object) -> str:
    return cut(json.dumps(value, ensure_ascii=False), 200)

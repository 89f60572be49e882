"""
JSON Schemas given by hand, enforced within bounds.

This is the one place that makes jsonschema validators of them. A schema is refused where the tool
is registered, if it is not of the dialect 2020-12, needs anything from outside, or is too large; an
instance is refused once checking it costs more than a fixed number of steps. Nothing is fetched.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from referencing import Registry

from mcp_bridge.protocol.text import cut, pointer
from mcp_bridge.schemas.validation.budget import Budget, TooMuchWork, allow
from mcp_bridge.schemas.validation.keywords import FORMATS, Bounded, matcher
from mcp_bridge.schemas.validation.messages import explain, quiet
from mcp_bridge.schemas.validation.structure import Structure

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_SUBSCHEMAS",
    "SchemaValidator",
    "UncheckableError",
    "Violation",
]

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32
MAX_SUBSCHEMAS: Final = 1000
# More violations than that help nobody, and each costs some kilobytes.
MAX_VIOLATIONS: Final = 1000
# About a fifth of a second of jsonschema's work.
MAX_STEPS: Final = 50_000

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

logger = logging.getLogger("mcp_bridge.schemas")


class UncheckableError(Exception):
    """An instance cannot be checked; the text is a sentence for who sent it."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One value that breaks the schema: where it is, the keyword, and what is wanted."""

    path: tuple[str | int, ...]
    keyword: str
    message: str


class SchemaValidator:
    """
    A JSON Schema (2020-12) that somebody wrote, ready to be enforced; ``format`` is asserted.

    Raises ValueError, with a sentence that begins with ``name``, for a schema that is not valid,
    of another dialect, larger than the bounds, or refers to what it does not hold itself.
    """

    def __init__(self, schema: Mapping[str, Any], name: str) -> None:
        self.name = name
        self._told = False
        plain = _plain(schema, name)
        _check_size(plain, name)
        _check_dialect(plain, name)
        _check_valid(plain, name)
        anatomy = Structure(plain)
        _check_anatomy(anatomy, name)
        _check_patterns(anatomy, name)
        dynamic = any("$dynamicRef" in each for each in anatomy.subschemas)
        self._validators: dict[int, Any] | None = None if dynamic else {}
        self._validator = Bounded(plain, registry=Registry(), format_checker=FORMATS)

    def violations(self, instance: Any) -> list[Violation]:
        """
        What breaks the schema, in the order of the paths; at most a thousand of them.

        Raises UncheckableError where that cannot be told, which is logged once for each schema.
        """
        # A context of its own, so that what one check may cost is no other's concern.
        return copy_context().run(self._violations, instance)

    def _violations(self, instance: Any) -> list[Violation]:
        allow(Budget(MAX_STEPS, self._validators))
        try:
            errors = islice(self._validator.iter_errors(quiet(instance)), MAX_VIOLATIONS)
            found = [
                Violation(tuple(error.absolute_path), error.validator or "false", explain(error))
                for error in errors
            ]
        except TooMuchWork as exception:
            self._log(exception)
            raise UncheckableError(
                "cannot be checked: it is too large or too deep; send less"
            ) from None
        except Exception as exception:
            self._log(exception)
            raise UncheckableError("could not be checked; send simpler values") from exception
        return sorted(found, key=lambda each: [str(key) for key in each.path])

    def _log(self, exception: Exception) -> None:
        if not self._told:
            self._told = True
            text = cut(f"{type(exception).__name__}: {exception}", 300)
            logger.warning("A value could not be checked against %s: %r", self.name, text)


def _plain(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A copy as JSON has it, which nobody else can change."""
    try:
        plain = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exception:
        raise ValueError(f"its {name} is no JSON: {exception}") from exception
    assert isinstance(plain, dict)
    return plain


def _check_size(plain: dict[str, Any], name: str) -> None:
    size, depth = Structure.size_of(plain), Structure.depth_of(plain)
    if size > MAX_BYTES:
        raise ValueError(f"its {name} has {size} bytes, and at most {MAX_BYTES} are allowed")
    if depth > MAX_DEPTH:
        raise ValueError(f"its {name} is {depth} levels deep, and at most {MAX_DEPTH} are allowed")


def _check_dialect(plain: dict[str, Any], name: str) -> None:
    """Refuse another dialect, and forget the name of this one."""
    # jsonschema would take its own validators, which have no bounds, wherever it reads the name.
    dialect = plain.pop("$schema", _DIALECT)
    if not isinstance(dialect, str) or dialect.removesuffix("#") != _DIALECT:
        raise ValueError(f"its {name} is of the dialect {cut(str(dialect), 200)}, not {_DIALECT}")


def _check_valid(plain: dict[str, Any], name: str) -> None:
    try:
        # Without formats: patterns are read below, by the engine that matches them.
        no_formats = FormatChecker(formats=())
        Draft202012Validator.check_schema(plain, format_checker=no_formats)
    except SchemaError as error:
        place = pointer(error.absolute_path) or "/"
        text = cut(error.message, 200)
        raise ValueError(f"its {name} is not valid at {place}: {text}") from error


def _check_anatomy(anatomy: Structure, name: str) -> None:
    if anatomy.count > MAX_SUBSCHEMAS:
        raise ValueError(
            f"its {name} has {anatomy.count} subschemas, and at most {MAX_SUBSCHEMAS} are allowed"
        )
    if anatomy.dialects:
        raise ValueError(f"its {name} names a dialect ($schema) below its root")
    for references, why in (
        (anatomy.external, "and nothing is fetched"),
        (anatomy.unresolved, "which it does not hold"),
    ):
        if references:
            raise ValueError(f"its {name} refers to {cut(references[0], 200)}, {why}")
    if anatomy.is_circular:
        raise ValueError(f"its {name} has a $ref that leads back to itself")


def _check_patterns(anatomy: Structure, name: str) -> None:
    by_name = [each for each in anatomy.subschemas if "patternProperties" in each]
    if by_name and any("unevaluatedProperties" in each for each in anatomy.subschemas):
        raise ValueError(
            f"its {name} has patternProperties and unevaluatedProperties, which cannot be checked "
            "together; use additionalProperties"
        )
    given = [each["pattern"] for each in anatomy.subschemas if "pattern" in each]
    for pattern in [*given, *(key for each in by_name for key in each["patternProperties"])]:
        try:
            matcher(pattern)
        except ValueError as exception:
            raise ValueError(
                f"its {name} has the pattern {cut(pattern, 100)!r}, which cannot be matched in "
                f"linear time: {exception}"
            ) from exception

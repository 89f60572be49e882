"""The parameters of a signature: the input schema, and the validator that enforces it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import SchemaValidator

from mcp_bridge.protocol.jsonrpc import split_at_quotes
from mcp_bridge.schemas.adapters import TRANSIENT
from mcp_bridge.schemas.fields import CONFIG, Fields
from mcp_bridge.schemas.hints import TypeHint
from mcp_bridge.schemas.signatures import MISSING, Parameter, Signature, UnsupportedSignature
from mcp_bridge.schemas.steps import limited_steps
from mcp_bridge.schemas.strictness import strict_validator

# Of a text with more values than that, or more bytes in the names of its objects, no array or dict
# is read beyond the first error in it: all errors would cost seconds, and help nobody.
MANY_VALUES: Final = 256
LONG_NAMES: Final = 4096
# The bytes of a name. pydantic copies the names above a value into each error in it: a megabyte of
# them would take gigabytes of memory.
LONGEST_NAME: Final = 1000

__all__ = ["CONFIG", "LONGEST_NAME", "Inputs", "TooLongNameError"]


class TooLongNameError(Exception):
    """An object has a name of more than LONGEST_NAME bytes."""


class _Size(NamedTuple):
    """How many values a JSON text has, how long the names in it are, and the longest of them."""

    values: int
    names: int
    longest_name: int

    @classmethod
    def of(cls, body: bytes) -> _Size:
        """Measure a JSON text that was written without blanks."""
        outside, names, longest = body, 0, 0
        # In a short one the commas of texts do not matter, nor do names.
        if len(body) > LONGEST_NAME:
            parts = split_at_quotes(body)
            outside = b"".join(parts[::2])
            followed = zip(parts[1::2], parts[2::2], strict=True)
            found = [text for text, rest in followed if rest[:1] == b":"]
            names = longest = len(b"".join(found))
            if names > LONGEST_NAME:
                longest = max(map(len, found))
        values = outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        return cls(values, names, longest)


class Inputs:
    """
    The arguments that a function's caller may send.

    ``schema`` is the input schema, whose root is always an object. ``errors`` are sentences on
    hints that pydantic cannot read; as it stands, such a parameter takes any value. ``read()``
    makes an instance of JSON text, whose fields ``names`` maps to parameters; those in ``given``
    count also if they were not sent. ``is_plain`` says that no check of an argument runs code of
    the site. ``is_open`` says that there is a ``**kwargs``, and ``hidden`` are names that no caller
    may send, though it takes them. Raises UnsupportedSignature for a parameter that takes a path.
    """

    def __init__(self, signature: Signature) -> None:
        self.errors: list[str] = []
        parameters = signature.parameters
        try:
            self._fields, self.schema = _read(parameters, signature.extra)
        except Exception:
            parameters = tuple(map(self._readable, parameters))
            self._fields, self.schema = _read(parameters, signature.extra)
        # Fields have names of their own, since a parameter may be called what no field may.
        self.names = {f"p{index}": each.name for index, each in enumerate(parameters)}
        # A default inside a hint is one that the function does not know of.
        self.given = {
            f"p{index}"
            for index, each in enumerate(parameters)
            if each.default is MISSING and not each.may_be_absent
        }
        self.is_plain = self._fields.is_plain
        self.is_open = signature.extra is not MISSING
        self.hidden = signature.hidden if self.is_open else frozenset()
        # Made when the first call comes: many of the tools of a process may never be called.
        self._validators: dict[tuple[bool, bool], SchemaValidator] = {}
        self._is_recursive = False

    def read(
        self, body: bytes, *, whole_numbers: bool = False, takes_long_names: bool = False
    ) -> Any:
        """
        Return an instance of JSON text; with ``whole_numbers``, 2.0 is an integer.

        Raises ValidationError, with all errors unless the text has very many values or long names,
        TooManyStepsError, and, unless it takes those, TooLongNameError.
        """
        size = _Size.of(body)
        if size.longest_name > LONGEST_NAME and not takes_long_names:
            raise TooLongNameError
        stops_early = size.values > MANY_VALUES or size.names > LONG_NAMES
        validator = self.validator(whole_numbers=whole_numbers, stops_early=stops_early)
        if not self._is_recursive:
            return validator.validate_json(body)
        with limited_steps(size.values):
            return validator.validate_json(body)

    def validator(
        self, *, whole_numbers: bool = False, stops_early: bool = False
    ) -> SchemaValidator:
        """Return the validator with these options of strict_validator()."""
        known = self._validators.get((whole_numbers, stops_early))
        if known is None:
            core = self._fields.core()
            self._is_recursive = core["type"] == "definitions"
            known = strict_validator(
                core, receives=True, whole_numbers=whole_numbers, stops_early=stops_early
            )
            self._validators[whole_numbers, stops_early] = known
        return known

    def _readable(self, parameter: Parameter) -> Parameter:
        """Return the parameter, or one that takes any value where pydantic cannot read its hint."""
        try:
            _read((parameter,))
        except tuple(TRANSIENT | {UnsupportedSignature}):
            raise
        except Exception as exception:
            self.errors.append(
                f"the hint of {parameter.name!r} is not one that pydantic reads: {exception}"
            )
            return replace(parameter, hint=Any)
        return parameter


def _read(
    parameters: tuple[Parameter, ...], extra: TypeHint = MISSING
) -> tuple[Fields, JsonSchemaValue]:
    fields = Fields(parameters, extra)
    return fields, fields.schema()

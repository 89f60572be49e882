"""The parameters of a signature: the input schema, and the validator that enforces it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import SchemaValidator

from mcp_bridge.schemas.adapters import TRANSIENT
from mcp_bridge.schemas.fields import CONFIG, Fields
from mcp_bridge.schemas.hints import TypeHint
from mcp_bridge.schemas.signatures import MISSING, Parameter, Signature, UnsupportedSignature
from mcp_bridge.schemas.strictness import strict_validator

__all__ = ["CONFIG", "Inputs"]


class Inputs:
    """
    The arguments that a function's caller may send.

    ``schema`` is the input schema, whose root is always an object. ``errors`` are sentences on
    hints that pydantic cannot read; as it stands, such a parameter takes any value. ``validator``
    makes an instance of JSON text, whose fields ``names`` maps to parameters; those in ``given``
    count also where they were not sent. ``hidden`` are names that no caller may send, though
    ``**kwargs`` takes them. Raises UnsupportedSignature for a parameter that takes a path.
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
        self.given = {f"p{i}" for i, each in enumerate(parameters) if each.default is MISSING}
        self.hidden = signature.hidden if signature.extra is not MISSING else frozenset()

    # Made when the first call comes: many of the tools of a process may never be called.
    @cached_property
    def validator(self) -> SchemaValidator:
        return strict_validator(self._fields.core(), receives=True)

    @cached_property
    def lenient_validator(self) -> SchemaValidator:
        """The validator that takes 2.0 for an integer, as JSON Schema does."""
        return strict_validator(self._fields.core(), receives=True, whole_numbers=True)

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

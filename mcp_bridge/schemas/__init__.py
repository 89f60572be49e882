"""
Signature, hints and docstring to JSON Schema, and what enforces it: all of it by pydantic.

The room knows no Django. ``Signature`` reads a function, ``Inputs`` and ``Outputs`` are its two
sides; the three functions below are the short way to what a model sees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from pydantic.json_schema import JsonSchemaValue

from mcp_bridge.schemas.headers import McpHeader, header_parameters
from mcp_bridge.schemas.inputs import Inputs
from mcp_bridge.schemas.outputs import Outputs
from mcp_bridge.schemas.signatures import Signature, UnsupportedSignature

__all__ = [
    "Inputs",
    "McpHeader",
    "Outputs",
    "Signature",
    "UnsupportedSignature",
    "description",
    "header_parameters",
    "input_schema",
    "output_schema",
]


def input_schema(function: Callable[..., object], *, skip: Collection[str] = ()) -> JsonSchemaValue:
    """Return the JSON Schema of a function's parameters, without those in ``skip``."""
    return Inputs(Signature.of(function, skip=skip)).schema


def output_schema(function: Callable[..., object]) -> JsonSchemaValue | None:
    """Return the JSON Schema of a function's structured result; None where it promises none."""
    signature = Signature.of(function)
    return Outputs(signature.returns, signature.returns_description).schema


def description(function: Callable[..., object]) -> str:
    """Return a function's docstring without its parameter part."""
    return Signature.of(function).description

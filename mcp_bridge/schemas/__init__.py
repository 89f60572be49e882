"""
Signature, hints and docstring to JSON Schema, and what enforces it: all of it by pydantic.

The engine knows no Django. ``Signature`` reads a function, ``Inputs`` and ``Outputs`` are its two
sides; the three functions below are the short way to what a model sees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from mcp_bridge.schemas.adapters import register
from mcp_bridge.schemas.headers import McpHeader, header_parameters
from mcp_bridge.schemas.inputs import Inputs
from mcp_bridge.schemas.outputs import Outputs
from mcp_bridge.schemas.signatures import Signature, UnsupportedSignature
from mcp_bridge.schemas.structs import StructAdapter

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

register(StructAdapter())


def input_schema(function: Callable[..., Any], *, skip: Collection[str] = ()) -> dict[str, Any]:
    """The JSON Schema of a function's parameters, without those in ``skip``."""
    return Inputs(Signature.of(function, skip=skip)).schema


def output_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """The JSON Schema of a function's structured result, or None where it promises none."""
    signature = Signature.of(function)
    return Outputs(signature.returns, signature.returns_description).schema


def description(function: Callable[..., Any]) -> str:
    """A function's docstring without its parameter part."""
    return Signature.of(function).description

"""
Signature, hints and docstring to JSON Schema, and its enforcement: all of it by pydantic.

``Signature`` reads a function, ``Inputs`` and ``Outputs`` are its two sides.
"""

from __future__ import annotations

from mcp_bridge.schemas.headers import McpHeader, header_parameters
from mcp_bridge.schemas.inputs import Inputs, forget_parameters
from mcp_bridge.schemas.outputs import Outputs, forget_results
from mcp_bridge.schemas.signatures import Signature, UnsupportedSignature

__all__ = [
    "Inputs",
    "McpHeader",
    "Outputs",
    "Signature",
    "UnsupportedSignature",
    "forget_hints",
    "header_parameters",
]


def forget_hints() -> None:
    """Have each hint read anew: what a type says of itself may be another thing by now."""
    forget_parameters()
    forget_results()

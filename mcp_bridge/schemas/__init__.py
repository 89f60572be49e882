"""Generate JSON Schemas from signatures, hints and docstrings, and enforce them with pydantic."""

from __future__ import annotations

from mcp_bridge.schemas.core_schemas import forget_hints
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
    "forget_hints",
    "header_parameters",
]

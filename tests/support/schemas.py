"""The schemas and the description of a function, as its tool has them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from mcp_bridge.schemas import Inputs, Outputs, Signature


def input_schema(function: Callable[..., object], *, skip: Collection[str] = ()) -> dict[str, Any]:
    return Inputs(Signature.of(function, skip=skip)).schema


def output_schema(function: Callable[..., object]) -> dict[str, Any] | None:
    signature = Signature.of(function)
    return Outputs(signature.returns, signature.returns_description).schema


def description(function: Callable[..., object]) -> str:
    return Signature.of(function).description

"""The schemas and the description of a function, as its tool has them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from mcp_bridge.schemas import Inputs, Outputs, Signature

# Without those that only further packages know: what pydantic writes of a time that has no zone is
# not as RFC 3339 wants it.
FORMATS = FormatChecker(formats=())
FORMATS.checkers = {
    name: each
    for name, each in Draft202012Validator.FORMAT_CHECKER.checkers.items()
    if name not in ("date-time", "time")
}


def input_schema(function: Callable[..., object], *, skip: Collection[str] = ()) -> dict[str, Any]:
    return Inputs(Signature.of(function, skip=skip)).schema


def output_schema(function: Callable[..., object]) -> dict[str, Any] | None:
    signature = Signature.of(function)
    return Outputs(signature.returns, signature.returns_description).schema


def description(function: Callable[..., object]) -> str:
    return Signature.of(function).description

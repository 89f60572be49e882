"""The schemas and the description of a function, as its tool has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from mcp_bridge.schemas import Inputs, Outputs, Signature, validation

# Without those that only other packages have: pydantic's format of a time without a zone differs
# from RFC 3339.
FORMATS = FormatChecker(formats=())
FORMATS.checkers = {
    name: each
    for name, each in Draft202012Validator.FORMAT_CHECKER.checkers.items()
    if name not in ("date-time", "time")
}

# As clients assert them: the official one for TypeScript by ajv-formats, from which the pattern of
# durations is.
ASSERTED = FormatChecker(formats=())
ASSERTED.checkers = dict(validation.FORMATS.checkers)
_DURATION = re.compile(
    r"P(?!$)((\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?|(\d+W)?)", re.ASCII
)


@ASSERTED.checks("duration")
def is_duration(value: object) -> bool:
    return not isinstance(value, str) or _DURATION.fullmatch(value) is not None


def input_schema(function: Callable[..., object], *, skip: Collection[str] = ()) -> dict[str, Any]:
    return Inputs(Signature.of(function, skip=skip)).schema


def output_schema(function: Callable[..., object]) -> dict[str, Any] | None:
    signature = Signature.of(function)
    return Outputs(signature.returns, signature.returns_description).schema


def description(function: Callable[..., object]) -> str:
    return Signature.of(function).description

"""What a docstring says: of the function, of each parameter, of the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import docstring_parser


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """The parts of a docstring in reST, Google or NumPy style."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""


def parse(function: Callable[..., Any]) -> Docstring:
    """Read a function's docstring; one that follows no style is all text."""
    raw = inspect.getdoc(function) or ""
    try:
        parsed = docstring_parser.parse(raw)
    except docstring_parser.ParseError:
        return Docstring(text=raw.strip())
    texts = (parsed.short_description, parsed.long_description)
    return Docstring(
        text="\n\n".join(text.strip() for text in texts if text),
        parameters={
            param.arg_name: " ".join(param.description.split())
            for param in parsed.params
            if param.description
        },
        returns=" ".join((parsed.returns.description or "").split()) if parsed.returns else "",
    )

"""What a docstring says: of the function, of each parameter, of the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import docstring_parser
from docstring_parser.common import DocstringExample, DocstringMeta

# The sections that tell a model something: notes, examples and the like.
_TOLD = (DocstringMeta, DocstringExample)


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """The parts of a docstring in reST, Google or NumPy style."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""


def parse(function: Callable[..., Any]) -> Docstring:
    """Read a function's docstring; one that follows no style is all text."""
    text = inspect.getdoc(function) or ""
    if "\n" not in text and ":" not in text:
        # No style has anything but text in such a line, and to try them all takes its time.
        return Docstring(text=text)
    parsed = docstring_parser.parse(text)
    return Docstring(
        text=_text(parsed),
        parameters={
            param.arg_name: " ".join(param.description.split())
            for param in parsed.params
            if param.description
        },
        returns=" ".join((parsed.returns.description or "").split()) if parsed.returns else "",
    )


def _text(parsed: docstring_parser.Docstring) -> str:
    """Everything but what is told of parameters, results and exceptions."""
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    opening = gap.join(
        text.strip() for text in (parsed.short_description, parsed.long_description) if text
    )
    sections = [_section(each) for each in parsed.meta if type(each) in _TOLD]
    return "\n\n".join([opening, *filter(None, sections)])


def _section(meta: DocstringMeta) -> str:
    title = (meta.args or ["note"])[0].replace("_", " ").capitalize()
    snippet = getattr(meta, "snippet", None)
    told = "\n".join(text for text in (snippet, meta.description) if text)
    return f"{title}:\n{told}" if told else ""

"""Read docstrings: the text on the function, on each parameter, on the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import docstring_parser
from docstring_parser.common import DocstringExample, DocstringMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """The parts of a docstring in reST, Google or NumPy style."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""


def parse(function: Callable[..., object]) -> Docstring:
    """Read a function's docstring; one that follows no style is all text."""
    text = inspect.getdoc(function) or ""
    if "\n" not in text and ":" not in text:
        # No style has anything but text in such a line, and to try them all takes its time.
        return Docstring(text=text)
    parsed = docstring_parser.parse(text)
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    opening = gap.join(
        text.strip() for text in (parsed.short_description, parsed.long_description) if text
    )
    # Parameters, results and exceptions are of subclasses.
    notes = [each for each in parsed.meta if type(each) in (DocstringMeta, DocstringExample)]
    return Docstring(
        text="\n\n".join([opening, *filter(None, map(_section, notes))]),
        parameters={
            param.arg_name: " ".join(param.description.split())
            for param in parsed.params
            if param.description
        },
        returns=" ".join((parsed.returns.description or "").split()) if parsed.returns else "",
    )


def _section(meta: DocstringMeta) -> str:
    title = (meta.args or ["note"])[0].replace("_", " ").capitalize()
    snippet = getattr(meta, "snippet", None)
    body = "\n".join(text for text in (snippet, meta.description) if text)
    return f"{title}:\n{body}" if body else ""

"""Read the parameters and the result of a function from its signature, hints and docstring."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, get_args

from mcp_bridge.features import Context
from mcp_bridge.schemas.hints import UNIONS, TypeHint, annotate, origin_of, split_annotated

if TYPE_CHECKING:
    from docstring_parser.common import DocstringMeta

MISSING: Final = inspect.Parameter.empty


class UnsupportedSignature(Exception):
    """The function has a parameter that no JSON object can give; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter that a caller may give; ``default`` is MISSING where it must."""

    name: str
    hint: TypeHint
    default: object = MISSING
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """
    A function as a caller sees it.

    ``extra`` is the hint of ``**kwargs``, or MISSING. ``context`` names the parameter that takes
    the Context. ``hidden`` are names that no caller may give. ``errors`` are sentences on hints of
    parameters that could not be resolved, and ``returns_errors`` those on the return hint: as it
    stands, each of these is of any value.
    """

    parameters: tuple[Parameter, ...]
    returns: TypeHint
    extra: TypeHint = MISSING
    context: str | None = None
    hidden: frozenset[str] = frozenset()
    description: str = ""
    returns_description: str = ""
    # The defaults of those that are given by position, in order.
    positional_only: dict[str, object] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    returns_errors: tuple[str, ...] = ()

    @classmethod
    def of(cls, function: Callable[..., object], *, skip: Collection[str] = ()) -> Signature:
        """
        Read a function; ``skip`` names parameters that the server fills and no caller.

        Raises UnsupportedSignature for ``*args``, and for a ``skip`` that is no parameter.
        """
        function = inspect.unwrap(function)
        parameters = inspect.signature(function).parameters
        extra = [name for name, each in parameters.items() if each.kind is each.VAR_KEYWORD]
        unknown = [] if extra else [name for name in skip if name not in parameters]
        if unknown:
            raise UnsupportedSignature(
                f"it has no parameter {unknown[0]!r}, which the server would fill"
            )
        hints, errors = _hints(function)
        text, documented, returns_text = _read_docstring(function)
        kept = {name: each for name, each in parameters.items() if name not in skip}
        context = next((name for name in kept if _is_context(hints.get(name))), None)
        return cls(
            parameters=tuple(
                _parameter(each, hints.get(name, Any), documented.get(name, ""))
                for name, each in kept.items()
                if name not in (context, *extra)
            ),
            returns=hints.get("return", MISSING),
            extra=hints.get(extra[0], Any) if kept.keys() & extra else MISSING,
            context=context,
            hidden=frozenset({*skip, *([context] if context else [])}),
            description=text,
            returns_description=returns_text,
            positional_only={
                name: each.default
                for name, each in parameters.items()
                if each.kind is each.POSITIONAL_ONLY
            },
            errors=tuple(text for name, text in errors.items() if name in kept),
            returns_errors=tuple(text for name, text in errors.items() if name == "return"),
        )

    def bind(self, values: dict[str, object]) -> tuple[list[object], dict[str, object]]:
        """Return values by name as positional and keyword arguments; defaults fill positions."""
        keywords = dict(values) if self.positional_only else values
        positional = [keywords.pop(name, default) for name, default in self.positional_only.items()]
        return positional, keywords


def _parameter(parameter: inspect.Parameter, hint: TypeHint, documented: str) -> Parameter:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise UnsupportedSignature(f"it takes *{parameter.name}, which no JSON object can hold")
    inner, metadata = split_annotated(hint)
    # A plain text in an Annotated is a description, of which pydantic knows nothing.
    texts = [each for each in metadata if isinstance(each, str)]
    if texts:
        hint = annotate(inner, *(each for each in metadata if not isinstance(each, str)))
    return Parameter(
        name=parameter.name,
        hint=hint,
        default=parameter.default,
        description=texts[0] if texts else documented,
    )


def _is_context(hint: TypeHint) -> bool:
    inner = split_annotated(hint)[0]
    return inner is Context or (
        origin_of(inner) in UNIONS and any(map(_is_context, get_args(inner)))
    )


def _hints(function: Callable[..., object]) -> tuple[Mapping[str, TypeHint], dict[str, str]]:
    """Return every hint that can be resolved, and a sentence for each that cannot, by name."""
    # One that cannot be resolved is found below.
    with suppress(Exception):
        return typing.get_type_hints(function, include_extras=True), {}
    hints: dict[str, TypeHint] = {}
    errors: dict[str, str] = {}
    names = getattr(function, "__globals__", {})
    for name, annotation in getattr(function, "__annotations__", {}).items():
        alone = type("Alone", (), {"__annotations__": {name: annotation}})
        try:
            hints.update(typing.get_type_hints(alone, globalns=names, include_extras=True))
        except Exception as exception:
            of = "the return hint" if name == "return" else f"the hint of {name!r}"
            errors[name] = f"{of} cannot be resolved: {exception}"
    return hints, errors


def _read_docstring(function: Callable[..., object]) -> tuple[str, dict[str, str], str]:
    """Return the text on a function, on each parameter (in any known style), and on the result."""
    text = inspect.getdoc(function) or ""
    if "\n" not in text and ":" not in text:
        # No style has anything but text in such a line, and to try them all takes its time.
        return text, {}, ""
    # Imported here, since it takes time, and text alone needs no parser.
    import docstring_parser
    from docstring_parser.common import DocstringExample, DocstringMeta

    parsed = docstring_parser.parse(text)
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    opening = gap.join(
        each.strip() for each in (parsed.short_description, parsed.long_description) if each
    )
    # Parameters, results and exceptions are of subclasses.
    notes = [each for each in parsed.meta if type(each) in (DocstringMeta, DocstringExample)]
    parameters = {
        param.arg_name: " ".join(param.description.split())
        for param in parsed.params
        if param.description
    }
    returns = " ".join((parsed.returns.description or "").split()) if parsed.returns else ""
    return "\n\n".join([opening, *filter(None, map(_section, notes))]), parameters, returns


def _section(meta: DocstringMeta) -> str:
    title = (meta.args or ["note"])[0].replace("_", " ").capitalize()
    body = "\n".join(filter(None, (getattr(meta, "snippet", None), meta.description)))
    return f"{title}:\n{body}" if body else ""

"""What a function takes and gives back, read from its signature, hints and docstring."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, get_args, get_origin

from mcp_bridge.features.context import Context
from mcp_bridge.schemas import docstrings

MISSING: Final = inspect.Parameter.empty


class UnsupportedSignature(Exception):
    """The function takes what no JSON object can give it; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter that a caller may give; ``default`` is MISSING where it must."""

    name: str
    hint: Any
    default: Any = MISSING
    description: str = ""

    @property
    def required(self) -> bool:
        return self.default is MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """
    A function as a caller sees it.

    ``extra`` is the hint of ``**kwargs``, or MISSING. ``context`` names the parameter that takes
    the Context. ``hidden`` are names that no caller may give. ``problems`` are sentences on hints
    that could not be read; such a parameter takes any value.
    """

    parameters: tuple[Parameter, ...]
    returns: Any
    extra: Any = MISSING
    context: str | None = None
    hidden: frozenset[str] = frozenset()
    description: str = ""
    returns_description: str = ""
    # The defaults of those that are given by position, in order.
    positional_only: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip: Collection[str] = ()) -> Signature:
        """
        Read a function; ``skip`` names parameters that something else than the caller fills.

        Raises UnsupportedSignature for ``*args``, and for a ``skip`` that is no parameter.
        """
        function = inspect.unwrap(function)
        parameters = inspect.signature(function).parameters
        if _unknown(skip, parameters):
            name = _unknown(skip, parameters)[0]
            raise UnsupportedSignature(f"it has no parameter {name!r} to put the context in")
        hints, problems = _hints(function)
        doc = docstrings.parse(function)
        kept = {name: each for name, each in parameters.items() if name not in skip}
        context = next((name for name in kept if _is_context(hints.get(name))), None)
        extra = [name for name, each in kept.items() if each.kind is each.VAR_KEYWORD]
        return cls(
            parameters=tuple(
                _parameter(each, hints.get(name, Any), doc.parameters.get(name, ""))
                for name, each in kept.items()
                if name not in (context, *extra)
            ),
            returns=hints.get("return", MISSING),
            extra=hints.get(extra[0], Any) if extra else MISSING,
            context=context,
            hidden=frozenset({*skip, *([context] if context else [])}),
            description=doc.text,
            returns_description=doc.returns,
            positional_only={
                name: each.default
                for name, each in parameters.items()
                if each.kind is each.POSITIONAL_ONLY
            },
            problems=tuple(problems),
        )

    def bind(self, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Values by name as positional and keyword arguments; what is absent keeps its default."""
        if not self.positional_only:
            return [], values
        keywords = dict(values)
        positional = [keywords.pop(name, default) for name, default in self.positional_only.items()]
        return positional, keywords


def _unknown(
    names: Collection[str], parameters: typing.Mapping[str, inspect.Parameter]
) -> list[str]:
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return []
    return [name for name in names if name not in parameters]


def _parameter(parameter: inspect.Parameter, hint: Any, documented: str) -> Parameter:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise UnsupportedSignature(f"it takes *{parameter.name}, which no JSON object can hold")
    hint, text = _described(hint)
    return Parameter(
        name=parameter.name,
        hint=hint,
        default=parameter.default,
        description=text or documented,
    )


def _described(hint: Any) -> tuple[Any, str]:
    """A hint without the plain texts of its ``Annotated``, and the first of them."""
    if get_origin(hint) is not Annotated:
        return hint, ""
    inner, *metadata = get_args(hint)
    texts = [each for each in metadata if isinstance(each, str)]
    kept = tuple(each for each in metadata if not isinstance(each, str))
    return (Annotated[(inner, *kept)] if kept else inner), (texts[0] if texts else "")


def _is_context(hint: Any) -> bool:
    if get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_context(each) for each in get_args(hint))
    if get_origin(hint) is Annotated:
        return _is_context(get_args(hint)[0])
    return hint is Context


def _hints(function: Callable[..., Any]) -> tuple[dict[str, Any], list[str]]:
    """Every hint that can be resolved, and a sentence for each that cannot."""
    try:
        return typing.get_type_hints(function, include_extras=True), []
    except Exception:
        return _hints_one_by_one(function)


def _hints_one_by_one(function: Callable[..., Any]) -> tuple[dict[str, Any], list[str]]:
    hints: dict[str, Any] = {}
    problems: list[str] = []
    for name, annotation in _annotations(function):
        alone = type("Alone", (), {"__annotations__": {name: annotation}})
        names = getattr(function, "__globals__", {})
        try:
            hints.update(typing.get_type_hints(alone, globalns=names, include_extras=True))
        except Exception as exception:
            problems.append(f"the hint of {name!r} cannot be resolved: {exception}")
    return hints, problems


def _annotations(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    yield from getattr(function, "__annotations__", {}).items()

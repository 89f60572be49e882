"""Read the parameters and the result of a function from its signature, hints and docstring."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NotRequired, Required, get_args

from pydantic.fields import FieldInfo
from typing_extensions import ReadOnly, Unpack, get_type_hints, is_typeddict

from mcp_bridge.features import Context
from mcp_bridge.schemas.hints import UNIONS, TypeHint, annotate, origin_of, split_annotated

MISSING: Final = inspect.Parameter.empty
# The default of parameters that are passed in ``**`` or not at all.
ABSENT: Final = object()
_UNPACKS: Final = (typing.Unpack, Unpack)
_NAME: Final = re.compile(r"\w+")


class UnsupportedSignature(Exception):
    """Raised for a parameter that a JSON object cannot provide; the text names it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that callers send as ``name`` and the function calls ``own_name``."""

    name: str
    own_name: str
    hint: TypeHint
    default: object = MISSING
    description: str = ""

    @property
    def has_default(self) -> bool:
        """Whether it has a default; pydantic does not count an ellipsis."""
        return self.default is not MISSING and self.default is not ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """
    A function as a caller sees it.

    Parameters have the names that callers send; ``renamed`` maps them to the function's own.
    ``extra`` is the hint of ``**kwargs``, or MISSING. ``context`` names the parameter that takes
    the Context. ``hidden`` are names that callers must not send. ``errors`` are sentences about
    parameter hints that could not be resolved, ``returns_errors`` about the return hint; such
    hints allow any value.
    """

    parameters: tuple[Parameter, ...]
    returns: TypeHint
    extra: TypeHint = MISSING
    context: str | None = None
    hidden: frozenset[str] = frozenset()
    description: str = ""
    returns_description: str = ""
    renamed: dict[str, str] = field(default_factory=dict)
    # The defaults of positional-only parameters, in order.
    positional_only: dict[str, object] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    returns_errors: tuple[str, ...] = ()

    @classmethod
    def of(cls, function: Callable[..., object], *, skip: Collection[str] = ()) -> Signature:
        """
        Read a function; ``skip`` names parameters that the server fills.

        Parameters are those of ``inspect.signature``, with the hints of the wrapped function.
        Raises UnsupportedSignature for ``*args``, for a ``skip`` that is not a parameter, and for
        two parameters with the same name.
        """
        signature, bound = _inspected(function)
        parameters = signature.parameters
        extra = [name for name, each in parameters.items() if each.kind is each.VAR_KEYWORD]
        unknown = [] if extra else [name for name in skip if name not in parameters]
        if unknown:
            text = f"it lacks the parameter {unknown[0]!r}, which the server fills"
            raise UnsupportedSignature(text)
        hints, errors = _hints(function, signature)
        text, documented, returns_text = _read_docstring(_innermost(function))
        kept = {name: each for name, each in parameters.items() if name not in skip}
        context = next((name for name in kept if _is_context(hints.get(name))), None)
        given = tuple(
            _parameter(each, hints.get(name, Any), documented.pop(name, ""))
            for name, each in kept.items()
            if name not in (context, *extra)
        )
        rest = hints.get(extra[0], Any) if kept.keys() & extra else MISSING
        if origin_of(rest) in _UNPACKS:
            given += tuple(_unpacked(extra[0], get_args(rest)[0], documented))
            rest = MISSING
        renamed = {each.name: each.own_name for each in given}
        if len(renamed) < len(given):
            raise UnsupportedSignature("two of its parameters have the same name or alias")
        # A value sent in ``**`` under the function's own name would replace the parameter.
        replaced = set(renamed.values()) - renamed.keys()
        lost = [name for name in documented if name not in parameters or name in extra]
        by_position = [each for each in parameters.values() if each.kind is each.POSITIONAL_ONLY]
        if lost:
            lines = (f"{name}: {documented[name]}" for name in lost)
            text = "\n".join((f"{text}\n\nArgs:", *lines)).strip()
        return cls(
            parameters=given,
            returns=hints.get("return", MISSING),
            extra=rest,
            context=context,
            hidden=frozenset({*skip, *bound, *replaced, *([context] if context else [])}),
            description=text,
            returns_description=returns_text,
            renamed={sent: name for sent, name in renamed.items() if sent != name},
            positional_only={each.name: each.default for each in by_position},
            errors=tuple(text for name, text in errors.items() if name in kept),
            returns_errors=tuple(text for name, text in errors.items() if name == "return"),
        )


def _parameter(parameter: inspect.Parameter, hint: TypeHint, documented: str) -> Parameter:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise UnsupportedSignature(f"it takes *{parameter.name}, which JSON objects cannot provide")
    inner, metadata = split_annotated(hint)
    # A plain string in Annotated is a description, which pydantic ignores.
    texts = [each for each in metadata if isinstance(each, str)]
    if texts:
        hint = annotate(inner, *(each for each in metadata if not isinstance(each, str)))
    default = parameter.default
    if isinstance(default, FieldInfo):
        # ``x: int = Field(gt=3)``, as in a class of pydantic.
        hint, default = annotate(hint, default), MISSING
    name = parameter.name
    for each in split_annotated(hint)[1]:
        if isinstance(each, FieldInfo) and each.validation_alias is not None:
            if not isinstance(each.validation_alias, str):
                text = f'its parameter {name!r} has a complex alias: write Field(alias="name")'
                raise UnsupportedSignature(text)
            name = each.validation_alias
    return Parameter(name, parameter.name, hint, default, texts[0] if texts else documented)


def _is_context(hint: TypeHint) -> bool:
    inner = split_annotated(hint)[0]
    branches = get_args(inner) if origin_of(inner) in UNIONS else ()
    return inner is Context or any(map(_is_context, branches))


def _inspected(function: Callable[..., object]) -> tuple[inspect.Signature, Collection[str]]:
    """Return the signature of a function, and the names that a partial has bound."""
    # ``inspect.signature`` would follow __wrapped__ past a partial and its bound arguments.
    kinds = (functools.partial, types.MethodType)
    function = inspect.unwrap(
        function, stop=lambda each: isinstance(each, kinds) or hasattr(each, "__signature__")
    )
    if not isinstance(function, functools.partial):
        return inspect.signature(function), ()
    bound = functools.partial(function.func, *function.args, **function.keywords)
    signature = inspect.signature(bound)
    free = [each for name, each in signature.parameters.items() if name not in bound.keywords]
    signature = signature.replace(parameters=free)
    names = {*bound.keywords, *inspect.signature(bound.func).parameters}
    return signature, names - signature.parameters.keys()


def _innermost(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function inside decorators and partials."""
    function = inspect.unwrap(function)
    return _innermost(function.func) if isinstance(function, functools.partial) else function


def _unpacked(name: str, kind: Any, documented: dict[str, str]) -> Iterator[Parameter]:
    """Yield the members of the TypedDict in ``**name: Unpack[...]`` as parameters."""
    if not is_typeddict(kind):
        raise UnsupportedSignature(f"its parameter **{name} does not unpack a TypedDict")
    for member, declared in get_type_hints(kind, include_extras=True).items():
        default = MISSING if member in kind.__required_keys__ else ABSENT
        inner, metadata = split_annotated(declared)
        while (qualifier := origin_of(inner)) in (Required, NotRequired, ReadOnly):
            if qualifier is not ReadOnly:
                default = ABSENT if qualifier is NotRequired else MISSING
            inner, more = split_annotated(get_args(inner)[0])
            metadata = (*more, *metadata)
        read = inspect.Parameter(member, inspect.Parameter.KEYWORD_ONLY)
        known = _parameter(read, annotate(inner, *metadata), documented.pop(member, ""))
        yield replace(known, default=default)


def _hints(
    function: Callable[..., object], signature: inspect.Signature
) -> tuple[Mapping[str, TypeHint], dict[str, str]]:
    """Return the hints that can be resolved, and a sentence for each of the others, by name."""
    inner = _innermost(function)
    names = {**getattr(function, "__globals__", {}), **getattr(inner, "__globals__", {})}
    # Known only to the function.
    names |= {each.__name__: each for each in getattr(inner, "__type_params__", ())}
    own: Mapping[str, TypeHint] = getattr(inner, "__annotations__", {})
    inspected = {name: each.annotation for name, each in signature.parameters.items()}
    inspected["return"] = signature.return_annotation
    # Annotations of an explicit __signature__ win over the function's.
    given = {name: each for name, each in inspected.items() if each is not MISSING}
    hints: dict[str, TypeHint] = {}
    errors: dict[str, str] = {}
    for name, annotation in {**own, **given}.items():
        try:
            read = eval(_compiled(annotation), names) if isinstance(annotation, str) else annotation
            alone: Any = types.SimpleNamespace(__annotations__={name: read})
            hints.update(typing.get_type_hints(alone, globalns=names, include_extras=True))
        except Exception as exception:
            of = "the return hint" if name == "return" else f"the hint of {name!r}"
            errors[name] = f"{of} cannot be resolved: {exception}"
    return hints, errors


# Cached, since compiling them for each function takes a third of the time of building a tool.
@functools.lru_cache(maxsize=4096)
def _compiled(annotation: str) -> types.CodeType:
    return compile(annotation, "<annotation>", "eval")


def _read_docstring(function: Callable[..., object]) -> tuple[str, dict[str, str], str]:
    """Return the text about a function, about each parameter (in any style), and the result."""
    text = inspect.getdoc(function) or ""
    if "\n" not in text and ":" not in text:
        # In every style this is only text, and trying all parsers is slow.
        return text, {}, ""
    # Imported here, since it is slow and plain text does not need a parser.
    import docstring_parser
    from docstring_parser.common import DocstringExample, DocstringMeta

    parsed = docstring_parser.parse(text)
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    parts = filter(None, (parsed.short_description, parsed.long_description))
    opening = gap.join(each.strip() for each in parts)
    # Parameters, results and exceptions are instances of subclasses.
    notes = [each for each in parsed.meta if type(each) in (DocstringMeta, DocstringExample)]
    parameters = {
        name: " ".join(param.description.split())
        for param in parsed.params
        if param.description
        # As "- name (type)", or several at once.
        for name in _NAME.findall(param.arg_name.partition("(")[0])
    }
    returns = " ".join((parsed.returns.description or "").split()) if parsed.returns else ""
    sections = [opening]
    for meta in notes:
        title = (meta.args or ["note"])[0].replace("_", " ").capitalize()
        if body := "\n".join(filter(None, (getattr(meta, "snippet", None), meta.description))):
            sections.append(f"{title}:\n{body}")
    return "\n\n".join(sections), parameters, returns

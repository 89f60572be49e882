"""What every source of tools has in common."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core import checks
from jsonschema.exceptions import SchemaError
from pydantic.errors import PydanticUserError

from mcp_bridge.arguments import schema_checker, typed_checker
from mcp_bridge.results import encoder, schema_encoder
from mcp_bridge.schemas import Inputs, Outputs, Signature, UnsupportedSignature
from mcp_bridge.tools import AccessRule, Tool, ToolCall, ToolOptions

Invoke = Callable[[ToolCall, list[Any], dict[str, Any]], Any]


class Source(ABC):
    """
    A place tools come from: subclass it and name the subclass in SOURCES.

    ``alias`` is the key in SOURCES and ``options`` its "OPTIONS". ``tools()`` returns the tools and
    fills ``messages`` with what a developer must know of those it left out.
    """

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        self.alias = alias
        self.options = options
        self.messages: list[checks.CheckMessage] = []

    @abstractmethod
    def tools(self) -> Sequence[Tool]:
        """The tools, in any order. Must not raise for a tool that is broken, but leave it out."""

    def check(self) -> Sequence[checks.CheckMessage]:
        """What ``tools()`` found wrong, as messages of Django's system check framework."""
        self.messages = []
        self.tools()
        return self.messages

    def left_out(self, name: str, where: str, why: str) -> None:
        """Say that a marked function is not served, and why."""
        self.messages.append(
            checks.Error(
                f"{name} ({where}) is marked as a tool but not served: {why}.",
                hint="Change the function, or take the mark off.",
                id="mcp_bridge.E006",
            )
        )


def build_tool(
    source: Source,
    function: Callable[..., Any],
    options: ToolOptions,
    *,
    name: str,
    invoke: Callable[[Signature], Callable[[ToolCall], Any]],
    skip: Collection[str] = (),
    access: AccessRule,
    convert_error: Callable[[Exception, ToolCall], Exception],
) -> Tool | None:
    """
    The tool for a marked function, or None where it cannot be one: then ``source`` knows why.

    ``invoke`` makes the tool's ``invoke`` from the signature; ``skip`` names the parameters that
    it fills itself.
    """
    where = location(function)
    try:
        signature = Signature.of(function, skip=skip)
        inputs, outputs = Inputs(signature), Outputs(signature.returns)
        check, encode = typed_checker(inputs), encoder(outputs)
        if options.input_schema is not None:
            check = schema_checker(options.input_schema, inputs)
        if options.output_schema is not None:
            encode = schema_encoder(options.output_schema, encode)
    except (UnsupportedSignature, PydanticUserError, SchemaError, ValueError, TypeError) as problem:
        source.left_out(name, where, first_line(problem))
        return None
    for sentence in (*signature.problems, *inputs.problems, *outputs.problems):
        source.messages.append(_unresolvable(name, where, sentence))
    description = options.description if options.description is not None else signature.description
    if not str(description).strip():
        source.messages.append(_undescribed(name, where))
    return Tool(
        name=name,
        title=options.title,
        description=description,
        input_schema=options.input_schema or inputs.schema,
        output_schema=options.output_schema or outputs.schema,
        annotations=options.annotations,
        icons=options.icons,
        meta=options.meta,
        check=check,
        invoke=invoke(signature),
        encode=encode,
        convert_error=convert_error,
        access=access,
        source=where,
        options=options,
    )


def location(function: Callable[..., Any]) -> str:
    """Where a function is defined, as "path/from/here.py:12"."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__module__", None) or repr(function)
    path = Path(code.co_filename)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{code.co_firstlineno}"


def first_line(problem: Exception) -> str:
    """The first line of an exception's text, without its full stop."""
    return (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".")


def _unresolvable(name: str, where: str, sentence: str) -> checks.CheckMessage:
    return checks.Warning(
        f"{name} ({where}): {sentence.splitlines()[0]}.",
        hint="Import the type where the function is defined, or use one that pydantic reads. "
        "Until then the schema takes any value here.",
        id="mcp_bridge.W001",
    )


def _undescribed(name: str, where: str) -> checks.CheckMessage:
    return checks.Warning(
        f"{name} ({where}) has no description.",
        hint="Write a docstring that tells a model what the tool does and when to use it, or give "
        "mcp_tool(description=...).",
        id="mcp_bridge.W002",
    )

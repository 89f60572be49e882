"""What every source of tools has in common."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core import checks

from mcp_bridge.calls.arguments import schema_checker, typed_checker
from mcp_bridge.calls.results import encoder, schema_encoder
from mcp_bridge.features.marks import ToolOptions
from mcp_bridge.features.tools import AccessRule, Tool, ToolCall
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.schemas import Inputs, Outputs, Signature, header_parameters
from mcp_bridge.schemas.django import install

# Tools are also built where the app is not installed.
install()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedFunction:
    """
    A function with a mark, and what its source knows of it.

    ``invoke`` makes the tool's ``invoke`` from the signature; ``skip`` names the parameters that it
    fills itself.
    """

    name: str
    function: Callable[..., Any]
    options: ToolOptions
    invoke: Callable[[Signature], Callable[[ToolCall], Any]]
    access: AccessRule
    convert_error: Callable[[Exception, ToolCall], Exception]
    skip: Collection[str] = ()

    def tool(self, source: Source) -> Tool | None:
        """The tool it is, or None where it cannot be one: then ``source`` says why."""
        where = location(self.function)
        try:
            signature = Signature.of(self.function, skip=self.skip)
            inputs, outputs = (
                Inputs(signature),
                Outputs(signature.returns, signature.returns_description),
            )
            tool = self._tool(where, signature, inputs, outputs)
            # A definition that cannot be written would take the whole list with it.
            encode(tool.definition(LATEST))
        except Exception as why:
            # Types describe themselves with code of the site's own, which may raise anything.
            source.left_out(self.name, where, first_line(why))
            return None
        for sentence in (*signature.errors, *inputs.errors, *outputs.errors):
            source.messages.append(_unresolvable(self.name, where, sentence))
        if not str(tool.description).strip():
            source.messages.append(_undescribed(self.name, where))
        return tool

    def _tool(self, where: str, signature: Signature, inputs: Inputs, outputs: Outputs) -> Tool:
        given = self.options
        by_hand, promised = given.input_schema, given.output_schema
        for member, schema in (("input_schema", by_hand), ("output_schema", promised)):
            if schema is not None and schema.get("type") != "object":
                raise ValueError(f"its {member} must be of type object at its root")
        check = typed_checker(inputs) if by_hand is None else schema_checker(by_hand, inputs)
        written = encoder(outputs)
        return Tool(
            name=self.name,
            title=given.title,
            description=signature.description if given.description is None else given.description,
            input_schema=by_hand or inputs.schema,
            output_schema=promised or outputs.schema,
            annotations=given.annotations,
            icons=given.icons,
            meta=given.meta,
            check=check,
            invoke=self.invoke(signature),
            encode=written if promised is None else schema_encoder(promised, written),
            convert_error=self.convert_error,
            access=self.access,
            headers=header_parameters(by_hand or inputs.schema),
            may_elicit=bool(signature.context),
            non_atomic=frozenset(getattr(self.function, "_non_atomic_requests", ())),
            source=where,
            options=given,
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
        f"{name} ({where}): {sentence.splitlines()[0].rstrip('.')}.",
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

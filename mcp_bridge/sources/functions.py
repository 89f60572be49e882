"""Tools made of marked Python functions, for any source that finds such functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from django.core import checks

from mcp_bridge.calls.arguments import schema_checker, typed_checker
from mcp_bridge.calls.results import encoder, schema_encoder
from mcp_bridge.features import AccessRule, Tool, ToolCall, ToolOptions
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.schemas import Inputs, Outputs, Signature, header_parameters
from mcp_bridge.sources.base import Source, first_line


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedFunction:
    """
    A function with a mark, and the parts of its tool that only its source knows.

    ``invoke`` makes the tool's ``invoke`` from the signature; ``skip`` names the parameters that it
    fills itself.
    """

    name: str
    function: Callable[..., object]
    options: ToolOptions
    invoke: Callable[[Signature], Callable[[ToolCall], object]]
    access: AccessRule
    convert_error: Callable[[Exception, ToolCall], Exception]
    skip: Collection[str] = ()

    def tool(self, source: Source) -> Tool | None:
        """Return the tool, or None where there can be none: ``source.messages`` has the reason."""
        where = location(self.function)
        if self.options.scopes:
            source.messages.append(
                checks.Error(
                    f"{self.name} ({where}) has the scopes {', '.join(self.options.scopes)}, which "
                    "are not enforced yet, so it is not served.",
                    hint="Take the scopes away, and say who may use it with Django permissions: "
                    'mcp_tool(permissions="app.codename").',
                    id="mcp_bridge.E009",
                )
            )
            return None
        try:
            signature = Signature.of(self.function, skip=self.skip)
            inputs = Inputs(signature)
            outputs = Outputs(signature.returns, signature.returns_description)
            tool = self._tool(where, signature, inputs, outputs)
            # A definition that cannot be written would take the whole list with it.
            encode(tool.definition(LATEST))
        except Exception as exception:
            # Types describe themselves with code of the site's own, which may raise anything.
            source.messages.append(
                checks.Error(
                    f"{self.name} ({where}) is marked as a tool but not served: "
                    f"{first_line(exception)}.",
                    hint="Change the function, or take the mark off.",
                    id="mcp_bridge.E006",
                )
            )
            return None
        source.messages += [
            checks.Warning(
                f"{self.name} ({where}): {sentence.splitlines()[0].rstrip('.')}.",
                hint="Import the type where the function is defined, or use one that pydantic "
                "reads. Until then the schema takes any value here.",
                id="mcp_bridge.W001",
            )
            for sentence in (*signature.errors, *inputs.errors, *outputs.errors)
        ]
        if not str(tool.description).strip():
            source.messages.append(
                checks.Warning(
                    f"{self.name} ({where}) has no description.",
                    hint="Write a docstring that tells a model what the tool does and when to use "
                    "it, or give mcp_tool(description=...).",
                    id="mcp_bridge.W002",
                )
            )
        return tool

    def _tool(self, where: str, signature: Signature, inputs: Inputs, outputs: Outputs) -> Tool:
        options = self.options
        for member in ("input_schema", "output_schema"):
            schema = getattr(options, member)
            if schema is not None and schema.get("type") != "object":
                raise ValueError(f"its {member} must be of type object at its root")
        given, promised = options.input_schema, options.output_schema
        written = encoder(outputs)
        return Tool(
            name=self.name,
            title=options.title,
            description=(
                signature.description if options.description is None else options.description
            ),
            input_schema=given or inputs.schema,
            output_schema=promised or outputs.schema,
            annotations=options.annotations,
            icons=options.icons,
            meta=options.meta,
            check=typed_checker(inputs) if given is None else schema_checker(given, inputs),
            invoke=self.invoke(signature),
            encode=written if promised is None else schema_encoder(promised, written),
            convert_error=self.convert_error,
            access=self.access,
            headers=header_parameters(given or inputs.schema),
            may_elicit=bool(signature.context),
            # Django has no public way to read the mark of transaction.non_atomic_requests.
            non_atomic=frozenset(getattr(self.function, "_non_atomic_requests", ())),
            source=where,
            function=qualified_name(self.function),
            code=getattr(inspect.unwrap(self.function), "__code__", None),
            options=options,
        )


def qualified_name(function: Callable[..., object]) -> str:
    """Return the module and the name of a function, as "newsroom.procedures.publish"."""
    function = inspect.unwrap(function)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}.{name}"


def location(function: Callable[..., object]) -> str:
    """Return where a function is defined, as "path/from/here.py:12"."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__module__", None) or repr(function)
    path = Path(code.co_filename)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{code.co_firstlineno}"

"""Build tools from marked functions and mapped operations, for use by sources."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import iscoroutinefunction

from mcp_bridge.calls.arguments import plain_checker, typed_checker
from mcp_bridge.calls.results import encoder
from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, Context, Tool, ToolCall, ToolOptions, dotted_name
from mcp_bridge.protocol import LATEST, CallToolResult
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.schemas import Inputs, Outputs, Signature, header_parameters
from mcp_bridge.schemas.django.models import row_completers
from mcp_bridge.schemas.signatures import ABSENT, MISSING
from mcp_bridge.sources.base import OperationSource, first_line
from mcp_bridge.sources.operations.mapping import MappedOperation


class MarkedFunction:
    """
    A marked function, or an unmarked one (``options`` is None) that may be enabled.

    Subclass it if parts of the tool are specific to a source. ``predicate`` is the source's own
    access condition, and ``conditions`` describe it (Tool.conditions). ``filled`` names the
    parameter that the source fills itself, with the result of ``fill`` for the call's Context.
    """

    # Sentences about hints beside an explicit schema, and about results without a schema.
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        function: Callable[..., object],
        options: ToolOptions | None,
        predicate: Callable[[Context], object] | None = None,
        *,
        filled: str | None = None,
        fill: Callable[[Context], object] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.is_marked = options is not None
        self.options = options = options or ToolOptions()
        needs = options.public, options.permissions, predicate, None, options.scopes
        self.access = AccessRule.of(*needs)
        # The names of parameters that callers do not send.
        self.skip = () if filled is None else (filled,)
        self.fill = fill

    def __str__(self) -> str:
        return f"{self.name} ({location(self.function)})"

    def convert_error(self, exception: Exception, call: ToolCall) -> Exception:
        """Return the exception to report instead of the one raised."""
        return exception

    def invoker(
        self, function: Callable[..., Any], signature: Signature
    ) -> Callable[[ToolCall], Any]:
        """Return a function that runs this function or its precheck, async if that is async."""
        filled = signature.hidden.intersection(self.skip)
        renamed, by_position = signature.renamed, signature.positional_only

        def invoke(call: ToolCall) -> Any:
            values = {renamed.get(name, name): each for name, each in call.arguments.items()}
            if signature.context:
                values[signature.context] = call.context
            for name in filled:
                assert self.fill is not None
                values[name] = self.fill(call.context)
            # Positional-only parameters need their defaults.
            positional = [values.pop(name, default) for name, default in by_position.items()]
            return function(*positional, **values)

        async def ainvoke(call: ToolCall) -> object:
            return await invoke(call)

        return ainvoke if iscoroutinefunction(function) else invoke

    def build(self) -> Tool:
        """Return the tool. Raises ValueError for hints, and exceptions of the function's types."""
        options = self.options
        signature = Signature.of(self.function, skip=self.skip)
        inputs = Inputs(signature)
        outputs = Outputs(signature.returns, signature.returns_description)
        given, promised = options.input_schema, options.output_schema
        for member, schema in (("input_schema", given), ("output_schema", promised)):
            if schema is not None and schema.get("type") != "object":
                raise ValueError(f"its {member} must be of type object at its root")
        function = inspect.unwrap(self.function)
        described = options.description is not None
        defaults = {
            each.name: None if each.default is ABSENT else each.default
            for each in signature.parameters
        }
        tool = Tool(
            name=self.name,
            title=options.title,
            description=options.description if described else signature.description,
            input_schema=given or inputs.schema,
            output_schema=promised or outputs.schema,
            annotations=options.annotations,
            icons=options.icons,
            meta=options.meta,
            check=typed_checker(inputs, given),
            # Checking an explicit schema can be slow.
            is_plain=given is None and inputs.is_plain,
            invoke=self.invoker(self.function, signature),
            encode=encoder(outputs, promised),
            convert_error=self.convert_error,
            precheck=self.precheck(lambda own: defaults),
            access=self.access,
            conditions=self.conditions,
            headers=header_parameters(given or inputs.schema),
            may_elicit=bool(signature.context),
            # Django offers no public API to read transaction.non_atomic_requests.
            non_atomic=frozenset(getattr(self.function, "_non_atomic_requests", ())),
            source=location(function),
            function=dotted_name(function),
            code=getattr(function, "__code__", None),
            options=options,
            completers={} if type(options) is ToolOptions else row_completers(signature.parameters),
        )
        # A definition that cannot be serialised would break the whole list.
        encode(tool.definition(LATEST))
        if conf.BUILD == "eager":
            # Otherwise each is created on the first call.
            _ = outputs.serializer, outputs.check
        of_inputs = (*signature.errors, *inputs.errors)
        of_outputs = (*signature.returns_errors, *outputs.errors)
        # An explicit schema is enforced regardless of the hints.
        lost = [*(of_inputs if given is None else ()), *(of_outputs if promised is None else ())]
        if lost:
            raise ValueError("; ".join(lost))
        self.unread = (*of_inputs, *of_outputs)
        self.notes = tuple(outputs.notes) if promised is None else ()
        return tool

    def precheck(
        self, defaults: Callable[[Signature], Mapping[str, Any]]
    ) -> Callable[[ToolCall], object] | None:
        """Return the precheck, called with its arguments over the tool's ``defaults``."""
        function = self.options.precheck
        if function is None:
            return None
        skip = set(self.skip) & inspect.signature(function).parameters.keys()
        own = Signature.of(function, skip=skip)
        known, invoke = defaults(own), self.invoker(function, own)
        for each in own.parameters:
            if each.default is MISSING and each.name not in known:
                raise ValueError(f"its precheck takes {each.name!r}, which the tool does not take")
        given = {name: each for name, each in known.items() if each is not MISSING}
        names = {each.name for each in own.parameters}

        def precheck(call: ToolCall) -> object:
            values = {**given, **call.arguments}
            if own.extra is MISSING:
                values = {name: values[name] for name in names & values.keys()}
            return invoke(call._replace(arguments=values))

        return precheck


class MarkedSource(OperationSource[MarkedFunction]):
    """A source of functions and methods with marks."""

    not_served = (
        *("E006", "W017"),
        "Change the function, or remove the mark. Hints must be resolvable in the function's "
        "module; use Any to accept any value.",
    )

    def name_of(self, operation: MarkedFunction, options: ToolOptions) -> str:
        return operation.name

    def options_of(self, operation: MarkedFunction) -> ToolOptions | None:
        return operation.options if operation.is_marked else None

    def function_of(self, operation: MarkedFunction) -> object:
        return operation.function

    def build(self, operation: MarkedFunction, options: ToolOptions, name: str) -> Tool:
        tool = operation.build()
        for sentence in operation.unread:
            self.report(
                "W001",
                f"{operation}: {first_line(sentence)}.",
                "The explicit schema is enforced, and the value is passed as it was sent. "
                "Change the hint to Any, or to one that can be read.",
            )
        self.note(str(operation), operation.notes)
        return tool


def operation_tool(
    name: str,
    mapped: MappedOperation,
    options: ToolOptions,
    /,
    *,
    invoke: Callable[[ToolCall], Any],
    hints: Mapping[str, bool],
    **others: Any,
) -> Tool:
    """
    Return the tool of an operation with the options of its mark.

    ``invoke`` returns a CallToolResult. ``hints`` are the source's, overridden by those of the
    mark; ``others`` are further fields of Tool. Raises ValueError for a precheck with a parameter
    that the tool lacks.
    """
    schema, promised = options.input_schema or mapped.input_schema, options.output_schema

    def defaults(own: Signature) -> Mapping[str, Any]:
        # Omitted arguments are the schema's default or None, unless the precheck has a default.
        needed = {each.name for each in own.parameters if each.default is MISSING}
        known = schema.get("properties", {})
        return {name: known[name].get("default") if name in needed else MISSING for name in known}

    return Tool(
        name=name,
        title=mapped.title if options.title is None else options.title,
        description=mapped.description if options.description is None else options.description,
        input_schema=schema,
        output_schema=promised or mapped.output_schema,
        annotations={**({} if options.read_only else hints), **options.annotations},
        icons=options.icons,
        meta={**(mapped.meta or {}), **(options.meta or {})} or None,
        # Services accept more than formats allow, such as times without seconds or an offset.
        check=plain_checker(schema, asserts_formats=options.input_schema is not None),
        invoke=invoke,
        encode=(lambda result: result)
        if promised is None
        else encoder(Outputs(CallToolResult), promised),
        precheck=MarkedFunction(name, invoke, options).precheck(defaults),
        options=options,
        **others,
    )


def location(function: Callable[..., object]) -> str:
    """Return the location of a function, as "path/from/here.py:12"."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__module__", None) or repr(function)
    return f"{shown(code.co_filename)}:{code.co_firstlineno}"


def shown(filename: str) -> str:
    """Return a readable path of a file: relative to this directory or to an import path."""
    # The longest prefix is removed, so that installation directories are not shown.
    above = [os.path.join(each, "") for each in (os.getcwd(), *filter(None, sys.path))]
    own = filename.removesuffix(os.path.basename(filename))
    nearest = max((each for each in above if filename.startswith(each)), key=len, default=own)
    return filename.removeprefix(nearest)

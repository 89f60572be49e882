"""The tools of endpoints, made of what drf-spectacular says of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from mcp_bridge.features import Tool, ToolOptions
from mcp_bridge.sources.base import first_line
from mcp_bridge.sources.in_process.calls import ACCEPT, ViewCaller
from mcp_bridge.sources.mapped import operation_tool
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import tool_name
from mcp_bridge.sources.rest_framework.access import access_rule, conditions, log_in
from mcp_bridge.sources.rest_framework.endpoints import Endpoint
from mcp_bridge.sources.rest_framework.schemas import Describer, Description, with_arguments
from mcp_bridge.sources.rest_framework.selection import hints_of
from mcp_bridge.sources.rest_framework.versions import Version


class Made(NamedTuple):
    """A tool, sentences on what no schema says of it, and whether its view names no serializer."""

    tool: Tool
    notes: Sequence[str]
    lacks_serializer: bool


class Builder:
    """A maker of tools of endpoints, which are described first."""

    def __init__(
        self,
        options: Mapping[str, Any],
        callbacks: Collection[object],
        *,
        as_declared: bool = False,
    ) -> None:
        self._options = options
        # Those of the tools of the source: a redirect may lead there.
        self._callbacks = callbacks
        with_answers = as_declared or options.get("output_schemas", False)
        self._describer = Describer(with_answers=with_answers, as_declared=as_declared)

    def describe(self, endpoint: Endpoint, options: ToolOptions) -> Description:
        """Return the operation of an endpoint. Raises what the view raises."""
        description = self._describer.describe(endpoint, self._options.get("version"))
        if options.input_schema is not None:
            with_arguments(description, options.input_schema)
        return description

    def own_name(self, endpoint: Endpoint) -> str:
        """Return the name of an endpoint to which no mark and no line gives one."""
        explicit = self._describer.operation_id(endpoint, self._options.get("version"))
        return endpoint.own_name if explicit is None else tool_name(explicit)

    def tool(
        self, name: str, endpoint: Endpoint, options: ToolOptions, description: Description
    ) -> Made:
        """Return the tool of an endpoint. Raises Unmappable and ValueError."""
        with_answers = self._options.get("output_schemas", False)
        mapped = _mapped(description, with_answers)
        version = description.version or Version("")
        caller = ViewCaller(
            route=endpoint.route,
            method=endpoint.method,
            mapped=mapped,
            urlconf=self._options.get("urlconf"),
            prepare=partial(log_in, endpoint, guarded=not options.scopes),
            fixed={version.in_path: version.value} if version.in_path else {},
            query=f"{version.in_query}={version.value}" if version.in_query else "",
            accept=f"application/json; {version.in_accept}={version.value}, */*;q=0.1"
            if version.in_accept
            else ACCEPT,
            callbacks=self._callbacks,
        )
        tool = operation_tool(
            name,
            mapped,
            options,
            invoke=caller.invoke,
            hints=hints_of(endpoint),
            access=access_rule(endpoint, options, probe=self._options.get("probe", True)),
            conditions=conditions(endpoint),
            target=f"{endpoint.method} {endpoint.route.target}",
            # Django has no public way to read the mark of transaction.non_atomic_requests.
            non_atomic=frozenset(getattr(endpoint.route.callback, "_non_atomic_requests", ())),
            # A view may ask by request.mcp_context.
            may_elicit=True,
            source=endpoint.source,
            function=endpoint.path,
        )
        notes = list(mapped.notes)
        if with_answers:
            if description.answer_error is not None:
                notes.append(f"It has no output schema: {first_line(description.answer_error)}")
            notes += (
                f"Its output schema takes any value of {each}, which has to_representation()"
                for each in description.undeclared
            )
        is_unknown = any("unable to guess serializer" in each for each in description.warnings)
        has_body = endpoint.method in ("POST", "PUT", "PATCH")
        return Made(tool, notes, is_unknown and has_body and mapped.body is None)


def _mapped(description: Description, output_schema: bool) -> MappedOperation:
    """Return the mapped operation of a description. Raises Unmappable."""
    document, names = description.document, description.names
    operation = document.operation(description.endpoint.method, description.path)
    mapped = map_operation(document, operation, output_schema=output_schema, is_dotted=True)
    parameters = tuple(
        replace(each, name=names.get(each.name, each.name)) if each.location == "path" else each
        for each in mapped.parameters
    )
    return replace(mapped, parameters=parameters)

"""The tools of endpoints, made of what drf-spectacular says of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from django.core import checks

from mcp_bridge.features import Tool
from mcp_bridge.sources.base import first_line
from mcp_bridge.sources.mapped import operation_tool
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import tool_name
from mcp_bridge.sources.rest_framework.access import access_rule, conditions
from mcp_bridge.sources.rest_framework.calls import view_caller
from mcp_bridge.sources.rest_framework.schemas import (
    Describer,
    Description,
    with_arguments,
)
from mcp_bridge.sources.rest_framework.selection import Selected, hints_of


class Made(NamedTuple):
    """A tool, and warnings on it."""

    tool: Tool
    warnings: Sequence[checks.CheckMessage]


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

    def describe(self, selected: Selected) -> Description:
        """Return the operation of an endpoint. Raises what the view raises."""
        description = self._describer.describe(selected.endpoint, self._options.get("version"))
        if selected.options.input_schema is not None:
            with_arguments(description, selected.options.input_schema)
        return description

    def name(self, selected: Selected, every: Sequence[Selected]) -> str:
        """Return the name of the tool of an endpoint, one of those that are selected."""
        endpoint, given = selected.endpoint, selected.options.name
        if given is not None:
            shared = [each for each in every if each.options.name == given]
            name = given if len(shared) == 1 else given + endpoint.suffix
        elif selected.stem is not None:
            parts = filter(None, (selected.stem, endpoint.action))
            name = "_".join(parts) + endpoint.of_method
        else:
            explicit = self._describer.operation_id(endpoint, self._options.get("version"))
            name = endpoint.own_name if explicit is None else tool_name(explicit)
        prefix: str = self._options.get("prefix", "")
        return prefix + "_".join((*selected.prefixes, name))

    def tool(self, name: str, selected: Selected, description: Description) -> Made:
        """Return the tool of an endpoint. Raises Unmappable, IllegalName and ValueError."""
        endpoint, options = selected.endpoint, selected.options
        mapped = self.mapped(description, self._options.get("output_schemas", False))
        urlconf = self._options.get("urlconf")
        caller = view_caller(endpoint, mapped, description.version, urlconf, self._callbacks)
        tool = operation_tool(
            name,
            mapped,
            options,
            where=str(endpoint),
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
        where = f"{name} ({endpoint})"
        found = _warnings(where, selected, description, mapped)
        if self._options.get("output_schemas"):
            if description.answer_error is not None:
                why = first_line(description.answer_error)
                found.append(_undescribed(where, f"It has no output schema: {why}"))
            for each in description.undeclared:
                note = f"Its output schema takes any value of {each}, which has to_representation()"
                found.append(_undescribed(where, note))
        return Made(tool, found)

    def mapped(self, description: Description, output_schema: bool) -> MappedOperation:
        """Return the mapped operation of a description. Raises Unmappable."""
        document = description.document
        operation = document.operation(description.endpoint.method, description.path)
        mapped = map_operation(document, operation, output_schema=output_schema, is_dotted=True)
        names = description.names
        parameters = [
            replace(each, name=names[each.name])
            if each.location == "path" and each.name in names
            else each
            for each in mapped.parameters
        ]
        return replace(mapped, parameters=tuple(parameters))


def _undescribed(where: str, note: str) -> checks.CheckMessage:
    return checks.Warning(
        f"{where}: {note.rstrip('.')}.",
        hint="Describe it in another way with @extend_schema.",
        id="mcp_bridge.W075",
    )


def _warnings(
    where: str, selected: Selected, description: Description, mapped: MappedOperation
) -> list[checks.CheckMessage]:
    """Return what of a tool could not be told, or may be wrong."""
    endpoint = selected.endpoint
    found: list[checks.CheckMessage] = [_undescribed(where, note) for note in mapped.notes]
    is_unknown = any("unable to guess serializer" in each for each in description.warnings)
    if is_unknown and endpoint.method in ("POST", "PUT", "PATCH") and mapped.body is None:
        found.append(
            checks.Warning(
                f"{where} takes no body, since its view does not say which serializer it has.",
                hint="Put @extend_schema(request=...) on it, or give the option input_schema.",
                id="mcp_bridge.W072",
            )
        )
    return found

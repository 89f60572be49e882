"""The source of tools that are views of Django REST framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core import checks
from django.utils.translation import override

from mcp_bridge.features import Tool
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.schemas.adapters import TRANSIENT
from mcp_bridge.sources.base import Source, first_line, mend_import, not_yet
from mcp_bridge.sources.mapped import operation_tool
from mcp_bridge.sources.marked import is_exposed, location
from mcp_bridge.sources.operations.mapping import map_operation
from mcp_bridge.sources.operations.read import Document, tool_name
from mcp_bridge.sources.rest_framework.access import access_rule
from mcp_bridge.sources.rest_framework.calls import view_caller
from mcp_bridge.sources.rest_framework.endpoints import endpoints
from mcp_bridge.sources.rest_framework.routes import routes
from mcp_bridge.sources.rest_framework.selection import Line, Selected, select

if TYPE_CHECKING:
    from mcp_bridge.sources.rest_framework.schemas import Describer, Description

# The options, and what each has to be.
_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "views": (Mapping, "a dict"),
    "prefix": (str, "a string"),
    "version": (str | None, "a string"),
    "urlconf": (str | None, "the dotted path of a URLconf"),
    "output_schemas": (bool, "True or False"),
    "probe": (bool, "True or False"),
}


class RESTFrameworkSource(Source):
    """
    Tools from the views of Django REST framework that stand in the URLconf.

    Those with ``@mcp_tool`` or ``@mcp_toolset(actions=...)``, and those that OPTIONS["views"] names
    by URL name or dotted path. Each is called in this process through the callback that the URLconf
    has, so that all of its permissions, throttles, parsers and decorators hold.
    """

    def __init__(self, alias: str, options: JSONObject) -> None:
        super().__init__(alias, options)
        for name, value in options.items():
            if name not in _OPTIONS:
                raise TypeError(f"it has no option {name!r}, only {', '.join(map(repr, _OPTIONS))}")
            kind, wanted = _OPTIONS[name]
            if not isinstance(value, kind):
                raise TypeError(f"its option {name!r} is not {wanted}")
        if find_spec("drf_spectacular") is None:
            raise TypeError(
                "drf-spectacular, which describes the views, is not installed: "
                'pip install "django-mcp-bridge[drf]"'
            )
        self.lines = [Line.of(name, each) for name, each in options.get("views", {}).items()]

    def tools(self) -> Sequence[Tool]:
        # Descriptions may be translations, and have to be the same in each process.
        with override(settings.LANGUAGE_CODE):
            return self._made(list(self._selected()))

    def no_tools(self) -> tuple[str, str] | None:
        return (
            "no view of Django REST framework in the URLconf is marked or named",
            "Put @mcp_tool on an action, @mcp_toolset(actions=[...]) on a class, or name views in "
            "the option 'views' by their URL names.",
        )

    def _selected(self) -> Iterator[Selected]:
        """Yield the endpoints that are to be tools."""
        self.lines = [
            Line.of(each.pattern, self.options["views"][each.pattern]) for each in self.lines
        ]
        try:
            found = [
                each for route in routes(self.options.get("urlconf")) for each in endpoints(route)
            ]
        except Exception as exception:
            self._say(
                checks.Error,
                f"MCP_BRIDGE['SOURCES'][{self.alias!r}]: the URLconf cannot be read: "
                f"{first_line(exception)}.",
                mend_import(exception) or "Name a URLconf that can be imported.",
                "E071",
            )
            return
        for endpoint in found:
            try:
                selected = select(endpoint, self.lines)
            except ValueError as exception:
                self._withhold(str(endpoint), f"its marks disagree: {first_line(exception)}")
                continue
            if selected and is_exposed(endpoint.function, selected.options):
                yield selected
        for line in self.lines:
            if not line.is_used:
                text = (
                    f"no view of Django REST framework in the URLconf has the name {line.pattern!r}"
                )
            elif line.unused:
                text = f"{line.pattern!r} has no action {', '.join(sorted(line.unused))}"
            else:
                continue
            self._say(
                checks.Warning,
                f"MCP_BRIDGE['SOURCES'][{self.alias!r}]['OPTIONS']['views']: {text}.",
                "Give a URL name with its namespaces, in which * stands for anything, or the "
                "dotted path of a view.",
                "W070",
            )

    def _made(self, selected: list[Selected]) -> list[Tool]:
        from mcp_bridge.sources.rest_framework.schemas import Describer, with_arguments

        describer = Describer()
        described = [
            (each, description)
            for each in selected
            if (description := self._described(each, describer)) is not None
        ]
        for each, description in described:
            if each.options.input_schema is not None:
                with_arguments(description, each.options.input_schema)
        data = describer.documents([description for _, description in described])
        documents = {id(each): Document(each) for each in data}
        callbacks = {each.endpoint.route.callback for each, _ in described}
        tools = []
        for (each, description), document in zip(described, data, strict=True):
            try:
                name = self._name(each, selected, describer)
                tool = self._tool(each, name, description, documents[id(document)], callbacks)
            except Exception as exception:
                self._withhold(each.where, first_line(exception))
                continue
            if tool is not None:
                tools.append(tool)
        lost = [each.where for each, description in described if description.is_lost]
        if lost:
            self._say(
                checks.Warning,
                f"{len(lost)} views have an @extend_schema that does nothing, such as {lost[0]}: "
                "it builds on the schema class of Django REST framework.",
                'Set REST_FRAMEWORK["DEFAULT_SCHEMA_CLASS"] to '
                '"drf_spectacular.openapi.AutoSchema".',
                "W074",
            )
        return tools

    def _described(self, selected: Selected, describer: Describer) -> Description | None:
        try:
            found = describer.describe(selected.endpoint, self.options.get("version"))
        except tuple(TRANSIENT) as exception:
            self.messages.append(not_yet(selected.where, exception))
            return None
        except Exception as exception:
            self._withhold(selected.where, first_line(exception))
            return None
        if found.operation.get("deprecated") and not selected.is_named:
            return None
        return found

    def _tool(
        self,
        selected: Selected,
        name: str,
        description: Description,
        document: Document,
        callbacks: set[Any],
    ) -> Tool | None:
        endpoint, options = selected.endpoint, selected.options
        route = endpoint.route
        operation = document.operation(endpoint.method, description.path)
        mapped = map_operation(
            document,
            operation,
            output_schema=self.options.get("output_schemas", False),
            is_dotted=True,
        )
        caller = view_caller(
            endpoint, mapped, description.version, self.options.get("urlconf"), callbacks
        )
        tool = operation_tool(
            self,
            name,
            mapped,
            options,
            where=selected.where,
            invoke=caller.invoke,
            hints={"destructiveHint": False} if endpoint.action == "create" else {},
            access=access_rule(endpoint, options, probe=self.options.get("probe", True)),
            # Django has no public way to read the mark of transaction.non_atomic_requests.
            non_atomic=frozenset(getattr(route.callback, "_non_atomic_requests", ())),
            source=location(endpoint.function),
            function=f"{endpoint.place}.{endpoint.action}",
        )
        if tool is not None:
            self._warn(name, selected, description, mapped.notes)
        return tool

    def _name(self, selected: Selected, every: list[Selected], describer: Describer) -> str:
        endpoint = selected.endpoint
        if (given := selected.options.name) is not None:
            shared = [each for each in every if each.options.name == given]
            name = given if len(shared) == 1 else given + endpoint.suffix
        elif selected.stem is not None:
            parts = filter(None, (selected.stem, endpoint.action))
            name = "_".join(parts) + endpoint.of_method
        else:
            explicit = describer.operation_id(endpoint)
            name = endpoint.own_name if explicit is None else tool_name(explicit)
        prefix: str = self.options.get("prefix", "")
        return prefix + "_".join((*selected.prefixes, name))

    def _warn(
        self, name: str, selected: Selected, description: Description, notes: Sequence[str]
    ) -> None:
        """Say what of a tool could not be told, or may be wrong."""
        from mcp_bridge.sources.rest_framework.schemas import reads_body

        endpoint = selected.endpoint
        where = f"{name} ({selected.where})"
        if description.inherits_body:
            self._say(
                checks.Warning,
                f"{where} wants the body of its view set, since an @action inherits its "
                "serializer.",
                "Put @extend_schema(request=None) on an action that reads no body, or "
                "@action(serializer_class=...) for one of its own.",
                "W073",
            )
        is_unknown = any("unable to guess serializer" in each for each in description.warnings)
        if (
            is_unknown
            and endpoint.method in ("POST", "PUT", "PATCH")
            and "requestBody" not in description.operation
            and selected.options.input_schema is None
            and reads_body(endpoint.function)
        ):
            self._say(
                checks.Warning,
                f"{where} takes no body, since its view does not say which serializer it has.",
                "Put @extend_schema(request=...) on it, or give the option input_schema.",
                "W072",
            )
        for note in notes:
            self._say(
                checks.Warning,
                f"{where}: {note.rstrip('.')}.",
                "The tool works without it; describe it in another way with @extend_schema.",
                "W075",
            )

    def _withhold(self, where: str, reason: str) -> None:
        self._say(
            checks.Error,
            f"{where} is chosen as a tool but not served: {reason}.",
            "Mend the view, or describe it with @extend_schema or an extension of drf-spectacular. "
            "Else take its mark off, or its name out of the option 'views'.",
            "E070",
        )

    def _say(
        self, kind: type[checks.Error | checks.Warning], text: str, hint: str, id: str
    ) -> None:
        self.messages.append(kind(text, hint=hint, id=f"mcp_bridge.{id}"))

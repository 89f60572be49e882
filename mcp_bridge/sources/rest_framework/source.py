"""The source of tools that are views of Django REST framework."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import override

from mcp_bridge.features import Tool, ToolOptions
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.sources.base import LeftOut, OperationSource, first_line, mend_import
from mcp_bridge.sources.rest_framework.access import access_rule
from mcp_bridge.sources.rest_framework.endpoints import Endpoint, endpoints, routes
from mcp_bridge.sources.rest_framework.selection import (
    Selected,
    hints_of,
    is_never_offered,
    select,
)
from mcp_bridge.sources.secrets import secret_answer

if TYPE_CHECKING:
    from mcp_bridge.sources.rest_framework.building import Builder


class RESTFrameworkSource(OperationSource[Selected]):
    """
    Tools from the views of Django REST framework that stand in the URLconf.

    Those with ``@mcp_tool`` or ``@mcp_toolset(actions=...)``, and those that OPTIONS["views"] names
    by URL name or dotted path. Each is called in this process through the callback that the URLconf
    has, so that all of its permissions, throttles, parsers and decorators hold.
    """

    known_options = {
        "views": (Mapping, "a dict"),
        "expose": (str, '"marked" or "all"'),
        "prefix": (str, "a string"),
        "version": (str | None, "a string"),
        "urlconf": (str | None, "the dotted path of a URLconf"),
        "output_schemas": (bool, "True or False"),
        "probe": (bool, "True or False"),
    }
    lines_in = "views"
    own = ("actions", "prefix")
    not_served = (
        *("E070", "W079"),
        "Mend the view, or describe it with @extend_schema or an extension of drf-spectacular. "
        "Else take its mark off, or its name out of the option 'views'.",
    )
    unused = (
        "W070",
        "Give a URL name with its namespaces, in which * stands for anything, or the dotted path "
        "of a view of Django REST framework.",
    )
    kept_out = "W071", "Where models are to call one, name its view in a line of its own."

    def __init__(self, alias: str, options: JSONObject) -> None:
        super().__init__(alias, options)
        if find_spec("drf_spectacular") is None:
            raise TypeError(
                "drf-spectacular, which describes the views, is not installed: "
                'pip install "django-mcp-bridge[drf]"'
            )
        for line in self.lines:
            actions = line.more.get("actions", ())
            if isinstance(actions, str) or not all(isinstance(each, str) for each in actions):
                raise TypeError(f"in its views {line.pattern!r}, 'actions' is no list of names")
            if not isinstance(line.more.get("prefix", ""), str):
                raise TypeError(f"in its views {line.pattern!r}, 'prefix' is no string")
        # The names that are given, each as often as it is; and callbacks, for redirects.
        self._given = Counter[str | None]()
        self._callbacks: set[object] = set()
        self._lost: list[str] = []

    def tools(self) -> Sequence[Tool]:
        # Descriptions may be translations, and have to be the same in each process.
        with override(settings.LANGUAGE_CODE):
            return super().tools()

    def no_tools(self) -> tuple[str, str] | None:
        return (
            "no view of Django REST framework in the URLconf is marked or named",
            "Put @mcp_tool on an action, @mcp_toolset(actions=[...]) on a class, or name views in "
            "the option 'views' by their URL names.",
        )

    def found(self) -> Sequence[Selected]:
        try:
            served = routes(self.options.get("urlconf"))
            every = [each for route in served for each in endpoints(route)]
        except Exception as exception:
            # A module of addresses may raise anything.
            text = f"{self.place}: the URLconf cannot be read: {first_line(exception)}."
            hint = mend_import(exception) or "Name a URLconf that can be imported."
            self.report("E071", text, hint)
            return []
        selected = [select(each, self.lines) for each in every]
        wanted = [each for each in selected if each.layers or self.exposes_all]
        pages = {each: None for each in wanted if each.endpoint.renders_only_html}
        if pages:
            self.report(
                "W078",
                f"{self.place} leaves out {len(pages)} endpoints that render only HTML, such as "
                f"{next(iter(pages))}.",
                "Models read data: add rest_framework.renderers.JSONRenderer to the "
                "renderer_classes of a view that is to be a tool.",
            )
        found = [each for each in wanted if each not in pages]
        marked = [each for each in found if each.layers]
        self._given = Counter(each.name for each in marked)
        self._callbacks = {each.endpoint.route.callback for each in marked}
        return found

    @cached_property
    def _builder(self) -> Builder:
        # Imported when it is needed, since it takes drf-spectacular with it.
        from mcp_bridge.sources.rest_framework.building import Builder

        return Builder(self.options, self._callbacks)

    def options_of(self, operation: Selected) -> ToolOptions | None:
        return operation.options

    def name_of(self, operation: Selected, options: ToolOptions) -> str:
        endpoint, name = operation.endpoint, options.name
        if name is not None:
            name += endpoint.suffix if self._given[name] > 1 else ""
        elif operation.stem is not None:
            name = "_".join(filter(None, (operation.stem, endpoint.action))) + endpoint.of_method
        else:
            name = self._builder.own_name(endpoint)
        prefix: str = self.options.get("prefix", "")
        return prefix + "_".join((*operation.prefixes, name))

    def build(self, operation: Selected, options: ToolOptions, name: str) -> Tool:
        endpoint = operation.endpoint
        try:
            description = self._builder.describe(endpoint, options)
        except LeftOut as exception:
            if operation.is_named:
                raise ValueError(str(exception)) from exception
            raise
        if not operation.is_named and description.operation.get("deprecated"):
            raise LeftOut("it is deprecated")
        made = self._builder.tool(name, endpoint, options, description)
        where = f"{name} ({endpoint})"
        for sentence in made.notes:
            self.note(where, sentence)
        if made.lacks_serializer:
            text = f"{where} takes no body, since its view does not say which serializer it has."
            hint = "Put @extend_schema(request=...) on it, or give the option input_schema."
            self.report("W072", text, hint)
        self._lost += [str(endpoint)] if description.is_lost else []
        return made.tool

    def report_all(self) -> None:
        super().report_all()
        for line in self.lines:
            unused = {*line.more.get("actions", ())} - line.seen
            if line.used and unused:
                where, actions = f"{self.place}['OPTIONS']['views']", ", ".join(sorted(unused))
                id, hint = self.unused
                self.report(id, f"{where}: {line.pattern!r} has no action {actions}.", hint)
        if self._lost:
            self.report(
                "W074",
                f"An @extend_schema does nothing on {len(self._lost)} endpoints, such as "
                f"{self._lost[0]}: it builds on the schema class of Django REST framework.",
                'Set REST_FRAMEWORK["DEFAULT_SCHEMA_CLASS"] to '
                '"drf_spectacular.openapi.AutoSchema".',
            )

    def function_of(self, operation: Selected) -> object:
        # Of an inherited method, its class is the site's.
        function = operation.endpoint.function
        return operation.endpoint.route.kind if operation.endpoint.is_inherited else function

    def unmarked(self, operation: Selected) -> Tool:
        endpoint, options = operation.endpoint, ToolOptions()
        if is_never_offered(endpoint):
            raise LeftOut("it handles credentials")
        name = self.name_of(operation, options)
        about = inspect.getdoc(endpoint.function) or endpoint.about(
            endpoint.route.kind.__doc__ or ""
        )
        return self.offer(
            partial(self._build_unmarked, name, endpoint),
            _member_names(endpoint),
            name=name,
            description=about.strip().partition("\n")[0],
            annotations=hints_of(endpoint),
            access=access_rule(endpoint, options, probe=self.options.get("probe", True)),
            source=endpoint.source,
            function=endpoint.path,
        )

    def _build_unmarked(self, name: str, endpoint: Endpoint) -> Tool:
        """Return the tool of an endpoint that nobody has marked. Raises what says why not."""
        from mcp_bridge.sources.rest_framework.building import Builder

        options = ToolOptions()
        with override(settings.LANGUAGE_CODE):
            # A serializer that represents itself may still send the secrets that it declares.
            judge = Builder(self.options, self._callbacks, as_declared=True)
            description = judge.describe(endpoint, options)
            if description.operation.get("deprecated"):
                raise ValueError("it is deprecated")
            if description.answer_error is not None:
                # It may be a secret.
                raise description.answer_error
            responses = description.operation.get("responses", {})
            if secret := secret_answer(responses, description.components):
                raise ValueError(f"it returns a secret, {secret!r}: only a mark makes it a tool")
            description = self._builder.describe(endpoint, options)
            return self._builder.tool(name, endpoint, options, description).tool


def _member_names(endpoint: Endpoint) -> frozenset[str]:
    """Return the names of members that an endpoint's serializer declares."""
    given = getattr(endpoint.function, "kwargs", {})
    default = getattr(endpoint.route.kind, "serializer_class", None)
    serializer = given.get("serializer_class") or default
    fields = getattr(getattr(serializer, "Meta", None), "fields", ())
    declared = getattr(serializer, "_declared_fields", {})
    return frozenset((*declared, *(fields if isinstance(fields, list | tuple) else ())))

"""The source of tools from Django REST framework views."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from importlib.util import find_spec

from django.conf import settings
from django.utils.translation import override

from mcp_bridge.features import Feature, Tool, ToolOptions
from mcp_bridge.features.marks import toolset_of
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.sources.base import (
    NO_OPTIONS,
    LeftOut,
    Line,
    OperationSource,
    first_line,
    mend_import,
)
from mcp_bridge.sources.rest_framework.access import access_rule
from mcp_bridge.sources.rest_framework.completing import row_completers
from mcp_bridge.sources.rest_framework.endpoints import Endpoint, endpoints, routes
from mcp_bridge.sources.secrets import refuse_secret_answers


@dataclass(frozen=True, kw_only=True, eq=False)
class Selected:
    """An endpoint, the options of its marks and lines, and whether it is named explicitly."""

    endpoint: Endpoint
    layers: tuple[ToolOptions, ...]
    prefixes: tuple[str, ...]
    is_named: bool

    def __str__(self) -> str:
        return str(self.endpoint)


class RESTFrameworkSource(OperationSource[Selected]):
    """
    Tools from the views of Django REST framework in the URLconf.

    These are views with ``@mcp_tool`` or ``@mcp_toolset(actions=...)``, and views that
    OPTIONS["views"] names by URL name or dotted path. Each is called in this process through its
    callback in the URLconf, so that its permissions, throttles, parsers and decorators apply.
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
        "Fix the view, or describe it with @extend_schema or an extension of drf-spectacular. "
        "Otherwise remove its mark, or its name from the option 'views'.",
    )
    unused = (
        "W070",
        "Use a URL name with its namespaces, in which * matches any text, or the dotted path of a "
        "view of Django REST framework.",
    )
    kept_out = "W071", "To let models call one, name its view in a separate line."

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
                raise TypeError(f"in its views {line.pattern!r}, 'actions' is not a list of names")
            if not isinstance(line.more.get("prefix", ""), str):
                raise TypeError(f"in its views {line.pattern!r}, 'prefix' is not a string")
        # Imported here, since it imports drf-spectacular.
        from mcp_bridge.sources.rest_framework.schemas import Builder

        # The names given, with their counts; and the callbacks, for redirects.
        self._given = Counter[str | None]()
        self._callbacks: set[object] = set()
        self._lost: list[str] = []
        self._builder = Builder(options, self._callbacks)
        # A serializer with its own to_representation() may still send the secrets it declares.
        self._judge = Builder(options, self._callbacks, as_declared=True)

    def tools(self) -> Sequence[Feature]:
        # Descriptions may be translated but must be the same in each process.
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
            # A URLconf module may raise any exception.
            text = f"{self.place}: the URLconf cannot be read: {first_line(exception)}."
            hint = mend_import(exception) or "Name a URLconf that can be imported."
            self.report("E071", text, hint)
            return []
        wanted = [each for each in map(self._select, every) if each.layers or self.exposes_all]
        pages = {each: None for each in wanted if each.endpoint.renders_only_html}
        if pages:
            self.report(
                "W078",
                f"{self.place} skips {len(pages)} endpoints that render only HTML, such as "
                f"{next(iter(pages))}.",
                "Models need data: to make a tool of a view, add "
                "rest_framework.renderers.JSONRenderer to its renderer_classes.",
            )
        found = [each for each in wanted if each not in pages]
        marked = [each for each in found if each.layers]
        self._given = Counter(
            next((layer.name for layer in each.layers if layer.name is not None), None)
            for each in marked
        )
        self._callbacks.clear()
        self._callbacks.update(each.endpoint.route.callback for each in marked)
        return found

    def _select(self, endpoint: Endpoint) -> Selected:
        """Return an endpoint with its marks and matching lines."""
        toolset, mark = toolset_of(endpoint.route.kind), endpoint.mark
        names = {endpoint.action, endpoint.method.lower()}
        is_named = mark is not None or bool(toolset and not names.isdisjoint(toolset.actions))
        places = [each for each in (endpoint.place, endpoint.route.full_name) if each]
        is_guarded, meant = endpoint.handles_credentials, list[Line]()
        for line in self.lines:
            is_other = names.isdisjoint(line.more.get("actions", names))
            if line.means(places, guarded=is_guarded and not is_other):
                line.seen.update(names)
                if not is_other:
                    meant.append(line)
                    is_named |= line.pattern in places or "actions" in line.more
        layers = [mark, *(each.options for each in reversed(meant))]
        if toolset is not None and (meant or is_named):
            layers.append(toolset.options)
        return Selected(
            endpoint=endpoint,
            layers=tuple(each for each in layers if each is not None),
            prefixes=tuple(each.more["prefix"] for each in meant if each.more.get("prefix")),
            is_named=is_named,
        )

    def options_of(self, operation: Selected) -> ToolOptions | None:
        return reduce(ToolOptions.under, operation.layers) if operation.layers else None

    def name_of(self, operation: Selected, options: ToolOptions) -> str:
        endpoint, name = operation.endpoint, options.name
        toolset = toolset_of(endpoint.route.kind)
        if name is not None:
            name += endpoint.suffix if self._given[name] > 1 else ""
        elif toolset is not None and toolset.prefix is not None:
            name = "_".join(filter(None, (toolset.prefix, endpoint.action))) + endpoint.of_method
        else:
            name = self._builder.own_name(endpoint)
        prefix: str = self.options.get("prefix", "")
        return prefix + "_".join((*operation.prefixes, name))

    def build(self, operation: Selected, options: ToolOptions, name: str) -> Tool:
        endpoint = operation.endpoint
        try:
            description = self._builder.describe(endpoint, options, is_named=operation.is_named)
        except LeftOut as exception:
            if operation.is_named:
                raise ValueError(str(exception)) from exception
            raise
        tool = self._builder.tool(name, options, description)
        where = f"{name} ({endpoint})"
        self.note(where, description.notes)
        is_unknown = any("unable to guess serializer" in each for each in description.warnings)
        has_body = endpoint.method in ("POST", "PUT", "PATCH")
        if is_unknown and has_body and description.mapped.body is None:
            text = f"{where} takes no body, since its view does not declare a serializer."
            hint = "Put @extend_schema(request=...) on it, or set the option input_schema."
            self.report("W072", text, hint)
        self._lost += [str(endpoint)] if description.corrected.is_lost else []
        if type(options) is ToolOptions:
            return tool
        completers = row_completers(endpoint, guarded=not options.scopes)
        return replace(tool, completers=completers)

    def report_all(self) -> None:
        super().report_all()
        for line in self.lines:
            unused = {*line.more.get("actions", ())} - line.seen
            if line.used and unused:
                where, actions = f"{self.place}['OPTIONS']['views']", ", ".join(sorted(unused))
                id, hint = self.unused
                self.report(id, f"{where}: {line.pattern!r} lacks the action {actions}.", hint)
        if self._lost:
            self.report(
                "W074",
                f"An @extend_schema has no effect on {len(self._lost)} endpoints, such as "
                f"{self._lost[0]}: it uses the schema class of Django REST framework.",
                'Set REST_FRAMEWORK["DEFAULT_SCHEMA_CLASS"] to '
                '"drf_spectacular.openapi.AutoSchema".',
            )

    def function_of(self, operation: Selected) -> object:
        # For an inherited method, only the class belongs to the site.
        function = operation.endpoint.function
        return operation.endpoint.route.kind if operation.endpoint.is_inherited else function

    def unmarked(self, operation: Selected) -> Tool:
        endpoint, options = operation.endpoint, NO_OPTIONS
        if endpoint.handles_credentials:
            raise LeftOut("it handles credentials")
        name = self.name_of(operation, options)
        given = getattr(endpoint.function, "kwargs", {}).get("serializer_class")
        serializer = given or getattr(endpoint.route.kind, "serializer_class", None)
        fields = getattr(getattr(serializer, "Meta", None), "fields", ())
        # It may be "__all__".
        fields = () if isinstance(fields, str) else fields
        text = endpoint.route.kind.__doc__ or ""
        about = inspect.getdoc(endpoint.function) or endpoint.about(text)
        return self.offer(
            partial(self._build_unmarked, name, endpoint),
            (*getattr(serializer, "_declared_fields", {}), *fields),
            name=name,
            description=about.strip().partition("\n")[0],
            annotations=endpoint.hints,
            access=access_rule(endpoint, options, probe=self.options.get("probe", True)),
            source=endpoint.source,
            function=endpoint.path,
        )

    def _build_unmarked(self, name: str, endpoint: Endpoint) -> Tool:
        """Return the tool of an unmarked endpoint. Raises any exception if it cannot be built."""
        options = NO_OPTIONS
        with override(settings.LANGUAGE_CODE):
            judged = self._judge.describe(endpoint, options)
            if judged.corrected.answer_error is not None:
                # It may be a secret.
                raise judged.corrected.answer_error
            refuse_secret_answers(judged.operation.get("responses", {}), judged.components)
            return self._builder.tool(name, options, self._builder.describe(endpoint, options))

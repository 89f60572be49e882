"""The source of tools that are views of Django REST framework."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.utils.translation import override

from mcp_bridge.features import Candidate, Tool, ToolOptions
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.schemas.adapters import TRANSIENT
from mcp_bridge.sources.base import Source, first_line, mend_import
from mcp_bridge.sources.marked import is_exposed
from mcp_bridge.sources.messages import (
    IllegalName,
    illegal_name,
    no_description,
    not_yet,
    unserved,
)
from mcp_bridge.sources.rest_framework.access import access_rule
from mcp_bridge.sources.rest_framework.endpoints import Endpoint, endpoints
from mcp_bridge.sources.rest_framework.routes import routes
from mcp_bridge.sources.rest_framework.selection import (
    Excluded,
    Line,
    Selected,
    hints_of,
    is_never_offered,
    select,
)

if TYPE_CHECKING:
    from mcp_bridge.sources.rest_framework.building import Builder


class RESTFrameworkSource(Source):
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

    def __init__(self, alias: str, options: JSONObject) -> None:
        super().__init__(alias, options)
        if find_spec("drf_spectacular") is None:
            raise TypeError(
                "drf-spectacular, which describes the views, is not installed: "
                'pip install "django-mcp-bridge[drf]"'
            )
        # Raises for a wrong value.
        _ = self._lines()
        self._others: list[Endpoint] = []
        self._callbacks: set[object] = set()

    def tools(self) -> Sequence[Tool]:
        # Descriptions may be translations, and have to be the same in each process.
        with override(settings.LANGUAGE_CODE):
            return self._made(list(self._selected()))

    def candidates(self) -> Sequence[Candidate]:
        if not self.exposes_all:
            return ()
        from mcp_bridge.sources.rest_framework.building import Builder

        with override(settings.LANGUAGE_CODE):
            builder, found = Builder(self.options, ()), []
            for endpoint in self._others:
                if is_never_offered(endpoint):
                    continue
                try:
                    found.append(self._candidate(endpoint, builder))
                except Exception as exception:
                    # Classes of the site's own are asked for names, and may raise anything.
                    self.messages.append(
                        checks.Warning(
                            f"{endpoint} is no candidate: {first_line(exception)}.",
                            hint="Mend the view, or leave it so: the others are candidates.",
                            id="mcp_bridge.W076",
                        )
                    )
        return found

    def no_tools(self) -> tuple[str, str] | None:
        if self.exposes_all and self._others:
            # An administrator says which.
            return None
        return (
            "no view of Django REST framework in the URLconf is marked or named",
            "Put @mcp_tool on an action, @mcp_toolset(actions=[...]) on a class, or name views in "
            "the option 'views' by their URL names.",
        )

    def _lines(self) -> list[Line]:
        return [Line.of(name, each) for name, each in self.options.get("views", {}).items()]

    def _selected(self) -> Iterator[Selected]:
        """Yield the endpoints that are to be tools; the others are kept, as candidates."""
        self._others, lines = [], self._lines()
        where = f"MCP_BRIDGE['SOURCES'][{self.alias!r}]"
        try:
            found = [
                endpoint
                for route in routes(self.options.get("urlconf"))
                for endpoint in endpoints(route)
            ]
        except Exception as exception:
            # A module of addresses may raise anything.
            self.messages.append(
                checks.Error(
                    f"{where}: the URLconf cannot be read: {first_line(exception)}.",
                    hint=mend_import(exception) or "Name a URLconf that can be imported.",
                    id="mcp_bridge.E071",
                )
            )
            return
        pages = []
        for endpoint in found:
            try:
                selected = select(endpoint, lines)
            except ValueError as exception:
                self._withhold(endpoint, f"its marks disagree: {first_line(exception)}")
                continue
            if (selected or self.exposes_all) and endpoint.renders_only_html:
                pages.append(endpoint)
            elif selected is None:
                self._others.append(endpoint)
            elif is_exposed(endpoint.function, selected.options):
                yield selected
        if pages:
            self.messages.append(
                checks.Warning(
                    f"{where} leaves out {len(pages)} endpoints that render only HTML, such as "
                    f"{pages[0]}.",
                    hint="Models read data: add rest_framework.renderers.JSONRenderer to the "
                    "renderer_classes of a view that is to be a tool.",
                    id="mcp_bridge.W078",
                )
            )
        for line in lines:
            left_out = [each for each in line.left_out if each in self._others]
            if left_out:
                count, first = len(left_out), left_out[0]
                self.messages.append(
                    checks.Warning(
                        f"{where}['OPTIONS']['views']: {line.pattern!r} leaves out {count} "
                        f"endpoints that handle credentials, such as {first}.",
                        hint="A pattern never chooses these. Where models are to call one, name "
                        f"its view in a line of its own: {first.place!r}.",
                        id="mcp_bridge.W071",
                    )
                )
            if not line.is_used:
                text = f"no view in the URLconf has the name {line.pattern!r}"
            elif line.unused:
                text = f"{line.pattern!r} has no action {', '.join(sorted(line.unused))}"
            else:
                continue
            self.messages.append(
                checks.Warning(
                    f"{where}['OPTIONS']['views']: {text}.",
                    hint="Give a URL name with its namespaces, in which * stands for anything, or "
                    "the dotted path of a view of Django REST framework.",
                    id="mcp_bridge.W070",
                )
            )

    def _made(self, selected: list[Selected]) -> list[Tool]:
        """Return the tools of endpoints, which are described before the first one is made."""
        from mcp_bridge.sources.rest_framework.building import Builder

        self._callbacks = {each.endpoint.route.callback for each in selected}
        builder, described = Builder(self.options, self._callbacks), []
        for each in selected:
            try:
                description = builder.describe(each)
            except tuple(TRANSIENT) as exception:
                self.messages.append(not_yet(str(each.endpoint), exception))
            except Excluded as exception:
                # A pattern takes it no more than what is deprecated.
                if each.is_named:
                    self._withhold(each.endpoint, first_line(exception))
            except Exception as exception:
                # Views describe themselves with code of the site's own.
                self._withhold(each.endpoint, first_line(exception))
            else:
                if each.is_named or not description.operation.get("deprecated"):
                    described.append((each, description))
        tools: list[Tool] = []
        for each, description in described:
            try:
                name = builder.name(each, selected)
                made = builder.tool(name, each, description)
            except IllegalName as exception:
                self.messages.append(illegal_name(exception))
                continue
            except Exception as exception:
                self._withhold(each.endpoint, first_line(exception))
                continue
            tools.append(made.tool)
            if not str(made.tool.description).strip():
                self.messages.append(no_description(f"{name} ({each.endpoint})"))
            self.messages += made.warnings
        lost = [str(each.endpoint) for each, description in described if description.is_lost]
        if lost:
            self.messages.append(
                checks.Warning(
                    f"An @extend_schema does nothing on {len(lost)} endpoints, such as {lost[0]}: "
                    "it builds on the schema class of Django REST framework.",
                    hint='Set REST_FRAMEWORK["DEFAULT_SCHEMA_CLASS"] to '
                    '"drf_spectacular.openapi.AutoSchema".',
                    id="mcp_bridge.W074",
                )
            )
        return tools

    def _candidate(self, endpoint: Endpoint, builder: Builder) -> Candidate:
        chosen = Selected(endpoint=endpoint, options=ToolOptions())
        name = builder.name(chosen, [chosen])
        kind = endpoint.route.kind
        config = apps.get_containing_app_config(kind.__module__)
        about = inspect.getdoc(endpoint.function) or endpoint.about(kind.__doc__ or "")
        rule = access_rule(endpoint, chosen.options, probe=self.options.get("probe", True))
        return Candidate(
            name=name,
            build=partial(self._build, name, chosen),
            summary=about.strip().partition("\n")[0],
            app=kind.__module__.partition(".")[0] if config is None else config.label,
            annotations=hints_of(endpoint),
            who=rule.words,
            access=rule,
            members=_member_names(endpoint),
            source=endpoint.source,
            function=endpoint.path,
        )

    def _build(self, name: str, chosen: Selected) -> Tool:
        """Return the tool of a candidate. Raises what says why there can be none."""
        from mcp_bridge.sources.rest_framework.building import Builder
        from mcp_bridge.sources.secrets import secret_answer

        with override(settings.LANGUAGE_CODE):
            # A serializer that represents itself may still send the secrets that it declares.
            judge = Builder(self.options, self._callbacks, as_declared=True)
            description = judge.describe(chosen)
            if description.operation.get("deprecated"):
                raise ValueError("it is deprecated")
            if description.answer_error is not None:
                # It may be a secret.
                raise description.answer_error
            responses = description.operation.get("responses", {})
            if secret := secret_answer(responses, description.components):
                raise ValueError(f"it returns a secret, {secret!r}: only a mark makes it a tool")
            builder = Builder(self.options, self._callbacks)
            description = builder.describe(chosen)
            return builder.tool(name, chosen, description).tool

    def _withhold(self, endpoint: Endpoint, reason: str) -> None:
        self.messages.append(
            unserved(
                "E070",
                "W079",
                f"{endpoint} is chosen as a tool but not served: {reason}.",
                "Mend the view, or describe it with @extend_schema or an extension of "
                "drf-spectacular. Else take its mark off, or its name out of the option 'views'.",
                endpoint.route.kind.__module__,
            )
        )


def _member_names(endpoint: Endpoint) -> frozenset[str]:
    """Return the names of members that an endpoint's serializer declares."""
    given = getattr(endpoint.function, "kwargs", {})
    default = getattr(endpoint.route.kind, "serializer_class", None)
    serializer = given.get("serializer_class") or default
    fields = getattr(getattr(serializer, "Meta", None), "fields", ())
    declared = getattr(serializer, "_declared_fields", {})
    return frozenset((*declared, *(fields if isinstance(fields, list | tuple) else ())))

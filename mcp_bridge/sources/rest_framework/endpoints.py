"""Endpoints, one for each route and method, with their marks, names and versions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from rest_framework import versioning
from rest_framework.mixins import ListModelMixin
from rest_framework.routers import APIRootView
from rest_framework.schemas.views import SchemaView
from rest_framework.views import APIView

from mcp_bridge.conf import conf
from mcp_bridge.features import ToolOptions
from mcp_bridge.features.marks import options_of, snake_case
from mcp_bridge.features.secrets import deals_with_secrets
from mcp_bridge.sources.in_process import routes as in_process
from mcp_bridge.sources.in_process.routes import UnreadableRoute, wrapped
from mcp_bridge.sources.marked import location, shown
from mcp_bridge.sources.operations.mapping import HINTS

# Apps whose views create, change or return secrets: they are never offered automatically.
NEVER: Final = frozenset(
    {"allauth", "dj_rest_auth", "djoser", "knox", "mcp_bridge", "oauth2_provider"}
    | {"rest_framework.authtoken", "rest_framework_simplejwt", "two_factor"}
)

# Methods that are not operations.
_OTHERS: Final = frozenset({"head", "options", "trace", "connect"})
# Descriptions of the framework's actions, used if a class does not describe each.
_VERBS: Final = {
    "list": "List",
    **dict.fromkeys(("retrieve", "get"), "Read one"),
    **dict.fromkeys(("create", "post"), "Create one"),
    **dict.fromkeys(("update", "put"), "Replace one"),
    **dict.fromkeys(("partial_update", "patch"), "Change one"),
    **dict.fromkeys(("destroy", "delete"), "Delete one"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Route(in_process.Route):
    """A route; ``view`` is the view inside its callback, ``actions`` are by method."""

    view: Any
    kind: type[APIView]
    initkwargs: Mapping[str, Any]
    actions: Mapping[str, str] | None


def routes(urlconf: Any) -> Iterator[Route]:
    """Yield each route of a URLconf to a view of Django REST framework."""
    for route in in_process.routes(urlconf):
        for each in wrapped(route.callback):
            kind = getattr(each, "cls", None)
            if isinstance(kind, type) and issubclass(kind, APIView):
                given, actions = getattr(each, "initkwargs", None), getattr(each, "actions", None)
                own: dict[str, Any] = {"kind": kind, "initkwargs": given or {}, "actions": actions}
                yield Route(view=each, **own, **vars(route))
                break


@dataclass(frozen=True, kw_only=True, eq=False)
class Endpoint:
    """
    One method of a view at one route.

    ``action`` is the name of the handler in the class: the action of a view set, else the HTTP
    method in lower case. ``others`` are the endpoints of the same route, including this one.
    """

    route: Route
    method: str
    action: str
    others: list[Endpoint] = field(repr=False)

    @property
    def handler(self) -> Any:
        """The handler: a method of the class."""
        return getattr(self.route.kind, self.action)

    @property
    def function(self) -> Callable[..., Any]:
        """The handler, or the function inside ``@api_view``."""
        cells = self.handler.__closure__ if self.is_function_view else None
        inside = [each.cell_contents for each in cells or () if callable(each.cell_contents)]
        return inside[-1] if inside else self.handler  # type: ignore[no-any-return]

    @property
    def is_function_view(self) -> bool:
        """Whether the class was made by ``@api_view``."""
        return self.route.kind.__qualname__ == "WrappedAPIView"

    @property
    def mark(self) -> ToolOptions | None:
        """The options of ``@mcp_tool`` on the handler, or around the view in the URLconf."""
        marks = map(options_of, (self.function, *wrapped(self.route.callback)))
        return next((each for each in marks if each is not None), None)

    @property
    def place(self) -> str:
        """The dotted path of the class, or of a function view's function."""
        kind = self.route.kind
        return f"{kind.__module__}.{kind.__name__ if self.is_function_view else kind.__qualname__}"

    @property
    def path(self) -> str:
        """The dotted path of the handler."""
        return self.place if self.is_function_view else f"{self.place}.{self.action}"

    @property
    def own_name(self) -> str:
        """The default name, in lower case and without ``-``, ``:`` and dots."""
        named = self.route.full_name or snake_case(self.route.kind.__name__)
        suffix = self.suffix
        basename = self.route.initkwargs.get("basename")
        if basename and self.route.actions is not None:
            named = "_".join((*self.route.namespaces, basename, self.action))
            suffix = self.of_method
        return re.sub(r"[^A-Za-z0-9_]+", "_", named).strip("_").lower() + suffix

    @property
    def suffix(self) -> str:
        """The suffix that distinguishes the endpoints of one route, or "" if there is one."""
        return "" if len(self.others) == 1 else f"_{self.action}{self.of_method}"

    @property
    def of_method(self) -> str:
        """The suffix that distinguishes endpoints with one action, as ``me`` with four methods."""
        is_shared = sum(each.action == self.action for each in self.others) > 1
        return f"_{self.method.lower()}" if is_shared else ""

    @property
    def hints(self) -> Mapping[str, bool]:
        """MCP's hints for its method and DRF action."""
        hints = HINTS.get(self.method.lower(), {})
        return {**hints, "destructiveHint": False} if self.action == "create" else hints

    @property
    def handles_credentials(self) -> bool:
        """Whether its view does, by the app of it or a base class, its name or its path."""
        kind: Any = self.route.kind
        names = (kind.__name__, self.route.full_name, str(self.route))
        modules = {f"{base.__module__}." for base in kind.__mro__}
        return any(module.startswith(f"{app}.") for module in modules for app in NEVER) or any(
            deals_with_secrets(name, conf.sensitive_names) for name in names
        )

    @property
    def is_inherited(self) -> bool:
        """Whether the handler is a method of the framework, which does not describe it."""
        return self.function.__module__.partition(".")[0] in ("rest_framework", "adrf")

    @property
    def source(self) -> str:
        """The location of the handler, or of the class if the handler is inherited."""
        if not self.is_inherited:
            return location(self.function)
        kind = self.route.kind
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        return f"{shown(file)}, {kind.__qualname__}" if file else kind.__module__

    @property
    def model(self) -> Any:
        """The model of the view's queryset, without evaluating it; None if unknown."""
        queryset = self.route.initkwargs.get("queryset", getattr(self.route.kind, "queryset", None))
        return getattr(queryset, "model", None)

    @property
    def renders_only_html(self) -> bool:
        """Whether a view renders only HTML; False if it decides for each request."""
        try:
            found = self.route.kind(**self.route.initkwargs).get_renderers()
        except Exception:
            # The view's own code may need a real request.
            return False
        return {str(each.media_type).partition(";")[0] for each in found} == {"text/html"}

    def about(self, text: str) -> str:
        """Return a description of a framework action, from the class's text or its model."""
        is_set = self.route.actions is not None
        is_list = self.action == "get" and issubclass(self.route.kind, ListModelMixin)
        action = "list" if is_list else self.action
        verb = _VERBS.get(action)
        if verb is None or not self.is_inherited or (text and not is_set):
            return text
        if text:
            return f"{verb}: {text}"
        serializer = getattr(self.route.kind, "serializer_class", None)
        model = self.model or getattr(getattr(serializer, "Meta", None), "model", None)
        if model is None:
            return ""
        meta = model._meta
        noun = meta.verbose_name_plural if action == "list" else meta.verbose_name
        return f"{verb} {noun}."

    def __str__(self) -> str:
        return f"{self.method} {self.route} ({self.place})"


def endpoints(route: Route) -> list[Endpoint]:
    """Return the endpoints of a route; none for API roots, schemas and format suffixes."""
    kind = route.kind
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if issubclass(kind, APIRootView | SchemaView) or "drf_spectacular" in packages:
        return []
    with suppress(UnreadableRoute):
        if "format" in route.parameters:
            return []
    allowed = route.initkwargs.get("http_method_names", kind.http_method_names)
    names = {name.lower() for name in allowed} - _OTHERS
    actions = {name: name for name in sorted(names)} if route.actions is None else route.actions
    found: list[Endpoint] = []
    for method, action in actions.items():
        if method in names and callable(getattr(kind, action, None)):
            found.append(Endpoint(route=route, method=method.upper(), action=action, others=found))
    return found


class Version(NamedTuple):
    """The API version of a tool, or None, and the arguments for a ViewCaller to send it."""

    value: str | None
    sent: Mapping[str, Any]


def version_of(endpoint: Endpoint, wanted: str | None) -> Version:
    """Return the API version for the tool of a versioned view: the wanted one, or a default."""
    route = endpoint.route
    kind = route.initkwargs.get("versioning_class", route.kind.versioning_class)
    if kind is None:
        return Version(None, {})
    scheme, name = kind(), kind.version_param
    value = wanted
    if issubclass(kind, versioning.NamespaceVersioning):
        named = [part for each in route.namespaces for part in each.split(":")]
        value = next((each for each in named if scheme.is_allowed_version(each)), None)
        value = value or kind.default_version
    elif wanted is None or not scheme.is_allowed_version(wanted):
        value = kind.default_version or next(iter(kind.allowed_versions or ()), None)
    if value is None:
        return Version(None, {})
    sent: dict[str, Any] = {}
    if issubclass(kind, versioning.URLPathVersioning) and name in route.parameters:
        sent = {"fixed": {name: str(value)}}
    elif issubclass(kind, versioning.QueryParameterVersioning):
        sent = {"query": f"{name}={value}"}
    elif issubclass(kind, versioning.AcceptHeaderVersioning):
        sent = {"accept": f"application/json; {name}={value}, */*;q=0.1"}
    return Version(str(value), sent)

"""
Operations of django-ninja, which are called as ninja itself calls them, for the caller of a tool.

Of each operation a copy is run (``Operation.clone``), whose authentication is the caller's: the
operations that answer over HTTP are not touched.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.core import checks
from django.utils.module_loading import import_string

from mcp_bridge.features import AccessRule, Context, Tool, ToolCall, ToolOptions
from mcp_bridge.features.marks import options_in, options_of
from mcp_bridge.schemas.adapters import TRANSIENT
from mcp_bridge.sources.base import Source, first_line
from mcp_bridge.sources.in_process.calls import ViewCaller
from mcp_bridge.sources.in_process.requests import InProcessRequest
from mcp_bridge.sources.in_process.routes import Route, routes, wrapped
from mcp_bridge.sources.mapped import operation_tool
from mcp_bridge.sources.marked import is_exposed, location
from mcp_bridge.sources.messages import IllegalName, illegal_name, no_description, not_yet
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Document, tool_name

try:
    from ninja.openapi.schema import OpenAPISchema
    from ninja.operation import Operation, PathView
    from ninja.security.session import SessionAuth, SessionAuthIsStaff, SessionAuthSuperUser
except ImportError as exception:
    text = 'django-ninja is not installed: pip install "django-mcp-bridge[ninja]"'
    raise ImportError(text) from exception

_OPTIONS: Final = ("auth", "operations", "output_schemas", "prefix", "urlconf")
# Ninja's own, which judge the user of the request alone.
_OF_SESSION: Final = (SessionAuth, SessionAuthSuperUser)
# What to do about authentication of the site's own.
_HOW: Final = (
    "Say in OPTIONS['auth'] what request.auth shall be: the dotted path of a function of the "
    "ToolCall, such as mcp_bridge.sources.ninja.caller, which lets every authenticated user in."
)


def caller(call: ToolCall) -> Any:
    """Return the caller as ``request.auth``: an ``auth`` that lets every authenticated user in."""
    return call.context.user if call.context.user.is_authenticated else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Endpoint:
    """An operation at its address, for one of its methods."""

    route: Route
    operation: Operation
    method: str

    @property
    def own_name(self) -> str:
        """The operation's id where it is given, else its function's name after the namespaces."""
        operation = self.operation
        # A namespace that nobody has given says nothing.
        unnamed = f"api-{operation.api.version}"
        named = [each for each in self.route.namespaces if each != unnamed]
        own = operation.operation_id or "_".join([*named, operation.view_func.__name__])
        return own if len(operation.methods) == 1 else f"{own}_{self.method.lower()}"

    def __str__(self) -> str:
        return f"{self.method} {self.route.template} ({location(self.operation.view_func)})"


class NinjaSource(Source):
    """
    Tools from operations of django-ninja.

    Those whose function has ``@mcp_tool``, and those that OPTIONS names: ``operations``, a list of
    patterns of names, or a mapping of such patterns to options of ``mcp_tool``. Further options:
    ``auth``, the dotted path of a function that is given the ToolCall and returns what
    ``request.auth`` shall be, or None to refuse; ``prefix`` before every name; ``output_schemas``
    (True); ``urlconf``.
    """

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        super().__init__(alias, options)
        for name in options.keys() - set(_OPTIONS):
            raise TypeError(f"it has no option {name!r}, only {', '.join(_OPTIONS)}")
        named = options.get("operations", ())
        if isinstance(named, str) or not isinstance(named, Mapping | Sequence):
            raise TypeError("its option 'operations' is no list of names, and no mapping of them")
        if not isinstance(named, Mapping):
            named = dict.fromkeys(named, {})
        self._named = {
            pattern: options_in(f"its operations {pattern!r}", given)
            for pattern, given in named.items()
        }
        auth = options.get("auth")
        self._auth: Callable[[Any], Any] | None = auth and import_string(auth)
        # Those of the tools: a redirect may lead there.
        self._callbacks = set[object]()

    def tools(self) -> Sequence[Tool]:
        tools, used = [], set[str]()
        documents: dict[int, _Document] = {}
        self._callbacks.clear()
        for endpoint in self._endpoints():
            name = tool_name(endpoint.own_name)
            named = [each for each in self._named if fnmatchcase(name, each)]
            used.update(named)
            options = options_of(endpoint.operation.view_func)
            try:
                # Of an option, that of a later pattern wins, and the mark's own over all.
                for pattern in reversed(named):
                    given = self._named[pattern]
                    options = given if options is None else options.under(given)
            except ValueError as exception:
                self._withhold(f"{name} ({endpoint})", f"its marks disagree: {exception}")
                continue
            if options is None or not is_exposed(endpoint.operation.view_func, options):
                continue
            if endpoint.operation.deprecated and not named:
                continue
            api = endpoint.operation.api
            document = documents.setdefault(id(api), _Document(api, ""))
            tool = self._tool(endpoint, name, options, document)
            if tool is not None:
                tools.append(tool)
                self._callbacks.add(endpoint.route.callback)
        for pattern in self._named.keys() - used:
            self.messages.append(
                checks.Warning(
                    f"MCP_BRIDGE['SOURCES'][{self.alias!r}] names the operations {pattern!r}, and "
                    "there are none.",
                    hint="Name operations as manage.py mcp_tools does, without the prefix.",
                    id="mcp_bridge.W081",
                )
            )
        return tools

    def no_tools(self) -> tuple[str, str] | None:
        hint = "Put @mcp_tool on functions of operations, or name them in OPTIONS['operations']."
        return "no operation is marked or named", hint

    def _endpoints(self) -> Iterator[Endpoint]:
        """Yield each operation of the URLconf once."""
        seen = set[int]()
        for route in routes(self.options.get("urlconf")):
            for view in _path_views(route.callback):
                for operation in view.operations:
                    if id(operation) not in seen:
                        seen.add(id(operation))
                        for method in operation.methods:
                            yield Endpoint(route=route, operation=operation, method=method.upper())

    def _tool(
        self, endpoint: Endpoint, name: str, options: ToolOptions, document: _Document
    ) -> Tool | None:
        named = self.options.get("prefix", "") + (options.name or name)
        try:
            predicate = self._lets_in(endpoint.operation)
            mapped = document.map(endpoint, output_schema=self.options.get("output_schemas", True))
            self.messages += [
                checks.Warning(
                    f"{named} ({endpoint}): {note.rstrip('.')}.",
                    hint="The tool works without it; describe it in another way in the operation.",
                    id="mcp_bridge.W080",
                )
                for note in mapped.notes
            ]
            function = endpoint.operation.view_func
            tool = operation_tool(
                named,
                mapped,
                options,
                where=str(endpoint),
                invoke=self._caller(endpoint, mapped).invoke,
                hints=mapped.annotations,
                access=AccessRule.of(
                    options.public, options.permissions, predicate, None, options.scopes
                ),
                non_atomic=frozenset(getattr(function, "_non_atomic_requests", ())),
                source=location(function),
                function=f"{function.__module__}.{function.__qualname__}",
                code=getattr(inspect.unwrap(function), "__code__", None),
            )
            if not str(tool.description).strip():
                self.messages.append(no_description(f"{named} ({endpoint})"))
            return tool
        except IllegalName as exception:
            self.messages.append(illegal_name(exception))
            return None
        except tuple(TRANSIENT) as exception:
            self.messages.append(not_yet(f"{named} ({endpoint})", exception))
            return None
        except Exception as exception:
            # Types describe themselves with code of the site's own, which may raise anything.
            where, why = f"{named} ({endpoint})", first_line(exception)
            self._withhold(where, why, *([_HOW] if isinstance(exception, _Unjudged) else []))
            return None

    def _withhold(
        self, where: str, why: str, hint: str = "Change the operation, or take it out of the tools."
    ) -> None:
        text = f"{where} is not served: {why}."
        self.messages.append(checks.Error(text, hint=hint, id="mcp_bridge.E080"))

    def _lets_in(self, operation: Operation) -> Callable[[Context], object] | None:
        """
        Return the condition for who may see an operation.

        Raises _Unjudged where its authentication is the site's own, and nothing says what to do.
        """
        if not operation.auth_callbacks:
            return None
        own = _of_the_site(operation)
        if own and self._auth is None:
            kind = own[0] if isinstance(own[0], type) else type(own[0])
            raise _Unjudged(f"its authentication is the site's own ({kind.__name__})")
        if own:
            return None
        kinds = {type(each) for each in operation.auth_callbacks}
        if kinds == {SessionAuthSuperUser}:
            return lambda context: context.user.is_superuser
        if kinds == {SessionAuthIsStaff}:
            return lambda context: context.user.is_staff or context.user.is_superuser
        return None

    def _caller(self, endpoint: Endpoint, mapped: MappedOperation) -> ViewCaller:
        operation = endpoint.operation
        copy = operation.clone()
        copy.api = operation.api
        if operation.auth_callbacks:
            copy.auth_callbacks = [self._authenticator(operation)]

        def prepare(request: InProcessRequest) -> None:
            if not operation.auth_callbacks:
                # Over HTTP it would be the user of a session, which this request has not.
                request.user = AnonymousUser()

        return ViewCaller(
            route=endpoint.route,
            method=endpoint.method,
            mapped=mapped,
            urlconf=self.options.get("urlconf"),
            prepare=prepare,
            view=copy.run,
            callbacks=self._callbacks,
        )

    def _authenticator(self, operation: Operation) -> Callable[[InProcessRequest], Any]:
        """Return what gives ``request.auth`` of a call: as ``auth`` says, or as sessions do."""
        auth = self._auth
        # A session's class of the site's own can be asked, and nobody is asked in its place.
        if auth is not None and _of_the_site(operation):
            return lambda request: auth(request.mcp_call)
        judges: list[Any] = list(operation.auth_callbacks)

        def authenticate(request: InProcessRequest) -> Any:
            found = (each.authenticate(request, None) for each in judges)
            return next(filter(None, found), None)

        return authenticate


def _of_the_site(operation: Operation) -> list[Any]:
    """Return the authentication of an operation that looks at other credentials than a session."""
    return [each for each in operation.auth_callbacks if not isinstance(each, _OF_SESSION)]


class _Unjudged(ValueError):
    """Nobody has said whom an operation lets in."""


class _Document(OpenAPISchema):
    """The OpenAPI document of an API, whose operations are described one by one."""

    def get_paths(self) -> dict[str, Any]:
        return {}

    def map(self, endpoint: Endpoint, *, output_schema: bool) -> MappedOperation:
        """Return an operation, mapped. Raises Unmappable, and what the site's types raise."""
        # One of the same name as another's is described all the same.
        self.all_operation_ids.clear()
        details = self.operation_details(endpoint.operation)
        known = {each["name"] for each in details["parameters"] if each["in"] == "path"}
        # Those of the address at which the API stands, which ninja does not know.
        details["parameters"] += [
            {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
            for name in sorted(endpoint.route.parameters - known)
        ]
        path, method = endpoint.route.template, endpoint.method.lower()
        document = Document(
            {
                "openapi": self["openapi"],
                "paths": {path: {method: details}},
                "components": {"schemas": self.schemas},
            }
        )
        operation = document.operation(method, path)
        return map_operation(document, operation, output_schema=output_schema)


def _path_views(callback: Any) -> Iterator[PathView]:
    """Yield the views of ninja that a callback of the URLconf, or what it stands around, calls."""
    for each in wrapped(callback):
        for cell in getattr(each, "__closure__", None) or ():
            if isinstance(cell.cell_contents, PathView):
                yield cell.cell_contents

"""Serve django-ninja operations: a copy of each is run, authenticated as the tool's caller."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.utils.module_loading import import_string
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation, PathView
from ninja.security.session import SessionAuth, SessionAuthIsStaff, SessionAuthSuperUser

from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, Context, Tool, ToolCall, ToolOptions, dotted_name
from mcp_bridge.features.marks import options_of
from mcp_bridge.features.secrets import deals_with_secrets
from mcp_bridge.sources.base import NO_OPTIONS, LeftOut, OperationSource
from mcp_bridge.sources.in_process.calls import InProcessRequest, ViewCaller
from mcp_bridge.sources.in_process.routes import Route, routes, wrapped
from mcp_bridge.sources.marked import location
from mcp_bridge.sources.operations.mapping import HINTS, MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Document, tool_name
from mcp_bridge.sources.secrets import member_names, refuse_secret_answers

# Ninja's classes that check only the user of the request.
_OF_SESSION: Final = (SessionAuth, SessionAuthSuperUser)
# Those that do not admit every user: a word, and a predicate for access rules.
_LIMITED: Final[dict[Any, tuple[str, Callable[[Context], bool]]]] = {
    SessionAuthSuperUser: ("superuser", lambda context: context.user.is_superuser),
    SessionAuthIsStaff: ("staff", lambda call: call.user.is_staff or call.user.is_superuser),
}


# Custom authentication decides at the call.
_JUDGED: Final = AccessRule(predicate=lambda context: context.user.is_authenticated)


def caller(call: ToolCall) -> Any:
    """Return the caller as ``request.auth``: an ``auth`` that admits every authenticated user."""
    return call.context.user if call.context.user.is_authenticated else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Endpoint:
    """An operation at one URL, for one of its methods."""

    route: Route
    operation: Operation
    method: str

    @property
    def name(self) -> str:
        """The operation's id if given, else the namespaces and its function's name."""
        operation = self.operation
        # A default namespace is meaningless.
        unnamed = f"api-{operation.api.version}"
        named = [each for each in self.route.namespaces if each != unnamed]
        own = operation.operation_id or "_".join([*named, operation.view_func.__name__])
        return tool_name(own if len(operation.methods) == 1 else f"{own}_{self.method.lower()}")

    def __str__(self) -> str:
        return f"{self.method} {self.route.template} ({location(self.operation.view_func)})"


def endpoints(urlconf: Any) -> Iterator[Endpoint]:
    """Yield each operation of a URLconf once, for each of its methods."""
    seen = set[int]()
    for route in routes(urlconf):
        # Objects that the callback, or a function it wraps, calls.
        closures = (getattr(each, "__closure__", None) or () for each in wrapped(route.callback))
        contents = [cell.cell_contents for cells in closures for cell in cells]
        for view in [each for each in contents if isinstance(each, PathView)]:
            for operation in view.operations:
                if id(operation) not in seen:
                    seen.add(id(operation))
                    for method in operation.methods:
                        yield Endpoint(route=route, operation=operation, method=method.upper())


class APIDocument(OpenAPISchema):
    """The OpenAPI document of an operation of an API."""

    def get_paths(self) -> dict[str, Any]:
        return {}

    def map(self, endpoint: Endpoint, output_schema: bool) -> MappedOperation:
        """Return a mapped operation. Raises Unmappable, and exceptions of the site's types."""
        details = self.operation_details(endpoint.operation)
        known = {each["name"] for each in details["parameters"] if each["in"] == "path"}
        # Path parameters of the API's mount point, which ninja does not know.
        details["parameters"] += [
            {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
            for name in sorted(endpoint.route.parameters - known)
        ]
        path, method = endpoint.route.template, endpoint.method.lower()
        data = {"openapi": self["openapi"], "components": {"schemas": self.schemas}}
        document = Document({**data, "paths": {path: {method: details}}})
        operation = document.operation(method, path)
        return map_operation(document, operation, output_schema=output_schema)


class NinjaSource(OperationSource[Endpoint]):
    """Tools from operations of django-ninja with a mark, and those that ``operations`` name."""

    known_options = {
        "auth": (str, "the dotted path of a function"),
        "expose": (str, "a string"),
        "operations": (list | tuple | Mapping, "a list of names, or a mapping of them to options"),
        "output_schemas": (bool, "True or False"),
        "prefix": (str, "a string"),
        "urlconf": (str, "the dotted path of a URLconf"),
    }

    lines_in = "operations"
    not_served = "E080", "W083", "Change the operation, or remove it from the tools."
    unused = "W081", "Name operations as manage.py mcp_tools does, without the prefix."
    kept_out = "W082", "To let models call one, name it without *."

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        super().__init__(alias, options)
        auth = options.get("auth")
        self._auth: Callable[[Any], Any] | None = auth and import_string(auth)
        # Callbacks of the tools, to which redirects may lead.
        self._callbacks = set[object]()
        self._has_output: bool = options.get("output_schemas", True)

    def no_tools(self) -> tuple[str, str] | None:
        hint = "Put @mcp_tool on functions of operations, or name them in OPTIONS['operations']."
        return "no operation is marked or named", hint

    def found(self) -> Iterable[Endpoint]:
        return endpoints(self.options.get("urlconf"))

    def options_of(self, operation: Endpoint) -> ToolOptions | None:
        mark, name = options_of(operation.operation.view_func), operation.name
        is_guarded = deals_with_secrets(name, conf.sensitive_names)
        options = self.chosen_by(mark, [name], guarded=is_guarded)
        if operation.operation.deprecated and not any(name in each.used for each in self.lines):
            raise LeftOut("it is deprecated")
        if options is not None:
            self._callbacks.add(operation.route.callback)
        return options

    def name_of(self, operation: Endpoint, options: ToolOptions) -> str:
        return str(self.options.get("prefix", "")) + (options.name or operation.name)

    def build(self, operation: Endpoint, options: ToolOptions, name: str) -> Tool:
        mapped = APIDocument(operation.operation.api, "").map(operation, self._has_output)
        self.note(self.where(operation), mapped.notes)
        function = operation.operation.view_func
        asked = [*operation.operation.auth_callbacks, *filter(None, [self._auth])]
        return self._caller(operation, mapped).tool(
            name,
            options,
            hints=mapped.annotations,
            access=self._access(operation.operation, options),
            conditions=tuple(_LIMITED.get(type(each), (dotted_name(each),))[0] for each in asked),
            non_atomic=frozenset(getattr(function, "_non_atomic_requests", ())),
            source=location(function),
            function=dotted_name(function),
            code=getattr(inspect.unwrap(function), "__code__", None),
        )

    def unmarked(self, operation: Endpoint) -> Tool:
        inner, name = operation.operation, self.name_of(operation, NO_OPTIONS)
        function = inner.view_func
        return self.offer(
            partial(self._build_unmarked, operation, name),
            member_names(function, skip=["request"]),
            name=name,
            description=inner.summary or "",
            annotations=HINTS.get(operation.method.lower(), {}),
            access=_JUDGED if _of_the_site(inner) else self._access(inner, NO_OPTIONS),
            source=location(function),
            function=dotted_name(function),
        )

    def _build_unmarked(self, operation: Endpoint, name: str) -> Tool:
        document = APIDocument(operation.operation.api, "")
        responses = document.operation_details(operation.operation)["responses"]
        refuse_secret_answers(responses, {"schemas": document.schemas})
        return self.build(operation, NO_OPTIONS, name)

    def function_of(self, operation: Endpoint) -> object:
        return operation.operation.view_func

    def where(self, operation: Endpoint) -> str:
        return f"{operation.name} ({operation})"

    def _access(self, operation: Operation, options: ToolOptions) -> AccessRule:
        """Return the access rule; the operation decides at the call. Raises _Unjudged."""
        own = _of_the_site(operation)
        if own and self._auth is None:
            kind = own[0] if isinstance(own[0], type) else type(own[0])
            raise _Unjudged(f"its authentication is custom ({kind.__name__})")
        kinds = {type(each) for each in operation.auth_callbacks}
        _, predicate = _LIMITED.get(kinds.pop(), ("", None)) if len(kinds) == 1 else ("", None)
        return AccessRule.of(options.public, options.permissions, predicate, None, options.scopes)

    def _caller(self, endpoint: Endpoint, mapped: MappedOperation) -> ViewCaller:
        operation = endpoint.operation
        copy = operation.clone()
        copy.api = operation.api
        # A custom session class can be called itself; others are replaced by ``auth``.
        given = self._auth if _of_the_site(operation) else None
        judges: list[Any] = list(operation.auth_callbacks)

        def authenticate(request: InProcessRequest) -> Any:
            """Return ``request.auth`` from the option ``auth``, or from session authentication."""
            if given is not None:
                return given(request.mcp_call)
            found = (each.authenticate(request, None) for each in judges)
            return next(filter(None, found), None)

        def prepare(request: InProcessRequest) -> None:
            if not judges:
                # Over HTTP this is the user of a session, which this request does not have.
                request.user = AnonymousUser()

        copy.auth_callbacks = [authenticate] if judges else copy.auth_callbacks
        return ViewCaller(
            route=endpoint.route,
            method=endpoint.method,
            mapped=mapped,
            urlconf=self.options.get("urlconf"),
            prepare=prepare,
            view=copy.run,
            callbacks=self._callbacks,
        )


def _of_the_site(operation: Operation) -> list[Any]:
    """Return the authentication of an operation that reads credentials other than a session."""
    return [each for each in operation.auth_callbacks if not isinstance(each, _OF_SESSION)]


class _Unjudged(ValueError):
    """Raised if it is not configured how an operation authenticates callers."""

    hint = (
        "Set OPTIONS['auth'] to the dotted path of a function that takes the ToolCall and returns "
        "request.auth, such as mcp_bridge.sources.ninja.caller, which admits authenticated users."
    )

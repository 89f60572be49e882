"""
Operations of django-ninja, which are called as ninja itself calls them, for the caller of a tool.

Of each operation a copy is run (``Operation.clone``), whose authentication is the caller's: the
operations that answer over HTTP are not touched.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.utils.module_loading import import_string
from ninja.operation import Operation
from ninja.security.session import SessionAuth, SessionAuthIsStaff, SessionAuthSuperUser

from mcp_bridge.features import AccessRule, Context, Tool, ToolCall, ToolOptions, dotted_name
from mcp_bridge.features.marks import options_of
from mcp_bridge.sources.base import LeftOut, OperationSource
from mcp_bridge.sources.in_process.calls import InProcessRequest, ViewCaller
from mcp_bridge.sources.mapped import operation_tool
from mcp_bridge.sources.marked import location
from mcp_bridge.sources.ninja.endpoints import APIDocument, Endpoint, endpoints
from mcp_bridge.sources.operations.mapping import HINTS, MappedOperation
from mcp_bridge.sources.secrets import member_names

# Ninja's own, which judge the user of the request alone.
_OF_SESSION: Final = (SessionAuth, SessionAuthSuperUser)


def caller(call: ToolCall) -> Any:
    """Return the caller as ``request.auth``: an ``auth`` that lets every authenticated user in."""
    return call.context.user if call.context.user.is_authenticated else None


class NinjaSource(OperationSource[Endpoint]):
    """
    Tools from operations of django-ninja.

    Those whose function has ``@mcp_tool``, and those that OPTIONS names: ``operations``, a list of
    patterns of names, or a mapping of such patterns to options of ``mcp_tool``. Further options:
    ``auth``, the dotted path of a function that is given the ToolCall and returns what
    ``request.auth`` shall be, or None to refuse; ``expose``, "marked" or "all", in place of the
    setting EXPOSE; ``prefix`` before every name; ``output_schemas`` (True); ``urlconf``.
    """

    known_options = {
        "auth": (str, "the dotted path of a function"),
        "expose": (str, "a string"),
        "operations": (list | tuple | Mapping, "a list of names, or a mapping of them to options"),
        "output_schemas": (bool, "True or False"),
        "prefix": (str, "a string"),
        "urlconf": (str, "the dotted path of a URLconf"),
    }

    lines_in = "operations"
    not_served = "E080", "W083", "Change the operation, or take it out of the tools."
    unused = "W081", "Name operations as manage.py mcp_tools does, without the prefix."
    kept_out = "W082", "Where models are to call one, name it without *."

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        super().__init__(alias, options)
        auth = options.get("auth")
        self._auth: Callable[[Any], Any] | None = auth and import_string(auth)
        # Those of the tools: a redirect may lead there.
        self._callbacks = set[object]()
        self._documents: dict[int, APIDocument] = {}

    def no_tools(self) -> tuple[str, str] | None:
        hint = "Put @mcp_tool on functions of operations, or name them in OPTIONS['operations']."
        return "no operation is marked or named", hint

    def found(self) -> Iterable[Endpoint]:
        return endpoints(self.options.get("urlconf"))

    def options_of(self, operation: Endpoint) -> ToolOptions | None:
        mark, name = options_of(operation.operation.view_func), operation.name
        options = self.chosen_by(mark, [name], guarded=operation.handles_credentials)
        if operation.operation.deprecated and not any(name in each.used for each in self.lines):
            raise LeftOut("it is deprecated")
        return options

    def name_of(self, operation: Endpoint, options: ToolOptions) -> str:
        return str(self.options.get("prefix", "")) + (options.name or operation.name)

    def build(self, operation: Endpoint, options: ToolOptions, name: str) -> Tool:
        api = operation.operation.api
        document = self._documents.setdefault(id(api), APIDocument(api, ""))
        mapped = document.map(operation, output_schema=self.options.get("output_schemas", True))
        tool = self._made(operation, name, options, mapped)
        self._callbacks.add(operation.route.callback)
        for sentence in mapped.notes:
            self.note(self.where(operation), sentence)
        return tool

    def unmarked(self, operation: Endpoint) -> Tool:
        inner = operation.operation
        function, name = inner.view_func, self.name_of(operation, ToolOptions())

        def build() -> Tool:
            document = APIDocument(inner.api, "")
            if secret := document.secret_answer(operation):
                raise ValueError(f"it returns a secret, {secret!r}: only a mark makes it a tool")
            output_schema = self.options.get("output_schemas", True)
            mapped = document.map(operation, output_schema=output_schema)
            return self._made(operation, name, ToolOptions(), mapped)

        # Authentication of the site's own says at the call whom it lets in.
        own = AccessRule.of(False, (), _is_judged, None, ())
        return self.offer(
            build,
            member_names(function, skip=["request"]),
            name=name,
            description=inner.summary or "",
            annotations=HINTS.get(operation.method.lower(), {}),
            access=own if _of_the_site(inner) else self._access(inner, ToolOptions()),
            source=location(function),
            function=f"{function.__module__}.{function.__qualname__}",
        )

    def function_of(self, operation: Endpoint) -> object:
        return operation.operation.view_func

    def where(self, operation: Endpoint) -> str:
        return f"{operation.name} ({operation})"

    def _made(
        self, endpoint: Endpoint, name: str, options: ToolOptions, mapped: MappedOperation
    ) -> Tool:
        function = endpoint.operation.view_func
        return operation_tool(
            name,
            mapped,
            options,
            invoke=self._caller(endpoint, mapped).invoke,
            hints=mapped.annotations,
            access=self._access(endpoint.operation, options),
            conditions=self._conditions(endpoint.operation),
            target=f"{endpoint.method} {endpoint.route.target}",
            non_atomic=frozenset(getattr(function, "_non_atomic_requests", ())),
            # A view may ask by request.mcp_context.
            may_elicit=True,
            source=location(function),
            function=f"{function.__module__}.{function.__qualname__}",
            code=getattr(inspect.unwrap(function), "__code__", None),
        )

    def _access(self, operation: Operation, options: ToolOptions) -> AccessRule:
        """
        Return who may see an operation; the operation decides at the call in any case.

        Raises _Unjudged where its authentication is the site's own, and nothing says what to do.
        """
        own = _of_the_site(operation)
        if own and self._auth is None:
            kind = own[0] if isinstance(own[0], type) else type(own[0])
            raise _Unjudged(f"its authentication is the site's own ({kind.__name__})")
        predicate: Callable[[Context], object] | None = None
        kinds = {type(each) for each in operation.auth_callbacks}
        if kinds == {SessionAuthSuperUser}:
            predicate = _is_superuser
        elif kinds == {SessionAuthIsStaff}:
            predicate = _is_staff
        return AccessRule.of(options.public, options.permissions, predicate, None, options.scopes)

    def _conditions(self, operation: Operation) -> tuple[str, ...]:
        words: dict[Any, str] = {SessionAuthSuperUser: "superuser", SessionAuthIsStaff: "staff"}
        asked = [*operation.auth_callbacks, *filter(None, [self._auth])]
        return tuple(words.get(type(each)) or dotted_name(each) for each in asked)

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


def _is_superuser(context: Context) -> bool:
    return bool(context.user.is_superuser)


def _is_staff(context: Context) -> bool:
    return bool(context.user.is_staff or context.user.is_superuser)


def _is_judged(context: Context) -> bool:
    return bool(context.user.is_authenticated)


class _Unjudged(ValueError):
    """Nobody has said whom an operation lets in."""

    hint = (
        "Say in OPTIONS['auth'] what request.auth shall be: the dotted path of a function of the "
        "ToolCall, such as mcp_bridge.sources.ninja.caller, which lets every authenticated user in."
    )

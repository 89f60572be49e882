"""
Operations of django-ninja, which are called as ninja itself calls them, for the caller of a tool.

Of each operation a copy is run (``Operation.clone``), whose authentication is the caller's: the
operations that answer over HTTP are not touched.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from django.apps import apps
from django.contrib.auth.models import AnonymousUser
from django.core import checks
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _
from ninja.operation import Operation
from ninja.security.session import SessionAuth, SessionAuthIsStaff, SessionAuthSuperUser

from mcp_bridge.features import (
    AccessRule,
    Candidate,
    Context,
    Tool,
    ToolCall,
    ToolOptions,
    dotted_name,
)
from mcp_bridge.features.marks import options_in, options_of
from mcp_bridge.schemas.adapters import TRANSIENT
from mcp_bridge.sources.base import Source, first_line
from mcp_bridge.sources.in_process.calls import ViewCaller
from mcp_bridge.sources.in_process.requests import InProcessRequest
from mcp_bridge.sources.mapped import operation_tool
from mcp_bridge.sources.marked import is_exposed, location
from mcp_bridge.sources.messages import (
    IllegalName,
    illegal_name,
    no_description,
    not_yet,
    unserved,
)
from mcp_bridge.sources.ninja.endpoints import APIDocument, Endpoint, endpoints
from mcp_bridge.sources.operations.mapping import HINTS, MappedOperation
from mcp_bridge.sources.secrets import member_names

# Ninja's own, which judge the user of the request alone.
_OF_SESSION: Final = (SessionAuth, SessionAuthSuperUser)
# Who may use a candidate that judges its callers itself.
_ITS_OWN: Final = _("its own authentication")
# What to do about authentication of the site's own.
_HOW: Final = (
    "Say in OPTIONS['auth'] what request.auth shall be: the dotted path of a function of the "
    "ToolCall, such as mcp_bridge.sources.ninja.caller, which lets every authenticated user in."
)


def caller(call: ToolCall) -> Any:
    """Return the caller as ``request.auth``: an ``auth`` that lets every authenticated user in."""
    return call.context.user if call.context.user.is_authenticated else None


class NinjaSource(Source):
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

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        super().__init__(alias, options)
        named = options.get("operations", ())
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
        self._others: list[Endpoint] = []

    def tools(self) -> Sequence[Tool]:
        tools, used, self._others = [], set[str](), []
        documents: dict[int, APIDocument] = {}
        left_out: list[str] = []
        self._callbacks.clear()
        for endpoint in endpoints(self.options.get("urlconf")):
            name = endpoint.name
            named = [each for each in self._named if fnmatchcase(name, each)]
            used.update(named)
            if endpoint.handles_credentials:
                # No pattern chooses what logs in or hands out tokens.
                left_out += [name for _ in named[:1] if name not in named]
                named = [each for each in named if each == name]
            options = options_of(endpoint.operation.view_func)
            try:
                # Of an option, that of a later pattern wins, and the mark's own over all.
                for pattern in reversed(named):
                    given = self._named[pattern]
                    options = given if options is None else options.under(given)
            except ValueError as exception:
                self._withhold(endpoint, f"its marks disagree: {exception}")
                continue
            if endpoint.operation.deprecated and not named:
                continue
            if options is None:
                self._others.append(endpoint)
                continue
            if not is_exposed(endpoint.operation.view_func, options):
                continue
            api = endpoint.operation.api
            document = documents.setdefault(id(api), APIDocument(api, ""))
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
        if left_out:
            self.messages.append(
                checks.Warning(
                    f"The patterns of MCP_BRIDGE['SOURCES'][{self.alias!r}] leave out operations "
                    f"that handle credentials: {', '.join(left_out)}.",
                    hint="Where models are to call one, name it without *.",
                    id="mcp_bridge.W082",
                )
            )
        return tools

    def candidates(self) -> Sequence[Candidate]:
        return [self._candidate(each) for each in self._others] if self.exposes_all else []

    def no_tools(self) -> tuple[str, str] | None:
        hint = "Put @mcp_tool on functions of operations, or name them in OPTIONS['operations']."
        return "no operation is marked or named", hint

    def _tool(
        self, endpoint: Endpoint, name: str, options: ToolOptions, document: APIDocument
    ) -> Tool | None:
        """Return the tool of an operation; None where ``messages`` says why there is none."""
        where = f"{name} ({endpoint})"
        try:
            tool, notes = self._made(endpoint, name, options, document)
        except IllegalName as exception:
            self.messages.append(illegal_name(exception))
            return None
        except tuple(TRANSIENT) as exception:
            self.messages.append(not_yet(where, exception))
            return None
        except Exception as exception:
            # Types describe themselves with code of the site's own, which may raise anything.
            hints = [_HOW] if isinstance(exception, _Unjudged) else []
            self._withhold(endpoint, first_line(exception), *hints)
            return None
        self.messages += [
            checks.Warning(
                f"{where}: {note.rstrip('.')}.",
                hint="The tool works without it; describe it in another way in the operation.",
                id="mcp_bridge.W080",
            )
            for note in notes
        ]
        if not str(tool.description).strip():
            self.messages.append(no_description(where))
        return tool

    def _made(
        self, endpoint: Endpoint, name: str, options: ToolOptions, document: APIDocument
    ) -> tuple[Tool, Sequence[str]]:
        """Return the tool of an operation, and what of it no model is told. May raise anything."""
        mapped = document.map(endpoint, output_schema=self.options.get("output_schemas", True))
        function = endpoint.operation.view_func
        tool = operation_tool(
            self.options.get("prefix", "") + (options.name or name),
            mapped,
            options,
            where=str(endpoint),
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
        return tool, mapped.notes

    def _candidate(self, endpoint: Endpoint) -> Candidate:
        operation, name = endpoint.operation, endpoint.name
        function = operation.view_func
        config = apps.get_containing_app_config(function.__module__)
        own = _of_the_site(operation)
        access = None if own else self._access(operation, ToolOptions())

        def build() -> Tool:
            document = APIDocument(operation.api, "")
            if secret := document.secret_answer(endpoint):
                raise ValueError(f"it returns a secret, {secret!r}: only a mark makes it a tool")
            return self._made(endpoint, name, ToolOptions(), document)[0]

        return Candidate(
            name=self.options.get("prefix", "") + name,
            build=build,
            summary=operation.summary,
            app=function.__module__.partition(".")[0] if config is None else config.label,
            annotations=HINTS.get(endpoint.method.lower(), {}),
            who=access.words if access else _ITS_OWN,
            access=access,
            members=member_names(function, skip=["request"]),
            source=location(function),
            function=f"{function.__module__}.{function.__qualname__}",
        )

    def _withhold(
        self,
        endpoint: Endpoint,
        why: str,
        hint: str = "Change the operation, or take it out of the tools.",
    ) -> None:
        text = f"{endpoint.name} ({endpoint}) is not served: {why}."
        module = endpoint.operation.view_func.__module__
        self.messages.append(unserved("E080", "W083", text, hint, module))

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


class _Unjudged(ValueError):
    """Nobody has said whom an operation lets in."""

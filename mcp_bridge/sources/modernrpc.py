"""
Marked procedures of django-modern-rpc's RpcServers.

The servers are found in the URLconf, where their views carry them, or named in OPTIONS["servers"].
Of django-modern-rpc this uses what it documents: an RpcServer's procedures, their wrappers, its
error handler, and RpcRequestContext. Calls do not go through ``ProcedureWrapper.execute``, which
takes a TypeError raised inside a procedure for wrong parameters.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from asgiref.sync import iscoroutinefunction
from django.core import checks
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.module_loading import import_string
from modernrpc import Protocol, RpcRequestContext
from modernrpc.constants import NOT_SET
from modernrpc.core import ProcedureWrapper
from modernrpc.exceptions import AuthenticationError, RPCException, RPCInternalError
from modernrpc.handler import RpcHandler
from modernrpc.server import RpcServer

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ToolError
from mcp_bridge.features.context import Context
from mcp_bridge.features.marks import ToolOptions, options_of
from mcp_bridge.features.tools import AccessRule, Tool, ToolCall
from mcp_bridge.protocol import ProtocolError
from mcp_bridge.schemas import Signature
from mcp_bridge.sources.base import MarkedFunction, Source, first_line, location

_SYSTEM: Final = "system."
# What the large clients accept; a dot only where the site asked for dotted names.
_NAMES: Final = {
    "underscore": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    "dotted": re.compile(r"[A-Za-z0-9_.-]{1,64}"),
}


class ModernRPCSource(Source):
    """
    Tools from RpcServers.

    OPTIONS: ``servers``, a list of dotted paths (default: those in the URLconf), and ``prefix``,
    put before every name.
    """

    def tools(self) -> Sequence[Tool]:
        found, marks = [], 0
        servers = self._servers()
        for server, wrapper in _procedures(servers):
            options = options_of(wrapper.func_or_coro)
            marks += options is not None
            if options is None or not _is_offered(wrapper, options):
                continue
            tool = self._tool(server, wrapper, options)
            if tool is not None:
                found.append(tool)
        if not marks and not self.messages:
            self._nothing(len(servers))
        return found

    def _servers(self) -> list[RpcServer]:
        paths = self.options.get("servers")
        if paths is None:
            return list(dict.fromkeys(_servers_in(get_resolver().url_patterns)))
        if not isinstance(paths, list | tuple):
            self._bad_server(paths, "it is no list of dotted paths")
            return []
        servers = []
        for path in paths:
            try:
                server = import_string(path)
            except Exception as exception:
                self._bad_server(path, first_line(exception))
                continue
            if isinstance(server, RpcServer):
                servers.append(server)
            else:
                self._bad_server(path, f"it is a {type(server).__name__}, not an RpcServer")
        return servers

    def _bad_server(self, path: object, why: str) -> None:
        self.messages.append(
            checks.Error(
                f"MCP_BRIDGE['SOURCES'][{self.alias!r}] names the server {path!r}: {why}.",
                hint="Give the dotted path of a modernrpc.server.RpcServer.",
                id="mcp_bridge.E004",
            )
        )

    def _nothing(self, servers: int) -> None:
        if servers:
            count = f"{servers} RpcServer{'s' * (servers > 1)}"
            why = f"it found {count}, and no procedure of JSON-RPC there is marked"
            hint = "Put @mcp_tool under @server.register_procedure on what models may call."
        elif self.options.get("servers") is None:
            why = "it found no RpcServer in the URLconf"
            hint = (
                'Add a server\'s view to the URLconf, as path("rpc", server.view), or name the '
                'server in SOURCES ("OPTIONS": {"servers": [dotted path]}). Then mark its '
                "procedures with @mcp_tool."
            )
        else:
            why = "its option 'servers' names 0 RpcServers"
            hint = "Name a server there, or take the option away to use those in the URLconf."
        self.messages.append(
            checks.Warning(
                f"MCP_BRIDGE['SOURCES'][{self.alias!r}] has no tools: {why}.",
                hint=hint,
                id="mcp_bridge.W012",
            )
        )

    def _tool(
        self, server: RpcServer, wrapper: ProcedureWrapper, options: ToolOptions
    ) -> Tool | None:
        name = self.options.get("prefix", "") + (options.name or _tool_name(wrapper.name))
        style = conf.TOOL_NAME_STYLE
        if not _NAMES.get(style, _NAMES["underscore"]).fullmatch(name):
            self._illegal_name(name, wrapper)
            return None
        procedure = Procedure(server, wrapper)
        marked = MarkedFunction(
            name=name,
            function=wrapper.func_or_coro,
            options=options,
            invoke=procedure.invoker,
            skip=[wrapper.context_target] if wrapper.context_target else [],
            access=AccessRule.of(options.public, options.permissions, procedure.predicate),
            convert_error=procedure.convert_error,
        )
        return marked.tool(self)

    def _illegal_name(self, name: str, wrapper: ProcedureWrapper) -> None:
        self.messages.append(
            checks.Error(
                f"{name!r} ({location(wrapper.func_or_coro)}) is no name for a tool, so the "
                "procedure is not served.",
                hint="Clients accept 1 to 64 of the characters A-Z a-z 0-9 _ and -: give "
                "mcp_tool(name=...).",
                id="mcp_bridge.E005",
            )
        )


class Procedure:
    """One procedure of one server, as the tool that it becomes sees it."""

    def __init__(self, server: RpcServer, wrapper: ProcedureWrapper) -> None:
        self.server = server
        self.wrapper = wrapper

    @property
    def predicate(self) -> Callable[[Context], Any] | None:
        """The procedure's own ``auth``, or None where it has none."""
        if self.wrapper.auth is NOT_SET or not self.wrapper.auth:
            return None
        return self._is_permitted

    def _is_permitted(self, context: Context) -> Any:
        try:
            result = self.wrapper.check_permissions(context.request)
        except AuthenticationError:
            return False
        # Kept for the call, since RpcRequestContext carries what the predicate answered.
        context.scratch[self] = result
        return result

    def invoker(self, signature: Signature) -> Callable[[ToolCall], Any]:
        """What runs the procedure: a coroutine function where it is one."""
        function = self.wrapper.func_or_coro

        def invoke(call: ToolCall) -> Any:
            positional, keywords = self._arguments(signature, call)
            return function(*positional, **keywords)

        async def ainvoke(call: ToolCall) -> Any:
            return await invoke(call)

        return ainvoke if iscoroutinefunction(function) else invoke

    def _arguments(self, signature: Signature, call: ToolCall) -> tuple[list[Any], dict[str, Any]]:
        values = dict(call.arguments)
        if signature.context:
            values[signature.context] = call.context
        if self.wrapper.context_target:
            values[self.wrapper.context_target] = self._rpc_context(call.context)
        return signature.bind(values)

    def _rpc_context(self, context: Context) -> RpcRequestContext:
        handler = _json_handler(self.server)
        assert handler is not None, "a server without JSON-RPC has no tools"
        granted = context.scratch.get(self, True)
        return RpcRequestContext(
            context.request, self.server, handler, Protocol.JSON_RPC, auth_result=granted
        )

    def convert_error(self, exception: Exception, call: ToolCall) -> Exception:
        """
        The exception to report, after the server's error handler has seen the one raised.

        The text of an RPCException is meant for callers. Of anything else django-modern-rpc makes
        an RPCInternalError with the text of the exception, which is not.
        """
        if isinstance(exception, ToolError | ProtocolError):
            return exception
        reported = exception
        if self.server.error_handler is not None:
            reported = self.server.on_error(exception, self._rpc_context(call.context))
        if type(reported) is RPCInternalError and reported is not exception:
            reported = exception
        if isinstance(reported, RPCException):
            return ToolError(reported.message)
        return reported


def _procedures(
    servers: Iterable[RpcServer],
) -> Iterator[tuple[RpcServer, ProcedureWrapper]]:
    """Every procedure once, also where a sync and an async server share it."""
    seen: set[ProcedureWrapper] = set()
    for server in servers:
        if _json_handler(server) is None:
            continue
        for wrapper in server.procedures.values():
            if wrapper not in seen:
                seen.add(wrapper)
                yield server, wrapper


def _is_offered(wrapper: ProcedureWrapper, options: ToolOptions) -> bool:
    deprecated = options.deprecated or hasattr(wrapper.func_or_coro, "__deprecated__")
    return (
        options.exposed
        and not deprecated
        and wrapper.is_available_in_json_rpc
        and not wrapper.name.startswith(_SYSTEM)
    )


def _tool_name(procedure: str) -> str:
    return procedure if conf.TOOL_NAME_STYLE == "dotted" else procedure.replace(".", "_")


def _json_handler(server: RpcServer) -> RpcHandler[Any] | None:
    handlers = (each for each in server.handlers if each.protocol == Protocol.JSON_RPC)
    return next(handlers, None)


def _servers_in(patterns: Iterable[URLPattern | URLResolver]) -> Iterator[RpcServer]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _servers_in(pattern.url_patterns)
        else:
            yield from _servers_of(pattern.callback)


def _servers_of(view: Any) -> Iterator[RpcServer]:
    """The server that a view carries, under whatever decorators stand around it."""
    while view is not None:
        if isinstance(view, functools.partial):
            yield from (each for each in view.keywords.values() if isinstance(each, RpcServer))
        view = getattr(view, "__wrapped__", None)

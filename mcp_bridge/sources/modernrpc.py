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
from modernrpc.server import RpcServer

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import AccessRule, Context, Tool, ToolCall, ToolOptions
from mcp_bridge.features.marks import options_of
from mcp_bridge.protocol import ProtocolError
from mcp_bridge.schemas import Signature
from mcp_bridge.sources.base import Source, first_line
from mcp_bridge.sources.functions import MarkedFunction, location

# The names that the large clients accept; a dot only where the site asked for dotted names.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class ModernRPCSource(Source):
    """
    Tools from RpcServers.

    OPTIONS: ``servers``, a list of dotted paths (default: those in the URLconf), and ``prefix``,
    put before every name.
    """

    def tools(self) -> Sequence[Tool]:
        servers = self._servers()
        # Each procedure once, also where a synchronous and an asynchronous server share it.
        procedures: dict[ProcedureWrapper, RpcServer] = {}
        for server in servers:
            if Protocol.JSON_RPC in (handler.protocol for handler in server.handlers):
                for wrapper in server.procedures.values():
                    procedures.setdefault(wrapper, server)
        marked = [
            (server, wrapper, options)
            for wrapper, server in procedures.items()
            if (options := options_of(wrapper.func_or_coro)) is not None
        ]
        if not marked and not self.messages:
            self._warn_of_no_tools(len(servers))
        return [
            tool
            for server, wrapper, options in marked
            if options.exposed
            and not options.deprecated
            and not hasattr(wrapper.func_or_coro, "__deprecated__")
            and wrapper.is_available_in_json_rpc
            and not wrapper.name.startswith("system.")
            and (tool := self._tool(server, wrapper, options)) is not None
        ]

    def _servers(self) -> list[RpcServer]:
        paths = self.options.get("servers")
        if paths is None:
            return list(dict.fromkeys(_servers_in(get_resolver().url_patterns)))
        is_list = isinstance(paths, list | tuple)
        servers = []
        for path in paths if is_list else [paths]:
            try:
                if not is_list:
                    raise TypeError("it is no list of dotted paths")
                server = import_string(path)
                if not isinstance(server, RpcServer):
                    raise TypeError(f"it is a {type(server).__name__}, not an RpcServer")
                servers.append(server)
            except Exception as exception:
                self.messages.append(
                    checks.Error(
                        f"MCP_BRIDGE['SOURCES'][{self.alias!r}] names the server {path!r}: "
                        f"{first_line(exception)}.",
                        hint="Give the dotted path of a modernrpc.server.RpcServer.",
                        id="mcp_bridge.E004",
                    )
                )
        return servers

    def _warn_of_no_tools(self, servers: int) -> None:
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
        is_dotted = conf.TOOL_NAME_STYLE == "dotted"
        own = wrapper.name if is_dotted else wrapper.name.replace(".", "_")
        name = self.options.get("prefix", "") + (options.name or own)
        if not _NAME.fullmatch(name) or ("." in name and not is_dotted):
            self.messages.append(
                checks.Error(
                    f"{name!r} ({location(wrapper.func_or_coro)}) is no name for a tool, so the "
                    "procedure is not served.",
                    hint="Clients accept 1 to 64 of the characters A-Z a-z 0-9 _ and -: give "
                    "mcp_tool(name=...).",
                    id="mcp_bridge.E005",
                )
            )
            return None
        return Procedure(name, server, wrapper, options).tool(self)


class Procedure(MarkedFunction):
    """One procedure of one server."""

    def __init__(
        self, name: str, server: RpcServer, wrapper: ProcedureWrapper, options: ToolOptions
    ) -> None:
        super().__init__(name, wrapper.func_or_coro, options)
        self.server = server
        self.wrapper = wrapper
        self.skip = [wrapper.context_target] if wrapper.context_target else []
        is_open = wrapper.auth is NOT_SET or not wrapper.auth
        predicate = None if is_open else self._is_permitted
        self.access = AccessRule.of(options.public, options.permissions, predicate)

    def _is_permitted(self, context: Context) -> object:
        """Return what the procedure's own ``auth`` says."""
        try:
            result: object = self.wrapper.check_permissions(context.request)
        except AuthenticationError:
            return False
        # Kept for the call, since RpcRequestContext carries the result of the predicate.
        context.scratch[self] = result
        return result

    def invoker(
        self, function: Callable[..., Any], signature: Signature
    ) -> Callable[[ToolCall], Any]:
        def invoke(call: ToolCall) -> Any:
            values = dict(call.arguments)
            if signature.context:
                values[signature.context] = call.context
            if self.wrapper.context_target in signature.hidden:
                values[self.wrapper.context_target] = self._rpc_context(call.context)
            if not signature.positional_only:
                return function(**values)
            positional, keywords = signature.bind(values)
            return function(*positional, **keywords)

        async def ainvoke(call: ToolCall) -> object:
            return await invoke(call)

        return ainvoke if iscoroutinefunction(function) else invoke

    def _rpc_context(self, context: Context) -> RpcRequestContext:
        # A server without a handler of JSON-RPC has no tools.
        kind = Protocol.JSON_RPC
        handler = next(each for each in self.server.handlers if each.protocol == kind)
        granted = context.scratch.get(self, True)
        return RpcRequestContext(context.request, self.server, handler, kind, auth_result=granted)

    def convert_error(self, exception: Exception, call: ToolCall) -> Exception:
        if isinstance(exception, ToolError | ProtocolError):
            return exception
        reported = exception
        if self.server.error_handler is not None:
            reported = self.server.on_error(exception, self._rpc_context(call.context))
        if type(reported) is RPCInternalError:
            # What django-modern-rpc makes of any other exception, with its text, which is not
            # meant for callers as that of an RPCException is.
            reported = exception
        return ToolError(reported.message) if isinstance(reported, RPCException) else reported


def _servers_in(patterns: Iterable[URLPattern | URLResolver]) -> Iterator[RpcServer]:
    """Yield the servers whose views are in the URLconf, with any decorators around them."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _servers_in(pattern.url_patterns)
            continue
        view: object = pattern.callback
        while view is not None:
            if isinstance(view, functools.partial):
                yield from (each for each in view.keywords.values() if isinstance(each, RpcServer))
            view = getattr(view, "__wrapped__", None)

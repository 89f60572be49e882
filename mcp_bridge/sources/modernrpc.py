"""
The source of marked procedures of django-modern-rpc's RpcServers.

Calls do not use ``ProcedureWrapper.execute``, which treats a TypeError raised inside a procedure as
wrong parameters.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any, Final

from django.utils.module_loading import import_string
from modernrpc import Protocol, RpcRequestContext
from modernrpc.constants import NOT_SET
from modernrpc.core import ProcedureWrapper
from modernrpc.exceptions import AuthenticationError, RPCException, RPCInternalError
from modernrpc.helpers import ensure_sequence
from modernrpc.server import RpcNamespace, RpcServer

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context, Tool, ToolCall, ToolOptions, dotted_name
from mcp_bridge.features.marks import options_by_namespace, options_of
from mcp_bridge.protocol import ProtocolError
from mcp_bridge.sources.base import first_line, is_exposed, mend_import
from mcp_bridge.sources.in_process.routes import routes, wrapped
from mcp_bridge.sources.marked import MarkedFunction, MarkedSource, location
from mcp_bridge.sources.secrets import member_names

# For hints: the setting for a server without a URL.
NAME_SERVER: Final = (
    'MCP_BRIDGE = {"SOURCES": {"rpc": {"OPTIONS": {"servers": ["library.procedures.server"]}}}}'
)
# Functions marked in tests are registered by those tests.
_OF_TESTS: Final = re.compile(r"(^|\.)(tests?|test_\w+|conftest)(\.|$)")


class ModernRPCSource(MarkedSource):
    """Tools from RpcServers: those in the URLconf, or those that the option ``servers`` names."""

    known_options = {
        "servers": (object, "a list of dotted paths"),
        "prefix": (str, "a string"),
        "expose": (str, "a string"),
    }

    def found(self) -> Iterator[Procedure]:
        shared, prefix = options_by_namespace(), self.options.get("prefix", "")
        for wrapper, server in self._procedures(self._servers()).items():
            if wrapper.name.startswith("system.") or not wrapper.is_available_in_json_rpc:
                continue
            try:
                options = _options_of(wrapper, shared)
            except ValueError as why:
                where, module = where_is(wrapper), wrapper.func_or_coro.__module__
                self.withhold(where, f"its marks conflict: {first_line(why)}", module)
                continue
            is_dotted = conf.TOOL_NAME_STYLE == "dotted"
            own = wrapper.name if is_dotted else wrapper.name.replace(".", "_")
            yield Procedure(prefix + ((options and options.name) or own), server, wrapper, options)

    def unmarked(self, operation: MarkedFunction) -> Tool:
        function = inspect.unwrap(operation.function)
        return self.offer(
            operation.build,
            member_names(operation.function, skip=operation.skip),
            name=operation.name,
            description=(inspect.getdoc(function) or "").partition("\n")[0],
            access=operation.access,
            source=location(function),
            function=dotted_name(function),
        )

    def where(self, operation: MarkedFunction) -> str:
        return where_is(operation.wrapper) if isinstance(operation, Procedure) else str(operation)

    def _procedures(self, servers: Iterable[RpcServer]) -> dict[ProcedureWrapper, RpcServer]:
        """Return each procedure once, even if two servers share it."""
        procedures: dict[ProcedureWrapper, RpcServer] = {}
        for server in servers:
            if Protocol.JSON_RPC in (handler.protocol for handler in server.handlers):
                for wrapper in server.procedures.values():
                    procedures.setdefault(wrapper, server)
        return procedures

    def _servers(self) -> list[RpcServer]:
        paths = self.options.get("servers")
        if paths is None:
            return list(dict.fromkeys(server for server, _ in _served_servers()))
        is_list = isinstance(paths, list | tuple)
        servers = []
        for path in paths if is_list else [paths]:
            try:
                if not is_list:
                    raise TypeError("it is not a list of dotted paths")
                server = import_string(path)
                if not isinstance(server, RpcServer):
                    raise TypeError(f"it is a {type(server).__name__}, not an RpcServer")
                servers.append(server)
            except Exception as exception:
                hint = "Set the dotted path of a modernrpc.server.RpcServer."
                text = f"{self.place} names the server {path!r}: {first_line(exception)}."
                self.report("E004", text, mend_import(exception) or hint)
        return servers

    def no_tools(self) -> tuple[str, str] | None:
        servers, shared = self._servers(), options_by_namespace()
        functions = [each.func_or_coro for each in self._procedures(servers)]
        if any(options_of(each) or each in shared for each in functions):
            # All of them are explicitly not exposed.
            return None
        if servers:
            count = f"{len(servers)} RpcServer{'s' * (len(servers) > 1)}"
            why = f"it found {count}, but no JSON-RPC procedure there is marked"
            hint = "Put @mcp_tool below @server.register_procedure on what models may call."
        elif self.options.get("servers") is None:
            why = "it found no RpcServer in the URLconf"
            hint = (
                "Put @mcp_tool on a function in the module mcp_tools of an app: it needs no "
                f"server. For procedures, name a server: {NAME_SERVER}; or add its view to the "
                'URLconf, as path("rpc", server.view), which also serves its procedures there, '
                "subject only to their `auth`. Then mark procedures with @mcp_tool."
            )
        else:
            why = "its option 'servers' names 0 RpcServers"
            hint = "Name a server there, or remove the option to use those in the URLconf."
        return why, hint


class Procedure(MarkedFunction):
    """One procedure of one server."""

    def __init__(
        self, name: str, server: RpcServer, wrapper: ProcedureWrapper, options: ToolOptions | None
    ) -> None:
        predicate = None if is_open(wrapper) else self._is_permitted
        given = name, wrapper.func_or_coro, options, predicate
        super().__init__(*given, filled=wrapper.context_target or None, fill=self.rpc_context)
        self.server = server
        self.wrapper = wrapper
        if predicate is not None:
            self.conditions = tuple(map(dotted_name, ensure_sequence(wrapper.auth)))

    def _is_permitted(self, context: Context) -> object:
        """Return the result of the procedure's ``auth``."""
        try:
            result: object = self.wrapper.check_permissions(_request_of(context))
        except AuthenticationError:
            return False
        # Stored for the call, since RpcRequestContext contains the predicate's result.
        context.scratch[self] = result
        return result

    def rpc_context(self, context: Context) -> RpcRequestContext:
        """Return the value for the procedure's ``context_target``."""
        # Only servers with a JSON-RPC handler provide tools.
        kind = Protocol.JSON_RPC
        handler = next(each for each in self.server.handlers if each.protocol == kind)
        granted = context.scratch.get(self, True)
        request = _request_of(context)
        return RpcRequestContext(request, self.server, handler, kind, auth_result=granted)

    def convert_error(self, exception: Exception, call: ToolCall) -> Exception:
        if isinstance(exception, ToolError | ProtocolError):
            return exception
        reported = exception
        if self.server.error_handler is not None:
            reported = self.server.on_error(exception, self.rpc_context(call.context))
        if type(reported) is RPCInternalError:
            # django-modern-rpc wraps any other exception with its text, which, unlike that of an
            # RPCException, is not meant for callers.
            reported = exception
        return ToolError(reported.message) if isinstance(reported, RPCException) else reported


def _options_of(wrapper: ProcedureWrapper, shared: Mapping[Any, ToolOptions]) -> ToolOptions | None:
    """Return the options of a procedure's mark, merged with those of its namespace."""
    own, others = options_of(wrapper.func_or_coro), shared.get(wrapper.func_or_coro)
    return own.under(others) if own and others else own or others


def where_is(wrapper: ProcedureWrapper) -> str:
    """Return the name and location of a procedure, for messages."""
    return f"{wrapper.name} ({location(wrapper.func_or_coro)})"


def is_open(wrapper: ProcedureWrapper) -> bool:
    """Return whether neither the procedure nor its server has an ``auth``."""
    return wrapper.auth is NOT_SET or not wrapper.auth


def _served_servers() -> Iterator[tuple[RpcServer, str]]:
    """Yield the servers whose views are in the URLconf, each with its URL pattern."""
    for route in routes(None):
        for view in wrapped(route.callback):
            for each in view.keywords.values() if isinstance(view, functools.partial) else ():
                if isinstance(each, RpcServer):
                    yield each, route.pattern


def served_procedures() -> Iterator[tuple[str, dict[ProcedureWrapper, ToolOptions]]]:
    """Yield the URLs of each server in the URLconf, with its marked procedures."""
    addresses: dict[RpcServer, list[str]] = {}
    shared = options_by_namespace()
    for server, address in _served_servers():
        addresses.setdefault(server, []).append(repr(address))
    for server, served in addresses.items():
        marked: dict[ProcedureWrapper, ToolOptions] = {}
        for each in server.procedures.values():
            # Conflicting marks are reported when the tool is built.
            with suppress(ValueError):
                if options := _options_of(each, shared):
                    marked[each] = options
        yield " and ".join(served), marked


def unregistered() -> list[FunctionType]:
    """Return the marked functions of imported modules that are not registered anywhere."""
    registries: list[RpcServer | RpcNamespace] = [server for server, _ in _served_servers()]
    marked: list[FunctionType] = []
    for name, module in sys.modules.copy().items():
        # Not isinstance(), which would evaluate lazy objects.
        if not issubclass(type(module), ModuleType) or _OF_TESTS.search(name):
            continue
        for value in tuple(object.__getattribute__(module, "__dict__").values()):
            if type(value) is not FunctionType:
                if issubclass(type(value), (RpcServer, RpcNamespace)):
                    registries.append(value)
            elif value.__module__ == name:
                options = options_of(value)
                if options is not None and is_exposed(value, options):
                    marked.append(value)
    wrappers = [each for registry in registries for each in registry.procedures.values()]
    # A function may be registered with decorators or without.
    registered = {id(inspect.unwrap(each.func_or_coro)) for each in wrappers}
    return [each for each in marked if id(inspect.unwrap(each)) not in registered]


def _request_of(context: Context) -> Any:
    """Return the request of a call; for a call in a worker, one that has its user and host."""
    if context.request is not None:
        return context.request
    from mcp_bridge.sources.in_process.calls import InProcessRequest

    return InProcessRequest(context, "POST", "/")

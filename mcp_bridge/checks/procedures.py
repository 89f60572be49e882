"""
Checks of marked functions beside their tools: W033, W034, W035, W039.

The procedures that the URLconf serves as well hold to their own ``auth`` there, and to no mark.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FunctionType
from typing import Any, Final

from django.core import checks

from mcp_bridge.conf import conf
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.discovery import make_source
from mcp_bridge.registry.registry import registry
from mcp_bridge.schemas import Signature
from mcp_bridge.sources import modernrpc
from mcp_bridge.sources.functions import MODULE, FunctionSource
from mcp_bridge.sources.marked import MarkedFunction, location

_CONDITIONS: Final = ("permissions", "scopes", "confirm", "precheck")
NOT_REGISTERED: Final = (
    "is marked and not registered: no server of the URLconf or of a module that is imported has it"
)


def check_procedures(**kwargs: object) -> list[checks.CheckMessage]:
    """Return warnings of procedures that are open beside the endpoint, and of lost marks."""
    unread = _unread_marks()
    found: list[checks.CheckMessage] = [*_beside_the_endpoint()]
    read_elsewhere = [each.function for each in unread]
    found += (
        checks.Warning(
            f"{function.__qualname__} ({location(function)}) {NOT_REGISTERED}. It is no tool.",
            hint="Put @server.register_procedure over @mcp_tool, or move the function to the "
            "module mcp_tools of its app; or take the mark off.",
            id="mcp_bridge.W034",
        )
        for function in lost_marks()
        if function not in read_elsewhere
    )
    if unread:
        where = ", ".join(f"{each.name} ({location(each.function)})" for each in unread)
        message = checks.Warning(
            f"Modules {MODULE} of apps have marks that no source reads: {cut(where, 300)}.",
            hint="Take \"functions\": None out of MCP_BRIDGE['SOURCES']. If they are not to be "
            "tools, name mcp_bridge.W039 in SILENCED_SYSTEM_CHECKS.",
            id="mcp_bridge.W039",
        )
        found.append(message)
    return found


def lost_marks() -> list[FunctionType]:
    """Return the marked functions that are registered nowhere, and that no source has found."""
    lost = modernrpc.unregistered()
    if not lost:
        # Reading the sources takes longer.
        return []
    found = registry.discovered
    codes = {tool.code for tool in found}
    # A source has also found a function if it reports why that cannot be a tool.
    said = "".join(message.msg for message in found.messages)
    return [
        each
        for each in lost
        if getattr(inspect.unwrap(each), "__code__", None) not in codes
        and f"({location(each)})" not in said
    ]


def _beside_the_endpoint() -> Iterator[checks.CheckMessage]:
    """Warn of procedures that are called at addresses of the URLconf where marks do not hold."""
    for addresses, served in modernrpc.served_procedures():
        unguarded, confused = [], []
        for procedure, options in served.items():
            asked = [name for name in _CONDITIONS if getattr(options, name)]
            if asked and modernrpc.is_open(procedure):
                unguarded.append(f"{modernrpc.where_is(procedure)}: {', '.join(asked)}")
            if parameter := _context_of(procedure.func_or_coro):
                confused.append(f"{modernrpc.where_is(procedure)}: {parameter}")
        if unguarded:
            yield checks.Warning(
                f"Whoever reaches {addresses} (URLconf) may call there what marks limit: "
                f"{'; '.join(unguarded)}. These hold at the MCP endpoint alone, and neither the "
                "procedures nor their server have an `auth` of their own.",
                hint="Give auth= to server.register_procedure() or RpcServer(); or take the "
                f"server's view out of the URLconf and name the server: {modernrpc.NAME_SERVER}. "
                "Where middleware or a decorator of the view keeps out who may not call, name "
                "mcp_bridge.W033 in SILENCED_SYSTEM_CHECKS.",
                id="mcp_bridge.W033",
            )
        if confused:
            yield checks.Warning(
                f"At {addresses} (URLconf) callers give the parameter annotated Context "
                f"themselves, as any JSON they like: {'; '.join(confused)}.",
                hint="Take the request from context_target in its place, which both addresses "
                "fill; or take the server's view out of the URLconf and name the server: "
                f"{modernrpc.NAME_SERVER}.",
                id="mcp_bridge.W035",
            )


def _context_of(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that takes the Context, where it must be given."""
    # A signature that cannot be read is reported as such.
    with suppress(Exception):
        name = Signature.of(function).context
        if name and inspect.signature(function).parameters[name].default is inspect.Parameter.empty:
            return name
    return None


def _unread_marks() -> list[MarkedFunction]:
    """Return the marks in modules ``mcp_tools`` of apps, if SOURCES has no source for these."""
    for alias in conf.sources:
        # A source that cannot be made is reported as such.
        with suppress(Exception):
            if isinstance(make_source(alias), FunctionSource):
                return []
    return FunctionSource("functions", {}).found()

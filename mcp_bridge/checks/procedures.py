"""
Checks of marked functions outside their tools: W033, W034, W035, W039.

Procedures that the URLconf also serves are protected there by their ``auth``, not by marks.
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
    "is marked but not registered with any server of the URLconf or of an imported module"
)


def check_procedures(**kwargs: object) -> list[checks.CheckMessage]:
    """Return warnings of procedures exposed outside the endpoint, and of lost marks."""
    unread = _unread_marks()
    found: list[checks.CheckMessage] = [*_beside_the_endpoint()]
    read_elsewhere = [each.function for each in unread]
    found += (
        checks.Warning(
            f"{function.__qualname__} ({location(function)}) {NOT_REGISTERED}. It is not a tool.",
            hint="Put @server.register_procedure above @mcp_tool, move the function to the "
            "module mcp_tools of its app, or remove the mark.",
            id="mcp_bridge.W034",
        )
        for function in lost_marks()
        if function not in read_elsewhere
    )
    if unread:
        where = ", ".join(f"{each.name} ({location(each.function)})" for each in unread)
        message = checks.Warning(
            f"Modules {MODULE} of apps have marks that no source reads: {cut(where, 300)}.",
            hint="Remove \"functions\": None from MCP_BRIDGE['SOURCES']. If they should not be "
            "tools, add mcp_bridge.W039 to SILENCED_SYSTEM_CHECKS.",
            id="mcp_bridge.W039",
        )
        found.append(message)
    return found


def lost_marks() -> list[FunctionType]:
    """Return the marked functions that are not registered, and that sources did not find."""
    lost = modernrpc.unregistered()
    if not lost:
        # Cheaper than reading the sources.
        return []
    found = registry.discovered
    codes = {tool.code for tool in found}
    # A function in a source's message was found too.
    said = "".join(message.msg for message in found.messages)
    return [
        each
        for each in lost
        if getattr(inspect.unwrap(each), "__code__", None) not in codes
        and f"({location(each)})" not in said
    ]


def _beside_the_endpoint() -> Iterator[checks.CheckMessage]:
    """Warn of procedures at URLs where marks do not apply."""
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
                f"Anyone who can reach {addresses} (URLconf) can call there what marks restrict: "
                f"{'; '.join(unguarded)}. Marks apply only to the MCP endpoint, and neither these "
                "procedures nor their server have `auth`.",
                hint="Pass auth= to server.register_procedure() or RpcServer(); or remove the "
                f"server's view from the URLconf and name the server: {modernrpc.NAME_SERVER}. "
                "If middleware or a decorator restricts access to the view, add mcp_bridge.W033 "
                "to SILENCED_SYSTEM_CHECKS.",
                id="mcp_bridge.W033",
            )
        if confused:
            yield checks.Warning(
                f"At {addresses} (URLconf) callers pass the parameter annotated Context "
                f"themselves, as any JSON: {'; '.join(confused)}.",
                hint="Use context_target to receive the request instead, which works at both "
                "addresses; or remove the server's view from the URLconf and name the server: "
                f"{modernrpc.NAME_SERVER}.",
                id="mcp_bridge.W035",
            )


def _context_of(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter for the Context, if it is required."""
    # Unreadable signatures are reported elsewhere.
    with suppress(Exception):
        name = Signature.of(function).context
        if name and inspect.signature(function).parameters[name].default is inspect.Parameter.empty:
            return name
    return None


def _unread_marks() -> list[MarkedFunction]:
    """Return the marks in modules ``mcp_tools`` of apps, if SOURCES lacks a source for them."""
    for alias in conf.sources:
        # Sources that cannot be created are reported elsewhere.
        with suppress(Exception):
            if isinstance(make_source(alias), FunctionSource):
                return []
    return FunctionSource("functions", {}).found()

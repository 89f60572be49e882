"""
Checks of marked functions beside their tools: W033, W034, W035.

The procedures that the URLconf serves as well hold to their own ``auth`` there, and to no mark.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from types import FunctionType
from typing import Any, Final

from django.apps import AppConfig
from django.core import checks

from mcp_bridge.checks.settings import check_settings
from mcp_bridge.registry.registry import registry
from mcp_bridge.schemas import Signature
from mcp_bridge.sources.marked import location
from mcp_bridge.sources.modernrpc import NAME_SERVER, served_procedures, unregistered

_CONDITIONS: Final = ("permissions", "scopes", "confirm", "precheck")
NOT_REGISTERED: Final = (
    "is marked and not registered: no server of the URLconf or of a module that is imported has it"
)


def check_procedures(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: object
) -> list[checks.CheckMessage]:
    """Return warnings of procedures that are open beside the endpoint, and of lost marks."""
    # A wrong setting can stop the sources from being read at all; it is reported by itself.
    return [] if check_settings() else [*_beside_the_endpoint(), *_not_registered()]


def lost_marks() -> list[FunctionType]:
    """Return the marked functions that are registered nowhere, and that no source has found."""
    lost = unregistered()
    # Reading the sources takes longer.
    codes = {tool.code for tool in registry.discovered} if lost else ()
    return [each for each in lost if getattr(inspect.unwrap(each), "__code__", None) not in codes]


def _beside_the_endpoint() -> Iterator[checks.CheckMessage]:
    """Warn of procedures that are called at addresses of the URLconf where marks do not hold."""
    for addresses, served in groupby(served_procedures(), key=attrgetter("addresses")):
        unguarded, confused = [], []
        for procedure in served:
            where = f"{procedure.name} ({location(procedure.function)})"
            asked = [name for name in _CONDITIONS if getattr(procedure.options, name)]
            if asked and procedure.is_open:
                unguarded.append(f"{where}: {', '.join(asked)}")
            if parameter := _context_of(procedure.function):
                confused.append(f"{where}: {parameter}")
        if unguarded:
            yield checks.Warning(
                f"Whoever reaches {addresses} (URLconf) may call there what marks limit: "
                f"{'; '.join(unguarded)}. These hold at the MCP endpoint alone, and neither the "
                "procedures nor their server have an `auth` of their own.",
                hint="Give auth= to server.register_procedure() or RpcServer(); or take the "
                f"server's view out of the URLconf and name the server: {NAME_SERVER}. Where "
                "middleware or a decorator of the view keeps out who may not call, name "
                "mcp_bridge.W033 in SILENCED_SYSTEM_CHECKS.",
                id="mcp_bridge.W033",
            )
        if confused:
            yield checks.Warning(
                f"At {addresses} (URLconf) callers give the parameter annotated Context "
                f"themselves, as any JSON they like: {'; '.join(confused)}.",
                hint="Take the request from context_target in its place, which both addresses "
                "fill; or take the server's view out of the URLconf and name the server: "
                f"{NAME_SERVER}.",
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


def _not_registered() -> Iterator[checks.CheckMessage]:
    for function in lost_marks():
        yield checks.Warning(
            f"{function.__qualname__} ({location(function)}) {NOT_REGISTERED}. It is no tool.",
            hint="Put @server.register_procedure over @mcp_tool, or move the function to the "
            "module mcp_tools of its app; or take the mark off.",
            id="mcp_bridge.W034",
        )

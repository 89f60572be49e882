"""A URLconf with a tool for each kind of hint in the tests, and for random dataclasses."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Optional

from django.urls import include, path
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from tests.schemas.families import families
from tests.schemas.test_agreement import CONFIGURED
from tests.schemas.test_kinds import KINDS

FAMILIES = 200


def taking(name: str, hint: Any) -> Callable[..., Any]:
    """Return a function with two parameters of that hint, the second of them optional."""

    def take(value, other=None):  # type: ignore[no-untyped-def]
        """Take a value."""

    # Not every hint supports the operator |.
    take.__annotations__ = {"value": hint, "other": Optional[hint]}  # noqa: UP045
    take.__name__ = name
    return take


def serve_kinds() -> RpcServer:
    served = RpcServer(register_system_procedures=False)
    groups = {
        "kind": [kind.hint for kind in KINDS],
        "configured": CONFIGURED,
        "family": list(itertools.islice(families(2026), FAMILIES)),
    }
    for group, hints in groups.items():
        for number, hint in enumerate(hints):
            served.register_procedure(mcp_tool(taking(f"{group}_{number}", hint)))
    return served


server = serve_kinds()
urlpatterns = [path("rpc", server.view), path("", include("mcp_bridge.urls"))]

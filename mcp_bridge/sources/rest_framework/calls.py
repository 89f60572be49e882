"""Calls of views of Django REST framework, at their version."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from mcp_bridge.sources.in_process.calls import ACCEPT, ViewCaller
from mcp_bridge.sources.in_process.requests import InProcessRequest
from mcp_bridge.sources.operations.mapping import MappedOperation
from mcp_bridge.sources.rest_framework.access import log_in
from mcp_bridge.sources.rest_framework.endpoints import Endpoint
from mcp_bridge.sources.rest_framework.versions import Version


def view_caller(
    endpoint: Endpoint,
    mapped: MappedOperation,
    version: Version | None,
    urlconf: Any,
    callbacks: Collection[object],
) -> ViewCaller:
    """Return what calls the view of an endpoint; ``callbacks`` are those of the source's tools."""
    fixed: dict[str, str] = {}
    query, accept = "", ACCEPT
    if version is not None:
        if version.in_path:
            fixed[version.in_path] = version.value
        if version.in_query:
            query = f"{version.in_query}={version.value}"
        if version.in_accept:
            accept = f"application/json; {version.in_accept}={version.value}, */*;q=0.1"
    return ViewCaller(
        route=endpoint.route,
        method=endpoint.method,
        mapped=mapped,
        urlconf=urlconf,
        prepare=partial(_prepare, endpoint),
        fixed=fixed,
        query=query,
        accept=accept,
        callbacks=callbacks,
    )


def _prepare(endpoint: Endpoint, request: InProcessRequest) -> None:
    call = request.mcp_call
    log_in(endpoint, request, guarded=call is None or not call.tool.options.scopes)

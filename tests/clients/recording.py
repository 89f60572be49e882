"""A middleware that records each request to the endpoint and its status, as a JSON line."""

from __future__ import annotations

import json
import os
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction


def record(get_response: Any) -> Any:
    """Record requests, on either kind of server."""
    if iscoroutinefunction(get_response):

        async def asynchronous(request: Any) -> Any:
            line = _line(request)
            response = await get_response(request)
            _write(line, response)
            return response

        markcoroutinefunction(asynchronous)
        return asynchronous

    def synchronous(request: Any) -> Any:
        line = _line(request)
        response = get_response(request)
        _write(line, response)
        return response

    return synchronous


record.sync_capable = record.async_capable = True  # type: ignore[attr-defined]


def _line(request: Any) -> dict[str, Any]:
    try:
        message = json.loads(request.body or b"{}")
    except ValueError:
        message = {}
    params = message.get("params") or {} if isinstance(message, dict) else {}
    meta = params.get("_meta") or {}
    modern = "io.modelcontextprotocol/clientCapabilities"
    return {
        "token": request.headers.get("Authorization", "").removeprefix("Bearer "),
        "http": request.method,
        "path": request.path,
        "method": message.get("method") if isinstance(message, dict) else None,
        "tool": params.get("name"),
        "revision": request.headers.get("MCP-Protocol-Version"),
        "capabilities": meta.get(modern, params.get("capabilities")),
        "client": meta.get("io.modelcontextprotocol/clientInfo", params.get("clientInfo")),
        "progress": "progressToken" in meta,
    }


def _write(line: dict[str, Any], response: Any) -> None:
    path = os.environ.get("CLIENTS_LOG")
    if path:
        with open(path, "a") as log:
            log.write(json.dumps({**line, "status": response.status_code}) + "\n")

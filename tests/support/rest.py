"""
REST in place of MCP, for tests that are unaware of it.

With WAY=rest in the environment (``make contract``) calls and lists of clients of the latest
revision go to the addresses of REST, and their problems are read as MCP's errors. Clients of other
revisions, and those that declare capabilities, speak MCP as ever.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from mcp_bridge.protocol import ERRORS_KEY, LATEST, PENDING_KEY, RETRY_KEY
from mcp_bridge.records.rows import writer
from mcp_bridge.testing import MCPClient, MCPError

# The problems that MCP sends as JSON-RPC errors, with their codes.
ERRORS = {
    "invalid_request": -32602,
    "tool_not_found": -32602,
    "unauthenticated": 401,
    "forbidden": 403,
    "rejected": 403,
}


def install() -> None:
    """Send calls and lists over REST."""
    call_tool, list_tools = MCPClient.call_tool, MCPClient.list_tools

    def calling(client: MCPClient, name: Any, arguments: Any = None, **how: Any) -> Any:
        is_plain = isinstance(name, str) and name and "/" not in name and name.isprintable()
        if not is_plain or how or not isinstance(arguments, dict | None) or not speaks(client):
            return call_tool(client, name, arguments, **how)
        return called(client, name, arguments or {})

    def listing(client: MCPClient) -> Any:
        return listed(client) if speaks(client) else list_tools(client)

    MCPClient.call_tool = calling  # type: ignore[method-assign]
    MCPClient.list_tools = listing  # type: ignore[method-assign]


def speaks(client: MCPClient) -> bool:
    """Return whether the client's calls mean the same over REST."""
    return client.revision is LATEST and not client.capabilities and client.path == "/mcp"


def ask(client: MCPClient, verb: str, path: str, body: bytes = b"") -> Any:
    """Return the JSON of a response. Raises MCPError for a problem that is one in MCP."""
    client.response = client.http.generic(
        verb,
        client.path + path,
        body,  # type: ignore[arg-type]
        content_type="application/json",
        headers=client.headers,
    )
    if writer.is_running:
        writer.flush()
    found = json.loads(client.response.content)
    if client.response.status_code >= 400 and found["code"] in ERRORS:
        error = {"code": ERRORS[found["code"]], "message": found["detail"]}
        raise MCPError(error | ({"data": found["data"]} if "data" in found else {}))
    return found


def listed(client: MCPClient) -> list[dict[str, Any]]:
    """Return all tools, from all pages."""
    page = ask(client, "GET", "/tools/list")
    tools: list[dict[str, Any]] = page["tools"]
    while page["nextCursor"] is not None:
        page = ask(client, "GET", f"/tools/list?cursor={page['nextCursor']}")
        tools += page["tools"]
    return tools


def called(client: MCPClient, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a call, or its problem as a result."""
    body = json.dumps(arguments).encode()
    found: dict[str, Any] = ask(client, "POST", f"/tools/{quote(name, safe='')}", body)
    if client.response.status_code == 200:
        return found
    meta: dict[str, Any] = {}
    if "errors" in found:
        meta[ERRORS_KEY] = [
            {"path": each["pointer"], "type": each["type"], "message": each["detail"]}
            for each in found["errors"]
        ]
    if "pending" in found:
        meta[PENDING_KEY] = found["pending"]
    if "Retry-After" in client.response:
        meta[RETRY_KEY] = int(client.response["Retry-After"])
    content = [{"type": "text", "text": found["detail"]}]
    more = {"_meta": meta} if meta else {}
    return {"content": content, "isError": True, "resultType": "complete", **more}

"""A test client for the real view and the real database, in any revision."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from rest_framework.test import APIClient

from mcp_bridge.access.policy import served_host
from mcp_bridge.checks.urls import ADD_ADDRESS, NO_ADDRESS, reachable
from mcp_bridge.protocol import LATEST, REVISIONS
from mcp_bridge.protocol.headers import header_value, parameter_headers
from mcp_bridge.protocol.requests import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    NAMED_BY,
    PROTOCOL_VERSION,
)
from mcp_bridge.protocol.text import cut
from mcp_bridge.records.rows import writer
from mcp_bridge.registry.registry import registry


class MCPError(AssertionError):
    """The server responded with a JSON-RPC error; ``error`` is that object."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error['message']} ({error['code']})")
        self.error = error


class MCPClient:
    """
    A client that speaks MCP to the site's endpoint, without a socket.

    ``user`` makes the calls (None: anonymous), or ``token`` is sent as a bearer token. ``path`` is
    the endpoint (default: from the URLconf), ``capabilities`` are those the client declares, and
    ``host`` is the Host header (default: one of ALLOWED_HOSTS). ``response`` is the last HTTP
    response, ``notifications`` the messages before its result.
    """

    def __init__(
        self,
        *,
        user: Any = None,
        token: str | None = None,
        revision: str = LATEST.version,
        path: str | None = None,
        capabilities: Mapping[str, Any] | None = None,
        host: str | None = None,
    ) -> None:
        # Settings of a previous test, rolled back at its end, must not stay cached.
        registry.forget()
        self.revision = REVISIONS[revision]
        self.path = path or next(iter(reachable()), "")
        if not self.path:
            raise ImproperlyConfigured(f"{NO_ADDRESS}. {ADD_ADDRESS} Or pass the client a path.")
        self.capabilities = dict(capabilities or {})
        self.http = APIClient(SERVER_NAME=host or served_host())
        if user is not None:
            self.http.force_authenticate(user)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.response: Any = None
        self.notifications: list[dict[str, Any]] = []
        self._body = b""
        self._ids = itertools.count(1)

    def list_tools(self) -> list[dict[str, Any]]:
        """Return all tools that the user may see, from all pages."""
        return self.list_all("tools/list", "tools")

    def list_all(self, method: str, member: str) -> list[dict[str, Any]]:
        """Return the entries of all pages of a list, such as "prompts/list" and "prompts"."""
        result = self.post(method)
        found: list[dict[str, Any]] = result[member]
        while "nextCursor" in result:
            result = self.post(method, cursor=result["nextCursor"])
            found += result[member]
        return found

    def read_resource(self, uri: str) -> list[dict[str, Any]]:
        """Return the contents of a resource. Raises MCPError if it cannot be read."""
        contents: list[dict[str, Any]] = self.post("resources/read", uri=uri)["contents"]
        return contents

    def get_prompt(self, name: str, **arguments: str) -> list[dict[str, Any]]:
        """Return the messages of a prompt. Raises MCPError if it cannot be made."""
        found = self.post("prompts/get", name=name, arguments=arguments)
        messages: list[dict[str, Any]] = found["messages"]
        return messages

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: Callable[[dict[str, Any]], object] | None = None,
    ) -> dict[str, Any]:
        """
        Return the CallToolResult of one call. Raises MCPError for a JSON-RPC error.

        ``progress`` is called with the params of each progress notification.
        """
        params: dict[str, Any] = {} if arguments is None else {"arguments": arguments}
        if progress is not None:
            params["_meta"] = {"progressToken": name}
        try:
            return self.post("tools/call", name=name, **params)
        finally:
            for each in self.notifications:
                if progress is not None and each["method"] == "notifications/progress":
                    progress(each["params"])

    def post(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result. Raises MCPError, or AssertionError if the response is not JSON-RPC."""
        message = self.message(method, **params)
        self.send(json.dumps(message).encode(), self.mirrored(message))
        answer = None
        with suppress(ValueError):
            *self.notifications, answer = self.messages()
        if not isinstance(answer, dict) or answer.get("jsonrpc") != "2.0":
            raise AssertionError(
                f"POST {self.path} returned status {self.response.status_code}, not from the MCP "
                f"endpoint: {cut(self._body.decode(errors='replace'), 200)}"
            )
        if "error" in answer:
            raise MCPError(answer["error"])
        assert answer["id"] == message["id"], "the response answers another request"
        result: dict[str, Any] = answer["result"]
        return result

    def messages(self) -> list[Any]:
        """Return the JSON of the last response: one message or batch, or those of its events."""
        if self.response.headers.get("Content-Type") != "text/event-stream":
            return [json.loads(self._body)]
        lines = self._body.splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]

    def message(self, method: str, **params: Any) -> dict[str, Any]:
        """Return a request in the client's revision."""
        if self.revision.modern:
            meta = {
                PROTOCOL_VERSION: self.revision.version,
                CLIENT_INFO: {"name": "mcp_bridge.testing", "version": "1"},
                CLIENT_CAPABILITIES: self.capabilities,
            }
            params["_meta"] = {**meta, **params.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}

    def mirrored(self, message: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers of a request, including those of the tool's parameters."""
        headers = {"MCP-Protocol-Version": self.revision.version}
        if not self.revision.modern:
            return headers
        headers["Mcp-Method"] = message["method"]
        if (named := NAMED_BY.get(message["method"])) in message["params"]:
            name = message["params"][named]
            if isinstance(name, str):
                headers["Mcp-Name"] = header_value(name)
            tool = registry.discovered.tools.get(name) if isinstance(name, str) else None
            if tool is not None:
                given = message["params"].get("arguments") or {}
                headers |= parameter_headers(tool.headers, given)
        return headers

    def send(
        self, body: bytes, headers: Mapping[str, str | None] | None = None, *, verb: str = "POST"
    ) -> Any:
        """Send bytes; headers that are None are omitted. Returns the HTTP response."""
        sent = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **self.headers,
            **(headers or {}),
        }
        self.response = self.http.generic(
            verb,
            self.path,
            body,  # type: ignore[arg-type]
            content_type=sent.pop("Content-Type") or "",
            secure=settings.SECURE_SSL_REDIRECT,
            headers={name: value for name, value in sent.items() if value is not None},
        )
        # Read now, so that a streamed call has ended.
        self._body = self.response.getvalue()
        if writer.is_running:
            # The test may read the records.
            writer.flush()
        return self.response


def text_of(result: Mapping[str, Any]) -> str:
    """Return the text of a CallToolResult with a single text block."""
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])

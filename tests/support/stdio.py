"""
Messages over stdio in place of HTTP, for tests that are unaware of it.

With WAY=stdio in the environment (``make contract``) the requests of ``MCPClient.post`` are
answered as ``manage.py mcp_stdio`` answers them, in the test's own thread.
"""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse

from mcp_bridge.access.policy import LocalRequest
from mcp_bridge.concurrency.places import drive
from mcp_bridge.management.commands.mcp_stdio import handler, view_of
from mcp_bridge.protocol import answer
from mcp_bridge.testing import MCPClient
from mcp_bridge.transports.sessions import Session


def install() -> None:
    """Send the requests of ``MCPClient.post`` over stdio."""
    over_http, post = MCPClient.send, MCPClient.post

    def posting(client: MCPClient, method: str, **params: Any) -> Any:
        vars(client)["is_posting"] = True
        try:
            return post(client, method, **params)
        finally:
            vars(client)["is_posting"] = False

    def send(client: MCPClient, body: bytes, headers: Any = None, **how: Any) -> Any:
        if not vars(client).get("is_posting"):
            return over_http(client, body, headers, **how)
        client.http.generic = lambda *given, **named: answered(client, body)  # type: ignore[method-assign]
        try:
            return over_http(client, body, headers, **how)
        finally:
            del client.http.generic  # type: ignore[attr-defined]

    MCPClient.send = send  # type: ignore[method-assign]
    MCPClient.post = posting  # type: ignore[method-assign]


def answered(client: MCPClient, body: bytes) -> HttpResponse:
    """Return the response line to a message, as an HTTP response."""
    make_view = view_of(None)

    def make() -> LocalRequest:
        request = LocalRequest()
        request.method = "POST"
        if "Authorization" in client.headers:
            request.META["HTTP_AUTHORIZATION"] = client.headers["Authorization"]
        elif (user := client.http.handler._force_user) is not None:
            request._force_auth_user = user  # type: ignore[attr-defined]
        return request

    handle = handler(make_view, make, Session())

    async def in_place(message: Any) -> Any:
        return await handle(message, None)

    info = make_view().get_server().server_info
    reply = drive(answer(body, in_place, server_info=info, assumed=client.revision))
    content = reply.body or b""
    response: Any = HttpResponse(content, status=reply.status, content_type="application/json")
    # As Django's test client has it.
    response.json = lambda: json.loads(content)
    return response  # type: ignore[no-any-return]

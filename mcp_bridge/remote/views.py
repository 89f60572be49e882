"""The pass-through: a whole remote server at an address of this site."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from mcp_bridge.concurrency import places
from mcp_bridge.protocol import Reply, errors, jsonrpc, refuse
from mcp_bridge.protocol.requests import read_message
from mcp_bridge.registry.registry import Snapshot
from mcp_bridge.remote.gateway import gateway_of
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.remote.passing import Passing, as_it_came, unknown_server
from mcp_bridge.server.server import MCPServer
from mcp_bridge.transports import http
from mcp_bridge.views import BridgeView


class RemoteView(BridgeView):
    """
    A remote server for its own clients: POST in both eras, GET and DELETE for legacy sessions.

    Callers need a credential and the permission of the server's row. Only listed headers are
    relayed, and never the caller's credential unless the server's row says so. See
    docs/sources/remote.md.
    """

    http_method_names = ["post", "get", "delete"]

    @places.never_blocks
    def get_server(self) -> MCPServer:
        # Without public tools, callers must have a credential.
        return MCPServer(snapshot=Snapshot([]))

    def post(self, request: HttpRequest, slug: str) -> Any:
        return _response(places.drive(self.reply(request, slug)))

    get = delete = post

    async def reply(self, request: HttpRequest, slug: str) -> Reply:
        """Return the reply to a request."""
        passing: Passing | None = None
        try:
            await places.in_thread()
            self.admit(request)
            passing = self._passing(request, slug)
            stream = http.stream_for(request, self.view_is_async, as_it_came)
            if stream is None:
                return await passing.run()
        except Exception as exception:
            return refuse(exception, None if passing is None else passing.request)
        passing.stream = stream
        return await stream.answer(_replied(passing), getattr(request, "mcp_slot", None))

    def _passing(self, request: HttpRequest, slug: str) -> Passing:
        rows = RemoteServer.objects.filter(slug=slug, enabled=True).prefetch_related("headers")
        server = rows.first()
        if server is None:
            raise unknown_server(slug, self.get_context(request))
        passing = Passing(
            gateway=gateway_of(server), context=self.get_context(request), http=request
        )
        if request.method == "POST":
            http.check_media(request)
            body = http.read_body(request)
            message = jsonrpc.decode(body)
            if isinstance(message, list):
                raise errors.InvalidRequestError(
                    "Invalid request: a batch is not relayed; send one message per POST."
                )
            read = read_message(message, http.headers_of(request.META))
            passing.body, passing.message, passing.request = body, message, read
            if read is not None:
                passing.context = self.get_context(request, read)
        return passing


class AsyncRemoteView(RemoteView):
    """``RemoteView`` for ASGI."""

    async def post(self, request: HttpRequest, slug: str) -> Any:
        return _response(await places.alternate_in_slot(self.reply(request, slug), request))

    get = delete = post


async def _replied(passing: Passing) -> Reply:
    try:
        return await passing.run()
    except Exception as exception:
        return refuse(exception, passing.request)


def _response(reply: Reply) -> HttpResponseBase:
    return http.respond(reply) if reply.events is None else http.streamed(reply)

"""The pass-through: a whole remote server at an address of this site."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from mcp_bridge.concurrency import places
from mcp_bridge.protocol import Reply, refuse
from mcp_bridge.records import recorder
from mcp_bridge.registry.registry import Snapshot
from mcp_bridge.remote import incoming
from mcp_bridge.remote.admission import UnknownServerError, reachable
from mcp_bridge.remote.gateway import gateway_of
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.remote.passing import Passing, as_it_came
from mcp_bridge.server.server import MCPServer
from mcp_bridge.transports import http
from mcp_bridge.views import BridgeView


class RemoteView(BridgeView):
    """
    A remote server for its own clients: POST in both eras, DELETE for legacy sessions.

    Callers need a credential and the permission of the server's row. Only listed headers are
    relayed, and never the caller's credential unless the server's row says so. See
    docs/sources/remote.md.
    """

    # A stream that lasts would keep a worker of the server.
    http_method_names = ["post", "delete"]

    @places.never_blocks
    def get_server(self) -> MCPServer:
        # Without public tools, callers must have a credential.
        return MCPServer(snapshot=Snapshot([]))

    def post(self, request: HttpRequest, slug: str) -> Any:
        return _response(places.drive(self.reply(request, slug)))

    delete = post

    async def reply(self, request: HttpRequest, slug: str) -> Reply:
        """Return the reply to a request, or of its refusal."""
        try:
            await places.in_thread()
            self.admit(request)
            passing = self._passing(request, slug)
        except Exception as exception:
            return refuse(exception)
        passing.stream = stream = http.stream_for(request, self.view_is_async, as_it_came)
        if stream is None:
            return await _replied(passing)
        return await stream.answer(_replied(passing), getattr(request, "mcp_slot", None))

    def _passing(self, request: HttpRequest, slug: str) -> Passing:
        rows = RemoteServer.objects.filter(slug=slug, enabled=True).prefetch_related("headers")
        context = self.get_context(request)
        try:
            # Before the message is read: the answer is the same if it does not exist.
            server = reachable(rows.first(), context)
        except UnknownServerError as error:
            recorder.refuse(error.refusal, slug, None, context, error=error)
            raise
        passing = Passing(
            gateway=gateway_of(server), context=context, http=request, readmit=self._readmit
        )
        if request.method == "POST":
            passing.body, passing.message, passing.request = incoming.read(request)
            if passing.request is not None:
                passing.context = self.get_context(request, passing.request)
        return passing

    def _readmit(self, passing: Passing) -> None:
        """Check the caller of an open stream again. Raises ProtocolError."""
        _, context = self.readmit(passing.http, passing.request)
        reachable(RemoteServer.objects.filter(pk=passing.gateway.server.pk).first(), context)


class AsyncRemoteView(RemoteView):
    """``RemoteView`` for ASGI, with the streams of legacy sessions by GET."""

    http_method_names = ["post", "get", "delete"]

    async def post(self, request: HttpRequest, slug: str) -> Any:
        return _response(await places.alternate_in_slot(self.reply(request, slug), request))

    get = delete = post


async def _replied(passing: Passing) -> Reply:
    try:
        return await passing.run()
    except Exception as exception:
        return refuse(exception, None if passing is None else passing.request)


def _response(reply: Reply) -> HttpResponseBase:
    return http.respond(reply) if reply.events is None else http.streamed(reply)

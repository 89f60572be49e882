"""The endpoint: HTTP to the protocol and back, synchronous and asynchronous."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views import View

from mcp_bridge.access.authentication import authenticate, throttle
from mcp_bridge.audit import recorder
from mcp_bridge.calls.errors import reraise
from mcp_bridge.features import Context
from mcp_bridge.protocol import (
    LATEST,
    Request,
    Result,
    TooManyRequestsError,
    UnauthorizedError,
    aanswer,
    answer,
    pagination,
    refuse,
)
from mcp_bridge.registry.definitions import sent_definition
from mcp_bridge.server.server import MCPServer
from mcp_bridge.server.tools import page
from mcp_bridge.transports import http


class BridgeView(View):
    """
    The base of the views of this app: origin, authentication, server and context.

    Cross-site requests are kept out by the Origin check, by the media type, and by
    authentication that no browser adds on its own; where session cookies are opted in, DRF's
    SessionAuthentication checks CSRF itself.
    """

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponseBase]:
        """Return the view. Raises ImproperlyConfigured where the app is not installed."""
        # Without it there are no checks, and no tables for records and administrators' settings.
        if not apps.is_installed("mcp_bridge"):
            raise ImproperlyConfigured(
                "mcp_bridge is not in INSTALLED_APPS: add it and run `manage.py migrate`."
            )
        view = super().as_view(**initkwargs)
        # What the decorators of these names set; as decorators they would cost every request.
        view.csrf_exempt = True  # type: ignore[attr-defined]
        view.login_required = False  # type: ignore[attr-defined]
        # Under ATOMIC_REQUESTS each call has a transaction of its own (see calls.running):
        # Django's would end in HTML where it cannot begin, and asynchronous views have none.
        view._non_atomic_requests = set(connections)  # type: ignore[attr-defined]
        return view

    def get_server(self) -> MCPServer:
        """Return the server that answers."""
        return MCPServer()

    def get_context(self, request: HttpRequest, message: Request | None = None) -> Context:
        """Return who calls and how, for a message if there is one; an override may use the ORM."""
        return http.context_of(request, message)

    def admit(self, request: HttpRequest) -> MCPServer:
        """Check host, origin, credential and rate; return the server. Raises ProtocolError."""
        try:
            http.check_origin(request)
            server = self.get_server()
            try:
                authenticate(request, anonymous=server.snapshot.has_public)
            finally:
                # Also where the credential is refused, so that nobody tries many.
                throttle(request, self)
        except (UnauthorizedError, TooManyRequestsError) as error:
            recorder.request_refused(error, request)
            raise
        except Exception as exception:
            reraise(exception)
        return server


class MCPView(BridgeView):
    """
    The MCP endpoint under WSGI: one POST, one JSON answer.

    Every other verb is 405 (MCP, "Streamable HTTP"). Every answer to a POST is JSON, whatever the
    bytes. Override ``get_server()`` or ``get_context()`` for an endpoint of your own.
    """

    http_method_names = ["post"]

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            server, body = self.open(request)
        except Exception as exception:
            return http.respond(refuse(exception))

        def handle(message: Request) -> Result:
            return server.handle(message, self.get_context(request, message))

        headers = http.headers_of(request.META)
        return http.respond(answer(body, handle, headers=headers, server_info=server.server_info))

    def open(self, request: HttpRequest) -> tuple[MCPServer, bytes]:
        """Do all that comes before the message is read. Raises ProtocolError."""
        server = self.admit(request)
        http.check_media(request)
        return server, http.read_body(request)


class AsyncMCPView(MCPView):
    """The MCP endpoint under ASGI: coroutine functions run on the event loop itself."""

    async def post(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        try:
            server, body = await sync_to_async(self.open)(request)
        except Exception as exception:
            return http.respond(refuse(exception))
        # A context of one's own may ask the database; the one of this class does not.
        is_own = type(self).get_context is not BridgeView.get_context

        async def handle(message: Request) -> Result:
            if is_own:
                context = await sync_to_async(self.get_context)(request, message)
            else:
                context = self.get_context(request, message)
            return await server.ahandle(message, context)

        headers = http.headers_of(request.META)
        reply = await aanswer(body, handle, headers=headers, server_info=server.server_info)
        return http.respond(reply)


class ToolListView(BridgeView):
    """
    ``GET /mcp/tools/list``: the tools that the caller may use, to look at without a client.

    Takes ``?cursor=``. Answers ``{"tools": […], "nextCursor": string or null}``, with the members
    that the latest revision gives a tool.
    """

    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            server = self.admit(request)
            cursor = request.GET.get("cursor")
            position = None if cursor is None else pagination.position(cursor)
            tools, following = page(server, position, self.get_context(request))
        except Exception as exception:
            reply = refuse(exception)
            # Only to an MCP client does a 200 with an error say something.
            status = HTTPStatus.BAD_REQUEST if reply.status == HTTPStatus.OK else reply.status
            return http.respond(replace(reply, status=status))
        listed = {
            "tools": [sent_definition(tool, LATEST) for tool in tools],
            "nextCursor": following,
        }
        return JsonResponse(listed, headers={"Cache-Control": "private, no-store"})

"""The endpoint: HTTP to the protocol and back, synchronous and asynchronous."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.exceptions import DisallowedHost, ImproperlyConfigured, RequestDataTooBig
from django.db import InterfaceError, OperationalError, connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, UnreadablePostError
from django.views import View

from mcp_bridge.access.authentication import authenticate, throttle
from mcp_bridge.audit import recorder
from mcp_bridge.calls.errors import unavailable
from mcp_bridge.conf import conf
from mcp_bridge.features.context import Context
from mcp_bridge.protocol import (
    LATEST,
    ForbiddenError,
    Headers,
    InvalidRequestError,
    NotAcceptableError,
    PayloadTooLargeError,
    ProtocolError,
    Reply,
    Request,
    Revision,
    TooManyRequestsError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
    aanswer,
    answer,
    internal_error,
    pagination,
    refuse,
)
from mcp_bridge.server.server import MCPServer

logger = logging.getLogger("mcp_bridge.calls")


class BridgeView(View):
    """
    What the views of this app have in common: origin, authentication, server and context.

    Cross-site requests are kept out by the Origin check, by the media type, and by
    authentication that no browser adds on its own; where session cookies are opted in, DRF's
    SessionAuthentication checks CSRF itself.
    """

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponseBase]:
        """Django's. Raises ImproperlyConfigured where the app is not installed."""
        # Without it there are no checks, and no tables for what is recorded and switched off.
        if not apps.is_installed("mcp_bridge"):
            raise ImproperlyConfigured(
                "mcp_bridge is not in INSTALLED_APPS: add it and run `manage.py migrate`."
            )
        view = super().as_view(**initkwargs)
        # What the decorators of these names set; as decorators they would cost every request.
        view.csrf_exempt = True  # type: ignore[attr-defined]
        view.login_required = False  # type: ignore[attr-defined]
        # Under ATOMIC_REQUESTS each call has a transaction of its own (see calls.running): Django's
        # would end in HTML where it cannot begin, and asynchronous views have none.
        view._non_atomic_requests = set(connections)  # type: ignore[attr-defined]
        return view

    def get_server(self) -> MCPServer:
        """The server that answers."""
        return MCPServer()

    def get_context(self, request: HttpRequest, message: Request | None = None) -> Context:
        """Who calls and how, for one message of the request."""
        if message is None:
            return self._context(request, LATEST)
        return self._context(
            request,
            message.revision,
            client_info=message.client_info,
            client_capabilities=message.client_capabilities,
        )

    def _context(self, request: HttpRequest, revision: Revision, **client: Any) -> Context:
        auth = getattr(request, "auth", None)
        return Context(user=request.user, request=request, revision=revision, auth=auth, **client)

    def admit(self, request: HttpRequest) -> MCPServer:
        """
        Check host, origin, credential and rate; returns the server.

        Raises ProtocolError for a request that may not go on.
        """
        try:
            check_origin(request)
            server = self.get_server()
            try:
                authenticate(request, anonymous=server.snapshot.has_public)
            finally:
                # Also where the credential is refused, so that nobody tries many.
                throttle(request, self)
        except (OperationalError, InterfaceError) as exception:
            logger.exception("The database could not be asked")
            raise unavailable() from exception
        except (UnauthorizedError, TooManyRequestsError) as error:
            recorder.request_refused(error, request)
            raise
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
            return respond(refusal(exception))

        def handle(message: Request) -> Any:
            return server.handle(message, self.get_context(request, message))

        return respond(answer(body, handle, headers=Headers.from_environ(request.META)))

    def open(self, request: HttpRequest) -> tuple[MCPServer, bytes]:
        """Everything that comes before the message is read. Raises ProtocolError."""
        server = self.admit(request)
        check_media(request)
        return server, read_body(request)


class AsyncMCPView(MCPView):
    """The MCP endpoint under ASGI: coroutine functions run on the event loop itself."""

    async def post(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        try:
            server, body = await sync_to_async(self.open)(request)
        except Exception as exception:
            return respond(refusal(exception))

        async def handle(message: Request) -> Any:
            return await server.ahandle(message, self.get_context(request, message))

        return respond(await aanswer(body, handle, headers=Headers.from_environ(request.META)))


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
            tools, following = server.page(position, self.get_context(request))
        except Exception as exception:
            reply = refusal(exception)
            # Only to an MCP client does a 200 with an error say something.
            status = HTTPStatus.BAD_REQUEST if reply.status == HTTPStatus.OK else reply.status
            return respond(replace(reply, status=status))
        body = json.dumps(
            {"tools": [tool.definition(LATEST) for tool in tools], "nextCursor": following}
        )
        response = HttpResponse(body, content_type="application/json")
        response["Cache-Control"] = "private, no-store"
        return response


def check_origin(request: HttpRequest) -> None:
    """
    Refuse a host that is not the site's, and an origin that may not call (DNS rebinding).

    No Origin header is fine: browsers send one, other clients do not.
    See MCP, "Streamable HTTP", "Security warning".
    """
    try:
        host = request.get_host()
    except DisallowedHost:
        raise InvalidRequestError("Invalid request: this host is not served here.") from None
    origin = request.META.get("HTTP_ORIGIN")
    if origin is None or origin == f"{request.scheme}://{host}" or origin in conf.ALLOWED_ORIGINS:
        return
    raise ForbiddenError("Forbidden: this origin may not call; the site lists who may.")


def check_media(request: HttpRequest) -> None:
    """Refuse what is not sent as JSON, or a client that does not take JSON."""
    charset = (request.content_params or {}).get("charset", "utf-8")
    if request.content_type != "application/json" or charset.lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaTypeError(
            "Unsupported media type: send Content-Type: application/json, in UTF-8."
        )
    if request.META.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise UnsupportedMediaTypeError(
            "Unsupported content encoding: send the body as it is, without Content-Encoding."
        )
    accept = request.META.get("HTTP_ACCEPT")
    if accept and "application/json" not in accept and not _accepts_json(request):
        raise NotAcceptableError(
            "Not acceptable: the answer is JSON; send Accept: application/json, text/event-stream."
        )


def _accepts_json(request: HttpRequest) -> bool:
    try:
        return request.accepts("application/json")
    except (ValueError, LookupError):
        # Django cannot read every header that a client can send.
        return False


def read_body(request: HttpRequest) -> bytes:
    """The body, read no further than MAX_BODY_BYTES."""
    limit = conf.MAX_BODY_BYTES
    try:
        declared = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise InvalidRequestError("Invalid request: Content-Length is not a number.") from None
    if declared > limit:
        raise _too_large(limit)
    try:
        body = request.read(limit + 1)
    except (UnreadablePostError, RequestDataTooBig, OSError):
        raise InvalidRequestError("Invalid request: the body could not be read.") from None
    if len(body) > limit:
        raise _too_large(limit)
    if len(body) < declared:
        raise InvalidRequestError("Invalid request: the body is shorter than Content-Length says.")
    # A procedure may look at request.body, which Django refuses once the stream was read.
    request._body = body
    return body


def _too_large(limit: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"Request too large: a body has at most {limit} bytes.")


def refusal(exception: Exception) -> Reply:
    """The reply to a request that did not get as far as its message."""
    return refuse(
        exception if isinstance(exception, ProtocolError) else internal_error("The request")
    )


def respond(reply: Reply) -> HttpResponse:
    """A reply as Django's response."""
    response = HttpResponse(
        reply.body or b"",
        status=reply.status,
        content_type="application/json",
        headers=reply.headers,
    )
    if reply.body is None:
        del response["Content-Type"]
    return response

"""The endpoint: HTTP to the protocol and back, synchronous and asynchronous."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import DisallowedHost, ImproperlyConfigured, SuspiciousOperation
from django.db import connections
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
    JsonResponse,
)
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.urls import Resolver404, resolve
from django.utils.decorators import method_decorator
from django.views import View

from mcp_bridge.access.authentication import admission_blocks, authenticate, throttle
from mcp_bridge.access.scopes import TOOLSET, metadata_url, resource_metadata
from mcp_bridge.calls.errors import reraise
from mcp_bridge.concurrency import places
from mcp_bridge.conf import conf, imported
from mcp_bridge.features import Context
from mcp_bridge.protocol import Reply, Request, Result, answer, errors, refuse
from mcp_bridge.records import recorder
from mcp_bridge.server.server import MCPServer
from mcp_bridge.transports import http, rest

# The header that selects a toolset, for clients that cannot change the URL; as in META.
# Its name does not begin with Mcp-, which is reserved for the specification.
_TOOLSET: Final = "HTTP_X_MCP_TOOLSET"
# The session of a legacy client, which few sites ask.
_SESSION: Final = "mcp_bridge.transports.sessions.RequestSession"
# Bodies above this many bytes are parsed in a thread, to keep the event loop free.
_LARGE: Final = 64 * 1024
# The refusals of requests that are recorded.
_RECORDED: Final = (errors.UnauthorizedError, errors.TooManyRequestsError, errors.UnavailableError)


class BridgeView(View):
    """
    The base of the views of this app: origin, authentication, server and context.

    ``toolset`` is the name in TOOLSETS of the toolset that is served; if it is None, the client may
    choose one with the header X-MCP-Toolset. Cross-site requests are blocked by Origin, media type
    and credentials that browsers do not add; for sessions, DRF checks CSRF itself.
    """

    toolset: str | None = None

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponseBase]:
        """Return the view. Raises ImproperlyConfigured if ``toolset`` is not in TOOLSETS."""
        named = initkwargs.get("toolset")
        if named is not None and named not in conf.toolsets:
            raise ImproperlyConfigured(
                f"as_view(toolset={named!r}): MCP_BRIDGE['TOOLSETS'] does not name this toolset."
            )
        view = super().as_view(**initkwargs)
        # Set directly what the decorators would set, to avoid a wrapper per request.
        view.csrf_exempt = True  # type: ignore[attr-defined]
        view.login_required = False  # type: ignore[attr-defined]
        # Under ATOMIC_REQUESTS each call has its own transaction (see calls.running): if Django's
        # cannot begin, the response is HTML, and asynchronous views do not get one.
        view._non_atomic_requests = set(connections)  # type: ignore[attr-defined]
        return view

    @places.never_blocks
    def get_server(self) -> MCPServer:
        """Return the server that answers the request."""
        return MCPServer()

    @places.never_blocks
    def get_context(self, request: HttpRequest, message: Request | None = None) -> Context:
        """Return the context of a request or one of its messages; an override may use the ORM."""
        return http.context_of(request, message)

    @places.never_blocks
    def admit(self, request: HttpRequest, server: MCPServer | None = None) -> MCPServer:
        """Check host, origin, credential and rate; return the server. Raises ProtocolError."""
        try:
            http.check_origin(request)
            http.check_form(request)
            if self.toolset is not None:
                setattr(request, TOOLSET, self.toolset)
            server = server or self.get_server()
            # Most sites do not define toolsets; their requests skip the choice.
            has_toolsets = conf.toolsets or _TOOLSET in request.META
            is_known = not has_toolsets or self._choose_toolset(request, server)
            try:
                anonymous = conf.allow_anonymous and server.snapshot.has_public
                authenticate(request, anonymous=anonymous)
            finally:
                # Also if the credential is refused, so that guesses are limited.
                throttle(request, self)
            if not is_known:
                raise self._unknown_toolset(request, server)
        except _RECORDED as error:
            recorder.request_refused(error, request)
            raise
        except Exception as exception:
            reraise(exception)
        return server

    def readmit(self, request: HttpRequest, message: Request | None) -> tuple[MCPServer, Context]:
        """Admit a request that is still open once more. Raises ProtocolError."""
        if hasattr(request, "session"):
            # As Django's middleware does.
            request.session = type(request.session)(request.session.session_key)
            request.user = get_user(request)
        return self.admit(request), self.get_context(request, message)

    def count(self, request: HttpRequest) -> None:
        """Count a further message of the request as a request. Raises ProtocolError."""
        try:
            throttle(request, self)
        except _RECORDED as error:
            recorder.request_refused(error, request)
            raise

    def _choose_toolset(self, request: HttpRequest, server: MCPServer) -> bool:
        """Select the request's toolset on the server; return False if it is unknown."""
        asked = request.META[_TOOLSET].strip(" \t") if _TOOLSET in request.META else self.toolset
        return self.toolset in (None, asked) and server.choose(asked)

    def _unknown_toolset(
        self, request: HttpRequest, server: MCPServer
    ) -> errors.InvalidRequestError:
        if self.toolset is not None:
            advice = f"this address serves {self.toolset!r}: leave the header X-MCP-Toolset out."
        elif names := server.usable_toolsets(self.get_context(request)):
            advice = f"send X-MCP-Toolset with one of {', '.join(names)}, or leave it out."
        else:
            advice = "leave the header X-MCP-Toolset out."
        return errors.InvalidRequestError(f"Unknown toolset: {advice}")


class MCPView(BridgeView):
    """
    The MCP endpoint under WSGI: one POST, one JSON response, for any bytes.

    A browser's GET returns a page on how to connect, from the template mcp_bridge/endpoint.html.
    Any other request is 405 (MCP, "Streamable HTTP") with a readable sentence: refused clients try
    the GET of the old transport and show the response. Override ``get_server()`` or
    ``get_context()`` to customise the endpoint.
    """

    http_method_names = ["post"]
    # Whether a response may last as long as its client wants.
    has_streams = False
    # Whether requests without a progress token may have notifications before their responses, too.
    always_notifies = False

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        reply = places.drive(self.reply(request))
        return http.respond(reply) if reply.events is None else http.streamed(reply)

    async def reply(self, request: HttpRequest, server: MCPServer | None = None) -> Reply:
        """Return the reply to a request; ``server`` is the one that answers, if already known."""
        try:
            server, body = self.open(request, server)
        except Exception as exception:
            # Refusals are recorded.
            await places.in_thread()
            return refuse(exception)
        if len(body) > _LARGE:
            await places.in_thread()
        known = server
        # Whether it has streams is seldom asked.
        known.request = request if self.has_streams else None
        session = imported(_SESSION)(request) if conf.LEGACY_ASK else None
        # Most requests do not ask for notifications, and are not streamed.
        is_asked = b'"progressToken"' in body or b'"subscriptions/listen"' in body
        is_asked = is_asked or self.always_notifies or (session is not None and session.may_ask)
        stream = http.stream_for(request, self.view_is_async) if is_asked else None
        if stream is not None:
            stream.readmit = partial(self.readmit, request)

        async def handle(message: Request) -> Result:
            if message.number and message.id is not None:
                await places.in_thread()
                self.count(request)
            context = self.get_context(request, message)
            if stream is not None and message.number is None:
                vars(context)["stream"] = stream
            if session is None or message.revision.modern:
                return await known.handle(message, context)
            if message.method != "initialize":
                await session.join(context)
                return await known.handle(message, context)
            result = await known.handle(message, context)
            if message.id is not None:
                session.begin(message, known.asked_capabilities)
            return result

        headers, info = http.headers_of(request.META), server.server_info
        take = None if session is None else session.take
        work = answer(body, handle, headers=headers, server_info=info, take=take)
        if stream is not None:
            work = stream.answer(work, getattr(request, "mcp_slot", None))
        reply = await work
        return reply if session is None else session.add_to(reply)

    def http_method_not_allowed(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponse | Awaitable[HttpResponse]:
        if self.toolset is not None:
            setattr(request, TOOLSET, self.toolset)
        is_end = request.method == "DELETE" and conf.LEGACY_ASK
        function = self.end_session if is_end else self.explain
        return sync_to_async(function)(request) if self.view_is_async else function(request)

    def end_session(self, request: HttpRequest) -> HttpResponse:
        """End the session of a legacy client (MCP 2025-11-25, "Session management")."""
        try:
            self.admit(request)
            imported(_SESSION)(request).end()
        except Exception as exception:
            return http.respond(refuse(exception))
        return HttpResponse(status=HTTPStatus.NO_CONTENT)

    def explain(self, request: HttpRequest) -> HttpResponse:
        """Return the page of the endpoint for a browser's GET, and 405 for any other request."""
        is_read = request.method in ("GET", "HEAD")
        if is_read and "text/html" in request.META.get("HTTP_ACCEPT", ""):
            with suppress(TemplateDoesNotExist):  # Not every site has templates.
                page = get_template("mcp_bridge/endpoint.html")
                headers = {"Cache-Control": "private, no-store", "X-Frame-Options": "DENY"}
                return HttpResponse(page.render({"request": request}, request), headers=headers)
        where = metadata_url(request)
        how = (
            f"must log in, as {where} describes."
            if where
            else "must send a credential in the Authorization header, such as: Bearer TOKEN."
        )
        text = f"This MCP endpoint accepts only POST. A client that was refused with 401 {how}\n"
        methods = ["POST", "DELETE"] if conf.LEGACY_ASK else ["POST"]
        return HttpResponseNotAllowed(methods, text, content_type="text/plain; charset=utf-8")

    @places.never_blocks
    def open(
        self, request: HttpRequest, server: MCPServer | None = None
    ) -> tuple[MCPServer, bytes]:
        """Run all steps before the message is parsed. Raises ProtocolError."""
        server = self.admit(request) if server is None else self.admit(request, server)
        http.check_media(request)
        return server, http.read_body(request)


class AsyncMCPView(MCPView):
    """The MCP endpoint under ASGI; coroutine functions run on the event loop."""

    has_streams = True

    async def post(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        reply = await self.reply_in_slot(request)
        return http.respond(reply) if reply.events is None else http.streamed(reply)

    async def reply_in_slot(self, request: HttpRequest) -> Reply:
        """Return the reply to a request, after waiting for a request slot of the process."""
        try:
            return await places.alternate_in_slot(self.reply(request), request)
        except Exception as exception:
            return refuse(exception)

    async def reply(self, request: HttpRequest, server: MCPServer | None = None) -> Reply:
        server = self._known_server(request)
        if server is None:
            await places.in_thread()
        return await super().reply(request, server)

    def _known_server(self, request: HttpRequest) -> MCPServer | None:
        """Return the server if the request can be admitted without a thread, else None."""
        own = (self.admit, self.open, self.get_server, self.get_context)
        if places.may_block(*own) or admission_blocks(request):
            return None
        server = MCPServer.known()
        # Refusals are recorded, which needs a thread.
        if server is None or not (conf.allow_anonymous and server.snapshot.has_public):
            return None
        return server if self._choose_toolset(request, server) else None


def undecorated(callback: object) -> type[MCPView] | None:
    """Return an endpoint's class, or None if it is decorated or overrides how a View responds."""
    kind = vars(callback).get("view_class")
    if not (isinstance(kind, type) and issubclass(kind, MCPView)):
        return None
    is_own = kind.dispatch is not View.dispatch or kind.setup is not View.setup
    is_own |= kind.post not in (MCPView.post, AsyncMCPView.post)
    return None if is_own or hasattr(callback, "__wrapped__") else kind


def endpoint_above(request: HttpRequest) -> MCPView | None:
    """Return the view of the endpoint whose REST address is requested, if it can be asked."""
    address, _, _ = request.path_info.rpartition("/tools/")
    try:
        found = resolve(address, getattr(request, "urlconf", None)).func
    except Resolver404:
        return None
    kind = undecorated(found)
    if kind is None:
        return None
    view = kind(**vars(found)["view_initkwargs"])
    view.setup(request)
    return view


class _RESTView(BridgeView):
    """
    The base of the views for clients that do not speak MCP; their errors are problems (RFC 9457).

    They admit requests as the endpoint above their address does, and respond 404 if the setting
    REST is off, or if they would bypass code of the site there. A view implements ``respond``,
    which runs in the thread of the request and may raise ProtocolError.
    """

    endpoint: MCPView | None = None

    @places.never_blocks
    def admit(self, request: HttpRequest, server: MCPServer | None = None) -> MCPServer:
        assert self.endpoint is not None
        return self.endpoint.admit(request)

    @places.never_blocks
    def get_context(self, request: HttpRequest, message: Request | None = None) -> Context:
        assert self.endpoint is not None
        return self.endpoint.get_context(request, message)

    async def respond(self, request: HttpRequest, **named: str) -> HttpResponseBase:
        """Return the response to a request of an allowed method."""
        raise NotImplementedError

    async def reply(self, request: HttpRequest, **named: str) -> HttpResponseBase:
        """Return the response to a request; any exception but Http404 becomes a problem."""
        self.endpoint = endpoint_above(request) if conf.REST else None
        if self.endpoint is None:
            raise Http404
        methods = [each.upper() for each in self.http_method_names]
        if request.method not in methods:
            return rest.not_allowed(methods)
        try:
            try:
                await places.in_thread()
                return await self.respond(request, **named)
            except SuspiciousOperation as exception:
                # Such as a query with too many parameters.
                raise errors.InvalidRequestError(f"Invalid request: {exception}") from exception
            except Exception as exception:
                reraise(exception)
        except Exception as exception:
            return rest.refuse(exception)

    def get(self, request: HttpRequest, *args: Any, **named: str) -> Any:
        return places.drive(self.reply(request, **named))

    post = http_method_not_allowed = get


class _AsyncRESTView(_RESTView):
    """A view for ASGI; shares the endpoint's request slots."""

    async def get(self, request: HttpRequest, *args: Any, **named: str) -> Any:
        return await places.alternate_in_slot(self.reply(request, **named), request)

    post = http_method_not_allowed = get


class ToolListView(_RESTView):
    """
    ``GET /mcp/tools/list``: the tools that the caller may use.

    Takes ``?cursor=``. Returns ``{"tools": […], "nextCursor": string or null}``, with the members
    that tools have in the latest revision.
    """

    http_method_names = ["get", "head"]

    async def respond(self, request: HttpRequest, **named: str) -> HttpResponseBase:
        server = self.admit(request)
        found = await server.list_tools(request.GET.dict(), self.get_context(request))
        following = json.dumps(found.next_cursor).encode()
        parts = (b'{"tools":', found.array, b',"nextCursor":', following, b"}")
        return rest.cacheable(request, parts)


class ToolDescriptionView(_RESTView):
    """``GET /mcp/tools/describe?name=``: one tool, as the list has it, as ``{"tool": {…}}``."""

    http_method_names = ["get", "head"]

    async def respond(self, request: HttpRequest, **named: str) -> HttpResponseBase:
        server = self.admit(request)
        if "name" not in request.GET:
            return rest.problem("missing_parameter", "Send the name of a tool as ?name=.")
        tool = await server.describe(request.GET["name"], self.get_context(request))
        return rest.cacheable(request, (b'{"tool":', tool, b"}"))


class ToolCallView(_RESTView):
    """
    ``POST /mcp/tools/NAME``: call a tool, with its arguments as the body.

    The response is the CallToolResult of the latest revision, or a problem if the call failed. A
    JSON-RPC request that calls the tool is answered as by the endpoint.
    """

    http_method_names = ["post"]

    async def respond(self, request: HttpRequest, **named: str) -> HttpResponseBase:
        assert self.endpoint is not None
        server, body = self.endpoint.open(request)
        call = rest.read_call(body, named["name"])
        if call is not None:
            context = self.get_context(request, call)
            result = await server.handle(call, context)
            return rest.respond(result, context.scratch.get("error_code", ""))

        async def handle(message: Request) -> Result:
            return await server.handle(message, self.get_context(request, message))

        headers, info = http.headers_of(request.META), server.server_info
        return http.respond(await answer(body, handle, headers=headers, server_info=info))


class AsyncToolListView(_AsyncRESTView, ToolListView):
    """``ToolListView`` for ASGI."""


class AsyncToolDescriptionView(_AsyncRESTView, ToolDescriptionView):
    """``ToolDescriptionView`` for ASGI."""


class AsyncToolCallView(_AsyncRESTView, ToolCallView):
    """``ToolCallView`` for ASGI."""


@method_decorator(login_not_required, name="dispatch")
class ResourceMetadataView(View):
    """
    The metadata of the endpoint as an OAuth 2.0 protected resource (RFC 9728, section 3).

    It lists the authorization servers, for clients without a credential. The endpoint's address is
    the setting RESOURCE, never taken from the request, and toolsets are below it. Responds 404 for
    any other path, and if RESOURCE or AUTHORIZATION_SERVERS is not set.
    """

    http_method_names = ["get", "head", "options"]

    def get(self, request: HttpRequest, path: str = "") -> HttpResponse:
        try:
            request.get_host()
        except DisallowedHost:
            # Django would respond with an HTML page.
            return HttpResponse("This host is not served here.", "text/plain", status=400)
        for resource in conf.resources.values() if conf.AUTHORIZATION_SERVERS else ():
            if path.strip("/") in ("", urlsplit(resource).path.strip("/")):
                break
        else:
            raise Http404
        # Clients in browsers read it from other origins.
        headers = {
            "Access-Control-Allow-Origin": "*",
            "Cache-Control": f"public, max-age={conf.CACHE_TTL}",
        }
        return JsonResponse(resource_metadata(resource), headers=headers)

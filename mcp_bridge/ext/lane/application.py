"""
The direct lane: serve the endpoint's URL under ASGI without Django's handler and middleware.

    application = MCPApplication(get_asgi_application())

See docs/operate/direct-lane.md for the features that it omits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from io import BytesIO
from typing import ClassVar, Final, TypeAlias

from asgiref.sync import sync_to_async
from django.conf import settings
from django.conf.urls.i18n import is_language_prefix_patterns_used
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.signals import request_finished, request_started
from django.urls import ResolverMatch, set_script_prefix
from django.utils import translation
from django.utils.log import log_response
from django.utils.module_loading import import_string
from rest_framework.authentication import SessionAuthentication

from mcp_bridge.checks.urls import ADD_ADDRESS, NO_ADDRESS, reachable
from mcp_bridge.conf import conf
from mcp_bridge.ext.lane.requests import LaneRequest, others_listen
from mcp_bridge.ext.lane.threads import RequestThreads
from mcp_bridge.protocol import errors, refuse
from mcp_bridge.records import rows
from mcp_bridge.transports import asgi
from mcp_bridge.transports.asgi import Application, Receive, Scope, Send
from mcp_bridge.transports.http import UNREADABLE, respond
from mcp_bridge.views import AsyncMCPView, MCPView, undecorated

__all__ = ["MCPApplication"]

# The factory of the view, and Django's match of its URL.
Served: TypeAlias = tuple[Callable[[], AsyncMCPView], ResolverMatch]
# The headers that determine a client's language.
_LANGUAGE: Final = ("HTTP_ACCEPT_LANGUAGE", "HTTP_COOKIE")


class MCPApplication:
    """
    An ASGI application that answers calls of the MCP endpoint, and passes all else to Django.

    ``application`` is Django's, possibly wrapped by the site. It serves the endpoint's URLs in the
    URLconf, or only ``path``, as in the URLconf ("/mcp"). Views that are decorated or override how
    a View responds are left to Django. Raises ImproperlyConfigured if no URL remains, or if a class
    of AUTHENTICATION_CLASSES needs middleware.
    """

    # Functions without parameters, called when the server stops.
    at_shutdown: ClassVar[Sequence[Callable[[], object]]] = (rows.close,)

    def __init__(self, application: Application, path: str | None = None) -> None:
        self.application = application
        self.threads = RequestThreads()
        # Read by manage.py mcp_doctor.
        self.mcp_served = _served(path)
        for name in conf.AUTHENTICATION_CLASSES:
            if issubclass(import_string(name), SessionAuthentication):
                raise ImproperlyConfigured(
                    f"MCPApplication runs without middleware and sessions: {name} in "
                    "MCP_BRIDGE['AUTHENTICATION_CLASSES'] cannot authenticate anyone. Remove it "
                    "from the setting, or serve the site with Django's application only."
                )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        served = request = None
        if scope["type"] == "http" and scope["method"] == "POST":
            served = self.mcp_served.get(scope["path"].removeprefix(get_script_prefix(scope)))
            request = served and self.make_request(scope)
        if served is None or request is None:
            await self.application(scope, receive, send)
            return
        declared = request.META.get("CONTENT_LENGTH", "")
        try:
            # An invalid number is refused when the body is read.
            length = int(declared[:18]) if declared.isdecimal() else 0
            body, is_whole = await asgi.read_body(receive, length, conf.MAX_BODY_BYTES)
        except asgi.ClientDisconnected:
            # Some servers report a disconnect for invalid chunks while the client is still there.
            with suppress(OSError):
                await asgi.send_reply(send, refuse(errors.InvalidRequestError(UNREADABLE)))
            return
        request._stream = BytesIO(body)
        thread = self.threads.lend()
        try:
            responding = self._respond(served, request, send)
            # If the request was refused for its body, the rest of it is not received.
            await (asgi.unless_disconnected(receive, responding) if is_whole else responding)
        finally:
            self.threads.take_back(thread)

    def make_request(self, scope: Scope) -> ASGIRequest | None:
        """Return Django's request, without its body yet; None if Django must refuse it."""
        try:
            return LaneRequest(scope, BytesIO())
        except UnicodeDecodeError:
            return None

    async def _respond(self, served: Served, request: ASGIRequest, send: Send) -> None:
        kind, request.resolver_match = served
        sender = type(self)
        if others_listen(request_started, sender):
            await request_started.asend(sender=sender, scope=request.scope)
        try:
            if request.script_name:
                set_script_prefix(request.script_name)
            view = kind()
            view.setup(request, **request.resolver_match.kwargs)
            if any(map(request.META.get, _LANGUAGE)):
                # As in LocaleMiddleware.
                in_path, _ = is_language_prefix_patterns_used(settings.ROOT_URLCONF)
                asked = translation.get_language_from_request(request, check_path=in_path)
                with translation.override(asked):
                    request.LANGUAGE_CODE = translation.get_language()
                    reply = await view.reply_in_slot(request)
            else:
                reply = await view.reply_in_slot(request)
            if reply.status >= HTTPStatus.BAD_REQUEST:
                # As in Django's handler.
                answer, about = respond(reply), request.path
                log = partial(log_response, "%s: %s", response=answer, request=request)
                await sync_to_async(log, thread_sensitive=False)(answer.reason_phrase, about)
            await asgi.send_reply(send, reply)
        finally:
            if others_listen(request_finished, sender):
                await request_finished.asend(sender=sender)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the server's startup and shutdown, which Django's application does not."""

        async def received() -> asgi.Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                for function in self.at_shutdown:
                    await sync_to_async(function, thread_sensitive=False)()
                self.threads.stop()
            return message

        if not isinstance(self.application, ASGIHandler):
            await self.application(scope, received, send)
            return
        kind = ""
        while kind != "lifespan.shutdown":
            kind = (await received())["type"]
            await send({"type": f"{kind}.complete"})


def _served(path: str | None) -> dict[str, Served]:
    """Return the served views by their URL in the URLconf."""
    addresses = reachable()
    if not addresses:
        raise ImproperlyConfigured(f"{NO_ADDRESS}. {ADD_ADDRESS}")
    if path is not None and path not in addresses:
        raise ImproperlyConfigured(
            f"MCPApplication(path={path!r}): the URLconf does not serve the MCP endpoint there, "
            f"but at {', '.join(addresses)}: use one of these, or omit path to serve all of them."
        )
    found: dict[str, Served] = {
        address: (partial(kind, **vars(match.func)["view_initkwargs"]), match)
        for address, match in addresses.items()
        if path in (None, address) and (kind := _direct(match.func)) is not None
    }
    if not found:
        raise ImproperlyConfigured(
            "MCPApplication cannot serve the MCP endpoint's view, which is decorated or overrides "
            "dispatch(), setup() or post(): these would be bypassed. Override get_server(), "
            "get_context(), admit() or open() instead, or serve the site with Django's application "
            "only."
        )
    return found


def _direct(callback: Callable[..., object]) -> type[AsyncMCPView] | None:
    """Return the asynchronous class of a view, or None if it is decorated or overridden."""
    kind = undecorated(callback)
    if kind is None or issubclass(kind, AsyncMCPView):
        return kind
    bases = (AsyncMCPView,) if kind is MCPView else (kind, AsyncMCPView)
    return type(kind.__name__, bases, {"__doc__": kind.__doc__})

"""A middleware that refuses a forged ``Host`` in JSON before other middleware reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.urls import Resolver404, resolve

from mcp_bridge.protocol import errors, refuse
from mcp_bridge.transports import http
from mcp_bridge.views import BridgeView, ResourceMetadataView


class HostMiddleware:
    """
    Middleware that refuses hosts not in ALLOWED_HOSTS at the endpoint's URLs.

    Put it first in MIDDLEWARE: if CommonMiddleware or another one reads the host before the view,
    Django answers with an HTML page. The site's subclasses of these views are covered too.
    """

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        response = _refused(request)
        if response is None:
            return self.get_response(request)  # type: ignore[no-any-return]
        return _awaited(response) if self._is_async else response


async def _awaited(response: HttpResponseBase) -> HttpResponseBase:
    return response


def _refused(request: HttpRequest) -> HttpResponseBase | None:
    """Return the response to a host that is not allowed, at a URL of the endpoint, or None."""
    try:
        http.host_of(request)
    except errors.InvalidRequestError as error:
        try:
            view: type = getattr(resolve(request.path_info).func, "view_class", object)
        except Resolver404:
            return None
        # The view itself is not run, since a custom one may not check the host.
        if issubclass(view, BridgeView):
            return http.respond(refuse(error))
        if issubclass(view, ResourceMetadataView):
            return ResourceMetadataView().get(request)
    return None

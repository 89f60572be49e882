"""A middleware by which a forged ``Host`` is answered in JSON before another one asks for it."""

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
    Answers for the addresses of the endpoint where ALLOWED_HOSTS does not name the host.

    First in MIDDLEWARE: where CommonMiddleware or another one asks for the host before the view
    does, Django answers with a page. Views of a site's own that derive from these are known too.
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
    """Return the answer to a host that is not the site's, at an address of the endpoint."""
    try:
        http.host_of(request)
    except errors.InvalidRequestError as error:
        try:
            view: type = getattr(resolve(request.path_info).func, "view_class", object)
        except Resolver404:
            return None
        # The view itself is not run: one of the site's own need not look at the host.
        if issubclass(view, BridgeView):
            return http.respond(refuse(error))
        if issubclass(view, ResourceMetadataView):
            return ResourceMetadataView().get(request)
    return None

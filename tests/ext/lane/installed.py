"""The direct lane instead of Django's handler for test clients."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test.client import AsyncClientHandler, ClientHandler

from mcp_bridge.ext.lane import MCPApplication
from tests.support.lane import scope_of


class Lane(MCPApplication):
    """The direct lane, whose request takes over attributes of the test client's request."""

    original: Any = None
    made: Any = None

    def make_request(self, scope: Any) -> Any:
        request = super().make_request(scope)
        for name, value in vars(self.original).items():
            if name.startswith(("_force_auth", "_dont_enforce")):
                setattr(request, name, value)
        self.made = request
        return request


async def answer(lane: Lane, request: HttpRequest) -> HttpResponse:
    """Return the direct lane's response to the request of a test client."""
    lane.original = request
    events = [{"type": "http.request", "body": request.read()}]
    sent: list[Any] = []

    async def receive() -> Any:
        if events:
            return events.pop()
        return await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent.append(message)

    await lane(scope_of(request), receive, send)
    if hasattr(lane.made, "user"):
        # Some tests inspect the request that the test client has made.
        request.user = lane.made.user
    start, *rest = sent
    response = HttpResponse(b"".join(each["body"] for each in rest), status=start["status"])
    del response["Content-Type"]
    for name, value in start["headers"]:
        response[name.decode()] = value.decode("latin-1")
    return response


def lane_for(request: HttpRequest) -> Lane | None:
    """Return the direct lane if it serves the request."""
    try:
        lane = Lane(get_asgi_application())
    except ImproperlyConfigured:
        return None
    return lane if request.method == "POST" and request.path_info in lane.mcp_served else None


def install() -> None:
    """Have every test client go the direct lane."""
    get_response, get_response_async = (
        ClientHandler.get_response,
        AsyncClientHandler.get_response_async,
    )

    def respond(self: Any, request: HttpRequest) -> Any:
        lane = lane_for(request)
        if lane is None:
            return get_response(self, request)
        return async_to_sync(answer)(lane, request)

    async def arespond(self: Any, request: HttpRequest) -> Any:
        lane = lane_for(request)
        if lane is None:
            return await get_response_async(self, request)
        return await answer(lane, request)

    ClientHandler.get_response = respond
    AsyncClientHandler.get_response_async = arespond

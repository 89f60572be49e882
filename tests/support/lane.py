"""
The direct lane in the place of Django's handler, for tests that know nothing of it.

With LANE=1 in the environment (``make lane``) each POST of a test client to the endpoint goes this
way, and so do the ASGI applications of ``tests.support.asgi``.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test.client import AsyncClientHandler, ClientHandler

from mcp_bridge.ext.lane import MCPApplication

IS_ON = "LANE" in os.environ
# Tests of what only WSGI or only Django's handler has.
ELSEWHERE = {
    # Streams that break off or read no further: test_direct_lane has those of ASGI.
    "test_body_that_says_it_is_too_long_is_not_read",
    "test_body_that_breaks_off_is_refused",
    "test_body_in_chunks_is_read_to_its_limit",
    # The thread of a request under WSGI, and Django's handler where a coroutine ends more.
    "test_nothing_that_a_tool_raises_ends_the_thread_of_its_request",
    # Two threads of requests at once, which a SQLite database in memory cannot serve.
    "test_calls_wait_for_each_other_on_one_event_loop",
    # What the site's middleware does, and what mcp_doctor says of it.
    "test_a_middleware_is_in_the_way",
    "test_the_origin_is_compared_with_the_host_that_a_middleware_says",
    "test_middlewares_attributes_and_a_few_headers_reach_the_view",
    "test_body_read_and_not_kept_is_named",
    # Counts Python's calls, those of an event loop among them.
    "test_a_hidden_tool_takes_the_work_of_an_unknown_name",
    # Counts the modules of a call, those that make the lane for each request of a test among them.
    "test_a_call_goes_through_few_modules",
}


def application() -> Any:
    """The site under ASGI: Django's application, or the direct lane around it."""
    django = get_asgi_application()
    return MCPApplication(django) if IS_ON else django


class Lane(MCPApplication):
    """The direct lane, whose request is what a test client has made of its own."""

    original: Any = None
    made: Any = None

    def make_request(self, scope: Any) -> Any:
        request = super().make_request(scope)
        for name, value in vars(self.original).items():
            if name.startswith(("_force_auth", "_dont_enforce")):
                setattr(request, name, value)
        self.made = request
        return request


def scope_of(request: HttpRequest) -> dict[str, Any]:
    """The scope that an ASGI server would make of a request."""
    sent = {
        name.removeprefix("HTTP_"): value
        for name, value in request.META.items()
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH") and value != ""
    }
    return {
        "type": "http",
        "method": request.method,
        "path": request.path,
        "root_path": request.META.get("SCRIPT_NAME", ""),
        "query_string": request.META.get("QUERY_STRING", "").encode("latin-1"),
        "scheme": request.scheme,
        "client": (request.META.get("REMOTE_ADDR", "127.0.0.1"), 50000),
        "server": (request.META["SERVER_NAME"], int(request.META["SERVER_PORT"])),
        "headers": [
            (name.lower().replace("_", "-").encode(), encoded(str(value)))
            for name, value in sent.items()
        ],
    }


def encoded(value: str) -> bytes:
    """The bytes of a header, which a server reads as Latin-1 whatever a client has meant."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()


async def answer(lane: Lane, request: HttpRequest) -> HttpResponse:
    """What the direct lane answers to the request of a test client."""
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
        # Some look at the request that the test client has made.
        request.user = lane.made.user
    start, *rest = sent
    response = HttpResponse(b"".join(each["body"] for each in rest), status=start["status"])
    del response["Content-Type"]
    for name, value in start["headers"]:
        response[name.decode()] = value.decode("latin-1")
    return response


def lane_for(request: HttpRequest) -> Lane | None:
    """The direct lane, where it answers to a request."""
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

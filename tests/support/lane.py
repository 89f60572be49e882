"""
The direct lane in place of Django's handler, for tests that are unaware of it.

With WAY=lane in the environment (``make contract``) each POST of a test client to the endpoint goes
this way, and so do the ASGI applications of ``tests.support.asgi``.
"""

from __future__ import annotations

import os
from typing import Any

from django.core.asgi import get_asgi_application
from django.http import HttpRequest

IS_ON = os.environ.get("WAY") == "lane"
# Tests of features that only WSGI or only Django's handler has.
ELSEWHERE = {
    # Streams that break off or read no further: test_direct_lane has those of ASGI.
    "test_oversized_body_is_not_read",
    "test_interrupted_body_is_refused",
    "test_body_in_chunks_is_read_to_its_limit",
    # The thread of a request under WSGI, and Django's handler: a coroutine ends more there.
    "test_nothing_that_a_tool_raises_ends_the_thread_of_its_request",
    # Two threads of requests at once, which a SQLite database in memory cannot serve.
    "test_calls_can_wait_for_each_other_on_one_loop",
    # The site's middleware, and the findings of mcp_doctor on it.
    "test_a_middleware_is_in_the_way",
    "test_origin_is_compared_with_the_middlewares_host",
    "test_middlewares_attributes_and_a_few_headers_reach_the_view",
    "test_body_read_but_not_kept_is_named",
    "test_what_raises_is_named_if_it_is_the_sites",
    "test_an_answer_before_the_endpoint_is_shown",
    # Counts Python's calls, those of an event loop among them.
    "test_hidden_tool_takes_the_work_of_an_unknown_name",
    # Counts the modules of a call, those that make the lane for each request of a test among them.
    "test_call_passes_few_modules",
}


def application() -> Any:
    """Return the site under ASGI: Django's application, or the direct lane around it."""
    django = get_asgi_application()
    if not IS_ON:
        return django
    from mcp_bridge.ext.lane import MCPApplication

    return MCPApplication(django)


def scope_of(request: HttpRequest) -> dict[str, Any]:
    """Return the scope that an ASGI server would make of a request."""
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
    """Return the bytes of a header, which a server reads as Latin-1 in any case."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()

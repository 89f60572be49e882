"""
The direct lane in the place of Django's handler, for tests that know nothing of it.

With WAY=lane in the environment (``make contract``) each POST of a test client to the endpoint goes
this way, and so do the ASGI applications of ``tests.support.asgi``.
"""

from __future__ import annotations

import os
from typing import Any

from django.core.asgi import get_asgi_application
from django.http import HttpRequest

IS_ON = os.environ.get("WAY") == "lane"
# Tests of what only WSGI or only Django's handler has.
ELSEWHERE = {
    # Streams that break off or read no further: test_direct_lane has those of ASGI.
    "test_body_that_says_it_is_too_long_is_not_read",
    "test_body_that_breaks_off_is_refused",
    "test_body_in_chunks_is_read_to_its_limit",
    # The thread of a request under WSGI, and Django's handler where a coroutine ends more.
    "test_base_exceptions_of_tools_do_not_end_threads",
    # Two threads of requests at once, which a SQLite database in memory cannot serve.
    "test_calls_wait_for_each_other_on_one_event_loop",
    # What the site's middleware does, and what mcp_doctor says of it.
    "test_blocking_middleware_is_a_finding",
    "test_the_origin_is_compared_with_the_host_that_a_middleware_says",
    "test_middlewares_attributes_and_a_few_headers_reach_the_view",
    "test_body_read_and_not_kept_is_named",
    "test_raising_code_of_the_site_is_named",
    "test_answer_of_a_middleware_is_shown",
    # Counts Python's calls, those of an event loop among them.
    "test_a_hidden_tool_takes_the_work_of_an_unknown_name",
    # Counts the modules of a call, those that make the lane for each request of a test among them.
    "test_call_passes_few_modules",
}


def application() -> Any:
    """The site under ASGI: Django's application, or the direct lane around it."""
    django = get_asgi_application()
    if not IS_ON:
        return django
    from mcp_bridge.ext.lane import MCPApplication

    return MCPApplication(django)


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

"""
Count the function calls of requests to the site of ``benchmarks.site.settings``, in this process.

Only this thread is counted, so that it matters not when another one writes the records; and nothing
that imports do, which depends on caches of bytecode.
"""

from __future__ import annotations

import gc
import io
import json
import os
import statistics
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from benchmarks import tools
from benchmarks.wire import META, REVISION, WrongAnswerError

Figures = dict[str, int]
# Calls before those that count, and how many count.
WARM_UP: Final = 3
TIMES: Final = 5
IMPORTING: Final = "<frozen importlib"


class Site:
    """The site under WSGI, without a server."""

    def __init__(self) -> None:
        from django.core.wsgi import get_wsgi_application
        from django.urls import get_resolver

        self.application = get_wsgi_application()
        assert get_resolver().url_patterns
        self.token = os.environ["BENCHMARK_TOKEN"]

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        body = json.dumps(message).encode()
        named = {"HTTP_MCP_NAME": params["name"]} if "name" in params else {}
        if os.environ["BENCHMARK_MODE"] != "anonymous":
            named["HTTP_AUTHORIZATION"] = f"Bearer {self.token}"
        return {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/mcp",
            "SCRIPT_NAME": "",
            "QUERY_STRING": "",
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "127.0.0.1",
            "HTTP_ACCEPT": "application/json, text/event-stream",
            "HTTP_MCP_PROTOCOL_VERSION": REVISION,
            "HTTP_MCP_METHOD": method,
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.url_scheme": "http",
            **named,
        }

    def count(self, method: str, **params: Any) -> int:
        """Make one request; returns how many functions were called for it."""
        environ = self.request(method, **params)
        said: list[str] = []
        answer: list[bytes] = []

        def ask() -> None:
            response = self.application(environ, lambda status, headers: said.append(status))
            answer.append(b"".join(response))
            response.close()

        called = count(ask)
        if said != ["200 OK"] or b'"result"' not in answer[0] or b'"isError":true' in answer[0]:
            raise WrongAnswerError(f"{method} {params}: {said} {answer[0][:500]!r}")
        return called

    def usual(self, method: str, **params: Any) -> int:
        """The calls of a request that is one of many."""
        for _ in range(WARM_UP):
            self.count(method, **params)
        return round(statistics.median(self.count(method, **params) for _ in range(TIMES)))

    def call(self, name: str) -> int:
        return self.usual("tools/call", name=name, arguments=tools.ARGUMENTS[name])


def count(function: Callable[[], None]) -> int:
    """How many functions are called, those of C included."""
    called = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal called
        if event in ("call", "c_call") and not frame.f_code.co_filename.startswith(IMPORTING):
            called += 1

    # A collection would call what it ends, whenever it comes.
    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return called


def start(site: Site) -> Figures:
    before = len(sys.modules)
    site.count("tools/call", name="add", arguments=tools.ARGUMENTS["add"])
    return {
        "modules imported before the first request": before,
        "modules imported at the first answer": len(sys.modules),
    }


def building(site: Site) -> Figures:
    first = site.count("tools/call", name="add", arguments=tools.ARGUMENTS["add"])
    return {
        "100 tools, to the first answer": first,
        "list of 100, the first": site.count("tools/list"),
        "list of 100, once more": site.usual("tools/list"),
    }


def calls(site: Site) -> Figures:
    return {"add": site.call("add"), "echo": site.call("echo")}


def unrecorded(site: Site) -> Figures:
    return {"add, AUDIT = None": site.call("add")}


def token(site: Site) -> Figures:
    return {"add with a token": site.call("add"), "acting tool with a token": site.call("note")}


def permissions(site: Site) -> Figures:
    return {"list of 1,000 by permission": site.usual("tools/list")}


SCRIPTS: Final = {
    each.__name__: each for each in (start, building, calls, unrecorded, token, permissions)
}


def main() -> None:
    print(json.dumps(SCRIPTS[sys.argv[1]](Site())))


if __name__ == "__main__":
    main()

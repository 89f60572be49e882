"""
Count the function calls of requests to the site of ``benchmarks.site.settings``, in this process.

Only the threads that answer are counted, so that it matters not when another one writes the
records; nothing that imports do, which depends on caches of bytecode; and nothing that an event
loop does by itself, which depends on time.
"""

from __future__ import annotations

import asyncio
import gc
import io
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import FrameType, coroutine
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
        name = params.get("name") or params.get("uri")
        named = {"HTTP_MCP_NAME": name} if name else {}
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


class Lane(Site):
    """The direct lane in front of the site, without a server."""

    def __init__(self) -> None:
        from benchmarks.site.lane import application
        from mcp_bridge.records import rows

        self.application = application
        self.write_records = rows.flush
        self.token = os.environ["BENCHMARK_TOKEN"]
        self.loop = asyncio.new_event_loop()
        self.in_thread = Calls()
        threading.setprofile(self.begin_thread)

    def begin_thread(self, *event: object) -> None:
        """Count what a thread of requests does, from its first call on; no other thread."""
        is_counted = threading.current_thread().name.startswith("mcp_bridge_")
        sys.setprofile(self.in_thread.note if is_counted else None)

    def count(self, method: str, **params: Any) -> int:
        environ = self.request(method, **params)
        headers = [
            (name.removeprefix("HTTP_").replace("_", "-").lower().encode(), value.encode())
            for name, value in environ.items()
            if name.startswith(("HTTP_", "CONTENT_"))
        ]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 80),
        }
        received = [{"type": "http.request", "body": environ["wsgi.input"].read()}]
        sent: list[Any] = []

        async def receive() -> Any:
            return received.pop() if received else await self.loop.create_future()

        async def send(message: Any) -> None:
            sent.append(message)

        # The first record that waits has the thread that writes them woken.
        self.write_records()
        calls, before = Calls(), self.in_thread.count
        with undisturbed():
            work = self.application(scope, receive, send)
            self.loop.run_until_complete(counted(work, calls))
            self.wait_for_thread()
        answer = sent[1]["body"]
        if sent[0]["status"] != 200 or b'"isError":false' not in answer:
            raise WrongAnswerError(f"{method} {params}: {sent[0]} {answer[:500]!r}")
        return calls.count + self.in_thread.count - before

    def wait_for_thread(self) -> None:
        """Wait until the thread has done what it does after its answer."""
        seen = -1
        while seen != self.in_thread.count:
            seen = self.in_thread.count
            time.sleep(0.01)


class Calls:
    """How many functions were called, those of C included."""

    count = 0

    def note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call") and not frame.f_code.co_filename.startswith(IMPORTING):
            self.count += 1


@coroutine
def counted(work: Coroutine[Any, Any, None], calls: Calls) -> Generator[Any, Any, None]:
    """Await a coroutine, and count what it calls itself."""
    value = None
    while True:
        sys.setprofile(calls.note)
        try:
            wanted = work.send(value)
        except StopIteration:
            return
        finally:
            sys.setprofile(None)
        value = yield wanted


@contextmanager
def undisturbed() -> Generator[None]:
    """Collect no garbage: that would call what it ends, whenever it comes."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def count(function: Callable[[], None]) -> int:
    """How many functions are called."""
    calls = Calls()
    with undisturbed():
        sys.setprofile(calls.note)
        try:
            function()
        finally:
            sys.setprofile(None)
    return calls.count


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


def lane(site: Site) -> Figures:
    return {"add on the direct lane": site.call("add")}


def lane_async(site: Site) -> Figures:
    return {"add on the direct lane, async def": site.call("add")}


SCRIPTS: Final = {
    each.__name__: each
    for each in (start, building, calls, unrecorded, token, permissions, lane, lane_async)
}


def main() -> None:
    site = Lane() if os.environ["BENCHMARK_SITE"] == "lane" else Site()
    print(json.dumps(SCRIPTS[sys.argv[1]](site)))


if __name__ == "__main__":
    main()

"""
``python -m benchmarks.remote [PYTHON]``: what a call of a remote tool costs.

The remote server is the official one, in a process of its own. In each round the same tool is
called by our client alone, as the tool, and as a whole request to the view, in turns; the
differences are made round by round. Then the list of 500 remote tools is timed beside that of 500
tools of the site, and a call while the breaker is open. With the PYTHON of an environment that has
fastmcp, its proxy is called beside the site, both over HTTP.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

CALLS: Final = 100
ROUNDS: Final = 9
TOOLS: Final = 500
ARGUMENTS: Final = {"a": 1, "b": 2}
PROXY: Final = """
import sys
from fastmcp.server import create_proxy
create_proxy(sys.argv[1]).run(
    transport="http",
    port=int(sys.argv[2]),
    show_banner=False,
    log_level="error",
    stateless_http=True,
)
"""


def serve(descriptor: str) -> None:
    """Run the remote server on a listening socket, until standard input ends."""
    import threading

    import uvicorn
    from mcp.server.mcpserver import MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("sums", log_level="ERROR")

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    server.tool(name="act", description="Add two numbers, which may change something.")(add)
    for number in range(TOOLS - 2):
        server.tool(name=f"add_{number}", description="Add two numbers, in another way.")(add)
    app = server.streamable_http_app(json_response=True, stateless_http=True)
    running = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))

    def stop() -> None:
        sys.stdin.read()
        running.should_exit = True

    threading.Thread(target=stop, daemon=True).start()
    running.run(sockets=[socket.socket(fileno=int(descriptor))])


@contextmanager
def upstream() -> Iterator[str]:
    """The URL of a remote server in another process."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        command = [sys.executable, "-m", "benchmarks.remote", "serve", str(bound.fileno())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[bound.fileno()]) as process:
            assert process.stdin is not None
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
            process.stdin.close()


def begin(bridge: dict[str, Any], database: Path | dict[str, Any]) -> None:
    """
    Make the newsroom in this process, with other settings of the bridge and a database.

    ``database`` is the path of an SQLite file, or Django's settings of another one.
    """
    import django
    from django.conf import settings
    from django.core.management import call_command

    from testproject import settings as newsroom

    names = (each for each in dir(newsroom) if each.isupper())
    sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": database}
    # As in the benchmark of the site's own tools.
    file = {**(sqlite if isinstance(database, Path) else database), "CONN_MAX_AGE": None}
    settings.configure(
        **{name: getattr(newsroom, name) for name in names}
        | {"MCP_BRIDGE": bridge, "DATABASES": {"default": file}}
    )
    django.setup()
    call_command("migrate", verbosity=0)


def set_up(url: str, database: Path) -> None:
    """Make a site in this process; users with a token may call all tools of the server."""
    host = url.partition("//")[2].partition("/")[0]
    sources = {"rpc": None, "functions": None}
    begin({"REMOTE_ALLOWED_HOSTS": [host], "SOURCES": sources}, database)
    from mcp_bridge.models import ToolSetting
    from mcp_bridge.registry.registry import registry
    from mcp_bridge.registry.tool_status import mark_approved
    from mcp_bridge.remote.models import RemoteServer
    from mcp_bridge.remote.sync import sync

    sync(RemoteServer.objects.create(slug="sums", name="Sums", url=url))
    rows = []
    for name, candidate in registry.discovered.candidates.items():
        row = ToolSetting(name=name, chosen=True)
        mark_approved(row, registry.build(candidate))
        rows.append(row)
    ToolSetting.objects.bulk_create(rows)


def own_tools() -> dict[str, Any]:
    """The settings of a site with as many tools of its own."""
    from types import ModuleType

    from mcp_bridge import mcp_tool

    module = ModuleType("benchmark_tools")
    for number in range(TOOLS):

        def add(a: int, b: int) -> int:
            """Add two numbers, in another way."""
            return a + b

        add.__module__, add.__name__ = "benchmark_tools", f"own_add_{number}"
        setattr(module, add.__name__, mcp_tool(add))
    sys.modules["benchmark_tools"] = module
    functions = {"OPTIONS": {"modules": ["benchmark_tools"]}}
    return {"SOURCES": {"rpc": None, "remote": None, "functions": functions}}


def asker(method: str, **params: Any) -> Callable[[], bytes]:
    """Return a whole request to the site, without a server."""
    from django.contrib.auth.models import User

    from benchmarks.counting import Site
    from mcp_bridge.tokens.models import Token

    user, _ = User.objects.get_or_create(username="ada")
    _, os.environ["BENCHMARK_TOKEN"] = Token.objects.issue(user=user, name="benchmark")
    os.environ["BENCHMARK_MODE"] = "token"
    site = Site()
    environ = site.request(method, **params)
    body = environ["wsgi.input"].read()

    def ask() -> bytes:
        asked = {**environ, "wsgi.input": io.BytesIO(body)}
        response = site.application(asked, lambda status, headers: None)
        written = b"".join(response)
        response.close()
        return written

    return ask


def rounds(
    called: dict[str, Callable[[], object]], calls: int = CALLS, times: int = ROUNDS
) -> dict[str, list[float]]:
    """Return the milliseconds of a call in each round, by title; the first round warms up."""
    found: dict[str, list[float]] = {title: [] for title in called}
    for number in range(-1, times):
        for title, run in [*called.items()][:: -1 if number % 2 else 1]:
            begun = time.perf_counter()
            for _ in range(calls):
                run()
            if number >= 0:
                found[title].append((time.perf_counter() - begun) / calls * 1000)
    return found


def of_calls(url: str) -> Iterator[str]:
    from django.contrib.auth.models import User

    from mcp_bridge.features import Context, ToolCall
    from mcp_bridge.outbound.client import Outbound
    from mcp_bridge.registry.registry import registry
    from mcp_bridge.remote.client import Client, Exchange

    client = Client(Outbound(url, timeout=60, max_bytes=10**6), {}, max_event_bytes=10**6)
    tool = registry.discovered.tools["sums_add"]
    whole = asker("tools/call", name="sums_add", arguments=ARGUMENTS)
    context = Context(user=User.objects.get(username="ada"))

    def alone() -> object:
        params = {"name": "add", "arguments": ARGUMENTS}
        return client.request(Exchange(method="tools/call", params=params, name="add"))

    def as_tool() -> object:
        call = ToolCall(tool, tool.check(ARGUMENTS), context, ARGUMENTS)
        return tool.encode(tool.invoke(call))

    acting = asker("tools/call", name="sums_act", arguments=ARGUMENTS)
    asked = {"the whole request": whole, "the same, of a tool that acts": acting}
    for each in asked.values():
        assert json.loads(each())["result"]["structuredContent"] == {"result": 3}, each()
    found = rounds({"our client": alone, "the tool": as_tool, **asked})
    yield from ("| | ms a call | above the client |", "| :-- | --: | --: |")
    for title, took in found.items():
        pairs = zip(took, found["our client"], strict=True)
        above = statistics.median(one - other for one, other in pairs)
        yield f"| {title} | {statistics.median(took):.2f} | {above:.2f} |"


def of_lists() -> Iterator[str]:
    from django.test.utils import override_settings

    yield from ("", f"| list of {TOOLS} tools | ms |", "| :-- | --: |")
    found: dict[str, list[float]] = {"remote": [], "own": []}
    ask = asker("tools/list")
    for title in ("remote", "own") * 3:
        from django.conf import settings

        given = own_tools() if title == "own" else settings.MCP_BRIDGE
        with override_settings(MCP_BRIDGE=given):
            assert ask().count(b'"inputSchema"') == TOOLS, title
            found[title] += rounds({title: ask}, 20)[title]
    for title, took in found.items():
        yield f"| {title} | {statistics.median(took):.2f} |"


def of_breaker() -> Iterator[str]:
    from mcp_bridge.remote.breaker import FAILURES
    from mcp_bridge.remote.gateway import _gateways

    ((_, gateway),) = _gateways.values()
    for _ in range(FAILURES):
        gateway.breaker.note(is_failure=True)
    ask = asker("tools/call", name="sums_add", arguments=ARGUMENTS)
    assert b"failed repeatedly" in ask()
    took = rounds({"open": ask}, 20)["open"]
    yield from ("", f"A call while the breaker is open: {statistics.median(took):.2f} ms.")


def post(port: int, path: str, headers: dict[str, str], body: bytes) -> bytes:
    """Return the answer to a request on a new connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, body, headers)
    answer = connection.getresponse().read()
    connection.close()
    return answer


def of_proxy(url: str, python: str) -> Iterator[str]:
    """Compare the site with fastmcp's proxy, both over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    body = json.loads(message("add"))
    fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    fields |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    token = {"Authorization": f"Bearer {os.environ['BENCHMARK_TOKEN']}", "Mcp-Name": "sums_add"}
    with (
        subprocess.Popen([python, "-c", PROXY, url, str(port)]) as process,
        site() as own,
    ):
        try:
            for _ in range(300):
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.1)
            remote = json.dumps(body).encode()
            local = message("sums_add")
            asked: dict[str, Callable[[], object]] = {
                "the site": lambda: post(own, "/mcp", {**fields, **token}, local),
                "fastmcp's proxy": lambda: post(
                    port, "/mcp", {**fields, "Mcp-Name": "add"}, remote
                ),
            }
            for title, ask in asked.items():
                assert b'"isError":false' in bytes(ask()).replace(b" ", b""), (title, ask())  # type: ignore[call-overload]
            found = rounds(asked, 20)
        finally:
            process.kill()
    yield from ("", "| over HTTP | ms a call |", "| :-- | --: |")
    for title, took in found.items():
        yield f"| {title} | {statistics.median(took):.2f} |"


@contextmanager
def site() -> Iterator[int]:
    """The port of the site on gunicorn, in a process that is forked from this one."""
    from django.core.wsgi import get_wsgi_application
    from django.db import connections
    from gunicorn.app.base import BaseApplication

    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]

    class Gunicorn(BaseApplication):
        def load_config(self) -> None:
            options = {"bind": f"127.0.0.1:{port}", "worker_class": "gthread", "threads": 4}
            for name, value in {**options, "loglevel": "error"}.items():
                self.cfg.set(name, value)

        def load(self) -> Any:
            return get_wsgi_application()

    connections.close_all()
    child = os.fork()
    if child == 0:
        try:
            Gunicorn().run()
        finally:
            # Not the end of this program, which would delete the database.
            os._exit(0)
    time.sleep(2)
    try:
        yield port
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def message(name: str) -> bytes:
    from benchmarks.wire import META

    params = {"name": name, "arguments": ARGUMENTS, "_meta": META}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    ).encode()


def measure(python: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder, upstream() as url:
        set_up(url, Path(folder) / "site.sqlite3")
        asker("tools/list")
        for line in of_calls(url):
            print(line)
        if python is not None:
            for line in of_proxy(url, python):
                print(line)
        for line in (*of_lists(), *of_breaker()):
            print(line)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2])
    else:
        measure(sys.argv[1] if len(sys.argv) > 1 else None)

"""
``python -m benchmarks.oracle``: whether time tells a tool that a caller may not use from no tool.

Calls of both kinds are made in one process in a random order, under WSGI and under ASGI, by nobody,
with a token and with a session. For each reason why a tool may not be used it says the AUC: how
often of a pair the one that took longer is guessed right, where 0.5 is chance. An AUC whose whole
confidence interval (95 %) lies beyond 0.6 or 0.4 is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import io
import json
import math
import random
import statistics
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

MOST: Final = 0.6
WARM_UP: Final = 20
META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "oracle", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
# Why a tool may not be used, by the name of the tool; unknown names are as long.
REASONS: Final = {
    "forbidden_1": "its permission",
    "forbidden_2": "its group",
    "forbidden_3": "switched off",
    "forbidden_4": "not approved",
    "forbidden_5": "of another toolset",
}
UNKNOWN: Final = [f"unknowing_{number}" for number in range(5)]
# Sends a call of a tool by a caller, and returns how long it took, in nanoseconds.
Caller = Callable[[str, dict[str, str]], int]


@contextmanager
def site() -> Iterator[dict[str, dict[str, str]]]:
    """A site with its tools on SQLite; yields the headers of each caller."""
    from django.conf import settings

    with tempfile.TemporaryDirectory() as folder:
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(Path(folder, "db.sqlite3"))}
        sessions = "django.contrib.sessions"
        settings.configure(
            SECRET_KEY="x" * 50,
            ALLOWED_HOSTS=["testserver"],
            USE_TZ=True,
            DATABASES={"default": {**database, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}},
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
            INSTALLED_APPS=[
                *("django.contrib.auth", "django.contrib.contenttypes", sessions),
                *("modernrpc", "mcp_bridge", "mcp_bridge.tokens"),
            ],
            MIDDLEWARE=[
                f"{sessions}.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
            ],
            LOGGING={"version": 1, "loggers": {"django.request": {"level": "CRITICAL"}}},
            MCP_BRIDGE={
                "STATE_MAX_AGE": 3600,
                "TOOLSETS": {"default": {"tools": ["*_1", "*_2", "*_3", "*_4", "free"]}},
                "AUTHENTICATION_CLASSES": [
                    "mcp_bridge.tokens.authentication.TokenAuthentication",
                    "rest_framework.authentication.SessionAuthentication",
                ],
            },
        )
        import django

        django.setup()
        yield _filled()


def serve(*, asynchronous: bool) -> None:
    """Serve the tools of the reasons, beside one for everybody."""
    from django.conf import settings
    from django.urls import path
    from modernrpc.server import RpcServer

    from mcp_bridge import mcp_tool
    from mcp_bridge.testing.serving import route

    server = RpcServer(register_system_procedures=False)
    for name in (*REASONS, "free"):

        def tool() -> None:
            """Do nothing."""

        tool.__name__ = name
        mark = {"permissions": "auth.add_group"} if name == "forbidden_1" else {}
        server.register_procedure(mcp_tool(public=name == "free", **mark)(tool))
    route(settings, path("rpc", server.view), asynchronous=asynchronous)


def _filled() -> dict[str, dict[str, str]]:
    """Make the rows: settings of tools, and a caller's; returns the headers of each caller."""
    from django.contrib.auth.models import Group, Permission, User
    from django.core.management import call_command
    from django.test import Client

    from mcp_bridge.models import ToolSetting
    from mcp_bridge.registry.registry import registry
    from mcp_bridge.registry.tool_status import sync_tool_settings
    from mcp_bridge.tokens.models import Token

    serve(asynchronous=False)
    call_command("migrate", verbosity=0)
    sync_tool_settings(registry.discovered)
    settings_of = {each.name: each for each in ToolSetting.objects.all()}
    settings_of["forbidden_2"].groups.add(Group.objects.create(name="others"))
    settings_of["forbidden_3"].enabled = False
    settings_of["forbidden_3"].save()
    settings_of["forbidden_4"].fingerprint = "of another definition"
    settings_of["forbidden_4"].guarded = True
    settings_of["forbidden_4"].save()
    user = User.objects.create_user("ada")
    group = Group.objects.create(name="own")
    group.permissions.set(Permission.objects.filter(codename="view_group"))
    user.groups.add(group)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    browser = Client()
    browser.force_login(user)
    _, secret = Token.objects.issue(user=user, name="oracle")
    token = "t" * 32
    return {
        "anonymous": {},
        "token": {"Authorization": f"Bearer {secret}"},
        "session": {
            "Cookie": f"sessionid={browser.cookies['sessionid'].value}; csrftoken={token}",
            "X-CSRFToken": token,
        },
    }


def message(name: str, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """The body of a call, and all of its headers."""
    params = {"name": name, "arguments": {}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return body.encode(), {
        "Host": "testserver",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        **headers,
    }


def check(answer: bytes, name: str) -> None:
    """Raise RuntimeError for any other answer than that there is no such tool."""
    told = json.loads(answer)["error"]["message"]
    if told != f"Unknown tool: {name}":
        raise RuntimeError(f"The answer was another one: {told}")


def wsgi() -> Caller:
    from django.core.wsgi import get_wsgi_application

    application = get_wsgi_application()

    def call(name: str, headers: dict[str, str]) -> int:
        body, sent = message(name, headers)
        named = {f"HTTP_{key.upper().replace('-', '_')}": value for key, value in sent.items()}
        environ = {
            **{"REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "SCRIPT_NAME": ""},
            **{"QUERY_STRING": "", "SERVER_NAME": "testserver", "SERVER_PORT": "80"},
            **{"SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1"},
            **{"CONTENT_TYPE": sent["Content-Type"], "CONTENT_LENGTH": sent["Content-Length"]},
            **{
                "wsgi.input": io.BytesIO(body),
                "wsgi.errors": sys.stderr,
                "wsgi.url_scheme": "http",
            },
            **named,
        }
        began = time.perf_counter_ns()
        response = application(environ, lambda status, headers, exc_info=None: None)
        answer = b"".join(response)
        took = time.perf_counter_ns() - began
        response.close()
        check(answer, name)
        return took

    return call


def asgi(loop: asyncio.AbstractEventLoop) -> Caller:
    from django.core.asgi import get_asgi_application

    application = get_asgi_application()

    async def ask(name: str, headers: dict[str, str]) -> int:
        body, sent = message(name, headers)
        scope = {
            **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"},
            **{"method": "POST", "path": "/mcp", "raw_path": b"/mcp", "query_string": b""},
            **{"root_path": "", "scheme": "http", "client": ("127.0.0.1", 5000)},
            "server": ("testserver", 80),
            "headers": [(key.lower().encode(), value.encode()) for key, value in sent.items()],
        }
        received, parts = iter([body]), []

        async def receive() -> dict[str, Any]:
            for each in received:
                return {"type": "http.request", "body": each, "more_body": False}
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        async def send(part: dict[str, Any]) -> None:
            parts.append(part.get("body", b""))

        began = time.perf_counter_ns()
        await application(scope, receive, send)
        took = time.perf_counter_ns() - began
        check(b"".join(parts), name)
        return took

    return lambda name, headers: loop.run_until_complete(ask(name, headers))


def auc(one: list[int], other: list[int]) -> tuple[float, float]:
    """Return how often one of the first took longer than one of the others, and its 95 % margin."""
    ranked = sorted(other)
    wins = sum(bisect_left(ranked, each) + bisect_right(ranked, each) for each in one)
    area = wins / (2 * len(one) * len(other))
    # Hanley and McNeil, 1982.
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    spread = (
        area * (1 - area)
        + (len(one) - 1) * (first - area**2)
        + (len(other) - 1) * (second - area**2)
    ) / (len(one) * len(other))
    return area, 1.96 * math.sqrt(max(spread, 0))


def sample(call: Caller, headers: dict[str, str], times: int) -> dict[str, list[int]]:
    """Return how long calls of each name took, made in a random order; unknown names as one."""
    found: dict[str, list[int]] = {name: [] for name in (*REASONS, "unknown")}
    # The same order each time, and the same number of each.
    order, chance = [*REASONS, *UNKNOWN], random.Random(0)
    for number in range(WARM_UP + times):
        chance.shuffle(order)
        for name in order:
            took = call(name, headers)
            if number >= WARM_UP:
                found["unknown" if name in UNKNOWN else name].append(took)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.oracle", description=__doc__)
    parser.add_argument("--times", type=int, default=400, help="calls of each tool (default: 400)")
    options = parser.parse_args()
    worst, loop = 0.0, asyncio.new_event_loop()
    with site() as callers:
        print("| Server | Caller | " + " | ".join(REASONS.values()) + " | median of a call |")
        print("|---" * (len(REASONS) + 3) + "|")
        for server, make in (("WSGI", wsgi), ("ASGI", lambda: asgi(loop))):
            serve(asynchronous=server == "ASGI")
            call = make()
            for caller, headers in callers.items():
                gc.collect()
                gc.disable()
                found = sample(call, headers, options.times)
                gc.enable()
                unknown, cells = found.pop("unknown"), []
                for times in found.values():
                    area, margin = auc(times, unknown)
                    worst = max(worst, abs(area - 0.5) - margin)
                    cells.append(f"{area:.2f} ± {margin:.2f}")
                median = f"{statistics.median(unknown) / 1e6:.2f} ms"
                print("|", " | ".join([server, caller, *cells, median]), "|", flush=True)
        from django.db import connections

        from mcp_bridge.records.rows import flush

        flush()
        connections.close_all()
    loop.close()
    if worst > MOST - 0.5:
        print(f"An AUC lies beyond {MOST} or {1 - MOST:.1f}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

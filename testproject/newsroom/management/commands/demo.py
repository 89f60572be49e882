from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
from importlib.util import find_spec
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from testproject.newsroom.models import Article
from testproject.newsroom.seeding.users import PASSWORD, USERS


class Command(BaseCommand):
    help = (
        "Serve a freshly seeded newsroom on 127.0.0.1, show it with a scripted session of the "
        "official MCP client, and go on serving until Ctrl-C."
    )

    # They open the database, so they are run when it is the demo's own.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="0 takes any free port.")
        parser.add_argument(
            "--once", action="store_true", help="End after the session; fail if it went wrong."
        )

    def handle(self, *args: Any, port: int, once: bool, **options: Any) -> None:
        for name in ("mcp", "httpx2", "grpc"):
            if find_spec(name) is None:
                raise CommandError(
                    f"The demo drives the official MCP client and a service of gRPC, and {name} is "
                    "not installed: "
                    "pip install 'django-mcp-bridge[demo]'."
                )
        if connection.vendor != "sqlite":
            raise CommandError("The demo makes an SQLite database of its own: set no other one.")
        # A polite end by the system leaves as little behind as Ctrl-C; and shells start what runs
        # in the background with SIGINT ignored.
        for end in (signal.SIGINT, signal.SIGTERM):
            signal.signal(end, signal.default_int_handler)
        try:
            self._demonstrate(port, once)
        except KeyboardInterrupt:
            if once:
                raise CommandError("Stopped before the end of the session.") from None
            self.stdout.write("\nStopped.")

    def _demonstrate(self, port: int, once: bool) -> None:
        # Else gRPC's own library says that the archive has ended.
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
        # Imported here, so that other commands do without the libraries of the demo.
        from testproject.demo.desk import WeatherDesk
        from testproject.demo.site import (
            SiteLog,
            fresh_newsroom,
            issue_tokens,
            served_archive,
            served_at,
        )
        from testproject.newsroom.weather.server import WeatherServer

        server = self._bound(port)
        try:
            with (
                served_archive(),
                WeatherServer() as weather,
                WeatherDesk() as desk,
                served_at(server.url, weather.url, desk.host),
                fresh_newsroom(),
            ):
                self.check()
                tokens = issue_tokens()
                with server:
                    self._introduce(server.url, tokens)
                    with SiteLog().listening() as log:
                        self._play(f"{server.url}/mcp", tokens, log, desk)
                    if not once:
                        self._head(f"Serving {server.url}/mcp until Ctrl-C")
                        server.wait()
        finally:
            server.close()

    def _bound(self, port: int) -> Any:
        from testproject.demo.site import HOST, DemoServer

        try:
            return DemoServer(port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CommandError(f"Cannot serve on {HOST}:{port}: {error.strerror}.") from error
            raise CommandError(
                f"Port {port} of {HOST} is taken: end what uses it, or choose another one "
                f'with make demo ARGS="--port {port + 1}".'
            ) from error

    def _play(self, url: str, tokens: dict[str, str], log: Any, desk: Any) -> None:
        from testproject.demo.script import Script

        script = Script(url, tokens, log, desk, say=self._say, head=self._head)
        try:
            asyncio.run(script.play())
        except Exception as error:
            # The client runs its transport in task groups, which wrap what goes wrong.
            cause: BaseException = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            raise CommandError(
                f"The session went wrong. {type(cause).__name__}: {cause}"
            ) from error
        self.stdout.write(self.style.SUCCESS("\nEverything was as the script expects it."))

    def _introduce(self, url: str, tokens: dict[str, str]) -> None:
        articles = Article.objects.count()
        self._head("The newsroom")
        self._say(f"MCP endpoint    {url}/mcp")
        self._say(f"tools by GET    {url}/mcp/tools/list")
        self._say(f"JSON-RPC        {url}/rpc")
        self._say(f"admin           {url}/admin/    for editor and admin")
        desk = f"{url}/admin/mcp_bridge"
        self._say(f"its tools       {desk}/toolsetting/    for admin")
        self._say(f"its calls       {desk}/toolcallrecord/    for admin, with a chart of each day")
        self._say(f"what waits      {desk}/pendingcall/    for admin to approve or refuse")
        self._say(f"database        {articles} articles in an SQLite file that goes with the demo")
        self._say(f"log in as       {', '.join(USERS)}; the password is {PASSWORD}")
        self._head("Connect a client: it opens your browser, where you log in")
        self._say(f"claude mcp add --transport http newsroom {url}/mcp")
        self._say(f"who may act as you, and for how long: {url}/mcp/connections/")
        self._head("Or give it a token, one for each role")
        for username, (role, _) in USERS.items():
            self._say(f"{role:<15} {tokens[username]}")
        header = f"Authorization: Bearer {tokens['editor']}"
        self._say(f'claude mcp add --transport http newsroom {url}/mcp --header "{header}"')
        self._head("In a client's configuration file (without headers, it asks you to log in)")
        entry = {
            "type": "http",
            "url": f"{url}/mcp",
            "headers": {"Authorization": f"Bearer {tokens['editor']}"},
        }
        for line in json.dumps({"mcpServers": {"newsroom": entry}}, indent=2).splitlines():
            self._say(line)

    def _head(self, text: str) -> None:
        self.stdout.write(self.style.MIGRATE_HEADING(f"\n{text}"))
        self.stdout.flush()

    def _say(self, text: str) -> None:
        self.stdout.write(f"  {text}".rstrip())
        self.stdout.flush()

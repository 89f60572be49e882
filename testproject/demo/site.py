"""The newsroom on a database of its own, served from a thread of this process."""

from __future__ import annotations

import logging
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.handlers.asgi import ASGIHandler
from django.core.management import call_command
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.test.utils import override_settings

from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.records.rows import flush
from mcp_bridge.tokens.models import Token
from testproject.authorization import authorization
from testproject.newsroom.archive import with_archive
from testproject.newsroom.archive.service import PrintArchive, served
from testproject.newsroom.seeding.users import USERS
from testproject.newsroom.weather.source import weather_source

HOST = "127.0.0.1"


@contextmanager
def fresh_newsroom() -> Iterator[None]:
    """A seeded newsroom in an SQLite file that goes away afterwards."""
    with tempfile.TemporaryDirectory(prefix="newsroom-") as directory:
        _use_database(Path(directory) / "demo.sqlite3")
        call_command("migrate", verbosity=0)
        call_command("seed_newsroom", verbosity=0)
        try:
            yield
        finally:
            # The last calls may still be put on record.
            flush()
            connection.close()


@contextmanager
def served_archive() -> Iterator[None]:
    """The archive's own server, in threads of this process, and its methods among the tools."""
    with (
        served(PrintArchive()) as address,
        override_settings(MCP_BRIDGE=with_archive(settings.MCP_BRIDGE, address)),
    ):
        yield


def served_at(url: str, weather: str, desk: str) -> AbstractContextManager[None]:
    """The newsroom, whose settings have to say where it and the services that it uses are."""
    sources = settings.MCP_BRIDGE["SOURCES"] | {"weather": weather_source(weather)}
    more = {"SOURCES": sources, "REMOTE_ALLOWED_HOSTS": [desk]}
    return override_settings(**authorization(url, settings.MCP_BRIDGE | more))


def _use_database(path: Path) -> None:
    # Both, since connections in other threads are made from the settings.
    connection.close()
    settings.DATABASES["default"]["NAME"] = path
    connection.settings_dict["NAME"] = path


def issue_tokens() -> dict[str, str]:
    """A new token for the user of each role, by username."""
    users = get_user_model().objects.in_bulk(list(USERS), field_name="username")
    tokens = {}
    for username in USERS:
        _, secret = Token.objects.issue(user=users[username], name="demo", expires_at=None)
        tokens[username] = secret
    return tokens


class DemoServer:
    """
    Django's threaded server in a thread, so that no process can outlive this one.

    The address is bound at once, and raises OSError where it is taken; requests are served inside
    the ``with`` block.
    """

    def __init__(self, port: int) -> None:
        self._server = ThreadedWSGIServer((HOST, port), WSGIRequestHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}"

    def __enter__(self) -> DemoServer:
        # Serves the admin's stylesheets too, which DEBUG = False would otherwise leave out.
        self._server.set_app(StaticFilesHandler(get_wsgi_application()))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self.close()

    def wait(self) -> None:
        """Serve until interrupted."""
        while self._thread.is_alive():
            self._thread.join(timeout=1)

    def close(self) -> None:
        self._server.server_close()


@contextmanager
def served_under_asgi() -> Iterator[str]:
    """The endpoint on uvicorn and the direct lane, where lists announce their changes."""
    # Neither Django nor uvicorn sets up the logging again, which would show each request.
    import uvicorn

    from mcp_bridge.ext.lane import MCPApplication

    with socket.create_server((HOST, 0)) as bound:
        config = uvicorn.Config(MCPApplication(ASGIHandler()), log_config=None)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{bound.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()


def switch(name: str, enabled: bool) -> None:
    """Enable or disable a tool, as an administrator does."""
    ToolSetting.objects.filter(name=name).update(enabled=enabled)
    ToolSetting.objects.get(name=name).save()
    connection.close()


def last_call(tool: str) -> tuple[str, str, str, str]:
    """The user, the outcome, the remote server and its status of a tool's last call on record."""
    flush()
    row = ToolCallRecord.objects.filter(tool=tool).latest("pk")
    connection.close()
    return row.user_name, row.outcome, row.upstream, row.upstream_status


class SiteLog(logging.Handler):
    """What mcp_bridge logs during the scripted session, kept to be shown by it."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def last_cause(self) -> str:
        """The exception that was logged last, as one line."""
        causes = [record.exc_info[1] for record in self.records if record.exc_info]
        return f"{type(causes[-1]).__name__}: {causes[-1]}" if causes else ""

    @contextmanager
    def listening(self) -> Iterator[SiteLog]:
        """Keep the records of mcp_bridge here, and Django's lines for each request nowhere."""
        with _changed("mcp_bridge", handlers=[self], propagate=False), _silent("django.server"):
            yield self


def _silent(name: str) -> Any:
    return _changed(name, disabled=True)


@contextmanager
def _changed(name: str, **attributes: Any) -> Iterator[None]:
    logger = logging.getLogger(name)
    former = {attribute: getattr(logger, attribute) for attribute in attributes}
    for attribute, value in attributes.items():
        setattr(logger, attribute, value)
    try:
        yield
    finally:
        for attribute, value in former.items():
            setattr(logger, attribute, value)

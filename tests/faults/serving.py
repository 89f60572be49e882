"""Servers of the site, and clients that check every answer against the rules for answers."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.requests import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from tests.support.confirming import YES
from tests.support.processes import ROOT
from tests.support.wire import strict

SERVERS = {
    "gunicorn": ["gunicorn", "tests.faults.site:wsgi()", "--threads", "2"],
    "gunicorn, one at a time": ["gunicorn", "tests.faults.site:wsgi()", "--timeout", "2"],
    "uvicorn": ["uvicorn", "--factory", "tests.faults.site:asgi", "--lifespan", "off"],
    "direct lane": ["uvicorn", "--factory", "tests.faults.site:lane"],
}
# Words that only the site's log may contain.
INSIDE = re.compile(
    rb"secret-marker|traceback|<html|exception|operationalerror|psycopg|mysql|mariadb|sqlite|redis"
    rb"|errno|\.py\b|fatal|socket|/tmp/|select |insert |mcp_bridge_|auth_group",
    re.IGNORECASE,
)
# Signed and compressed, so that any short word may occur in it by chance.
OPAQUE = re.compile(rb'"requestState":"[^"]*"')


@dataclass
class Answer:
    """An answer that has been found to be JSON-RPC and to reveal no internals of the server."""

    status: int
    body: Mapping[str, Any]
    seconds: float

    @property
    def result(self) -> Mapping[str, Any]:
        return self.body.get("result", {})

    @property
    def is_unavailable(self) -> bool:
        """Return whether the site says that it cannot answer just now."""
        return self.status == 503

    @property
    def is_error(self) -> bool:
        """Return whether a model reads that the tool has failed."""
        return self.result.get("isError") is True

    @property
    def is_good(self) -> bool:
        return self.status == 200 and "result" in self.body and not self.is_error

    @property
    def text(self) -> str:
        return str(self.result["content"][0]["text"])


@dataclass
class Site:
    """A server of the site, and a client of it."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    log: Path

    def post(
        self,
        method: str,
        *,
        token: str = "",
        capabilities: Any = None,
        **params: Any,
    ) -> Answer:
        """Send a request; return the answer, which has to be one that a client can read."""
        message, headers = self.message(method, token, capabilities, params)
        began = time.monotonic()
        with closing(self.send(message, headers)) as connection:
            response = connection.getresponse()
            body = response.read()
        seconds = time.monotonic() - began
        assert response.headers["Content-Type"] == "application/json", body[:500]
        inside = INSIDE.search(OPAQUE.sub(b"", body))
        assert not inside, (inside, body[:500])
        found = strict(body)
        assert found["jsonrpc"] == "2.0"
        assert found["id"] in (message["id"], None)
        assert ("result" in found) != ("error" in found)
        assert response.status in (200, 503), body[:500]
        if response.status == 503:
            assert found["error"]["code"] == -32603
            assert int(response.headers["Retry-After"]) >= 1
        return Answer(response.status, found, seconds)

    def message(
        self, method: str, token: str, capabilities: Any, params: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return a request and its headers."""
        meta = {PROTOCOL_VERSION: LATEST.version, CLIENT_CAPABILITIES: capabilities or {}}
        message = {
            "jsonrpc": "2.0",
            "id": next(_ids),
            "method": method,
            "params": {**params, "_meta": meta},
        }
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": LATEST.version,
            "Mcp-Method": method,
        }
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return message, headers

    def send(self, message: Any, headers: Mapping[str, str]) -> http.client.HTTPConnection:
        """Send a request, and return the connection on which it is answered."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/mcp", json.dumps(message), dict(headers))
        return connection

    def begin(self, tool: str, **arguments: Any) -> http.client.HTTPConnection:
        """Begin a call of a tool without waiting for the answer."""
        params = {"name": tool, "arguments": arguments}
        return self.send(*self.message("tools/call", "", None, params))

    def call(self, tool: str, *, token: str = "", **arguments: Any) -> Answer:
        return self.post("tools/call", token=token, name=tool, arguments=arguments)

    def confirmed(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool, and agree to that if the site asks."""
        params = {"name": tool, "arguments": arguments}
        known = {"token": self.token, "capabilities": {"elicitation": {}}}
        asked = self.post("tools/call", **params, **known)
        if "requestState" not in asked.result:
            return asked
        state = asked.result["requestState"]
        return self.post("tools/call", **params, **known, requestState=state, inputResponses=YES)

    def workers(self) -> list[int]:
        """Return the processes that the server has begun."""
        pid = self.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(each) for each in found]


_ids = itertools.count(1)
_numbers = itertools.count(1)


def new_name() -> str:
    """Return the name of a group that does not exist."""
    return f"group {next(_numbers)}"


# A request of each kind, which is good if nothing fails.
REQUESTS: dict[str, Callable[[Site], Answer]] = {
    "list": lambda site: site.post("tools/list"),
    "read": lambda site: site.call("look"),
    "act": lambda site: site.call("act", name=new_name()),
    "act in a coroutine": lambda site: site.call("async_act", name=new_name()),
    "with a token": lambda site: site.call("who", token=site.token),
    "confirmed": lambda site: site.confirmed("wipe", name=new_name()),
}


def all_good(site: Site) -> None:
    """Nothing is left broken."""
    for kind, ask in REQUESTS.items():
        answer = ask(site)
        assert answer.is_good, (kind, answer)


def variables(database: Mapping[str, Any], **more: str) -> dict[str, str]:
    """Return the environment of a process of the site."""
    known = {name: each for name, each in os.environ.items() if not name.startswith("MCP_BRIDGE_")}
    return {
        **known,
        "DJANGO_SETTINGS_MODULE": "tests.faults.site_settings",
        "FAULTS_DATABASE": json.dumps(database, default=str),
        "PYTHONPATH": str(ROOT),
        **more,
    }


def run(*command: str, **environment: str) -> str:
    """Run Python with the site to its end; return its output."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def prepare(database: Mapping[str, Any]) -> str:
    """Make the site's tables in a database; return the secret of a token of its user."""
    return run("-m", "tests.faults.prepare", **variables(database))


@contextmanager
def serving(
    kind: str,
    database: Mapping[str, Any],
    token: str,
    place: Path,
    is_good: bool = True,
    ends_by: signal.Signals = signal.SIGTERM,
    **known: str,
) -> Iterator[Site]:
    """Serve the site, once its first request has been answered and ``is_good``."""
    if kind in ("uvicorn", "direct lane"):
        known["FAULTS_ASYNC"] = "1"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    is_gunicorn = kind.startswith("gunicorn")
    address = ["--bind", f"127.0.0.1:{port}"] if is_gunicorn else ["--port", str(port)]
    log = place / "server.log"
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *SERVERS[kind], *address, "--log-level", "warning"],
            cwd=ROOT,
            env=variables(database, **known),
            stdout=file,
            stderr=file,
        )
    site = Site(process, port, token, log)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                assert site.call("idle").is_good is is_good
                break
            except OSError:
                is_over = process.poll() is not None or time.monotonic() > until
                assert not is_over, log.read_text()
                time.sleep(0.05)
        yield site
    finally:
        process.send_signal(ends_by)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)

"""The direct lane behind a real server: requests over one connection, one after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest
import uvicorn
from pydantic import BaseModel

from mcp_bridge import Context
from mcp_bridge.elicitation import elicit
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.ext.lane import test_direct_lane
from tests.ext.lane.test_direct_lane import LEFT, awhere, direct, where
from tests.support.asgi import scope_of
from tests.support.values import dumps
from tests.support.wire import strict

marked = test_direct_lane.marked
# Threads of requests have separate connections, outside the test's transaction.
pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def running() -> Iterator[tuple[str, int]]:
    """Have uvicorn serve the site, at this host and port."""
    config = uvicorn.Config(direct(), port=0, lifespan="on", ws="none", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()
    finally:
        server.should_exit = True
        thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def address(settings: Any) -> Iterator[tuple[str, int]]:
    """The host and port of uvicorn, which serves two tools."""
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    serve(settings, where, awhere, public=True, read_only=True)
    with running() as found:
        yield found


@pytest.mark.requirement("state.none-of-connections")
def test_server_answers_successive_requests(address: tuple[str, int]) -> None:
    connection = HTTPConnection(*address, timeout=10)
    sent = {"Content-Type": "application/json"}
    for tool in ("where", "awhere", "where"):
        _, body = scope_of(tool)
        client = {**sent, **MCPClient().mirrored(strict(body))}
        connection.request("POST", "/mcp", body, client)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        assert strict(answer.read())["result"]["isError"] is False
    for page, status in (("/mcp", 405), ("/nowhere", 404)):
        connection.request("GET", page)
        answer = connection.getresponse()
        assert (answer.status, len(answer.read()) > 0) == (status, True)
    connection.close()
    assert LEFT == ["/mcp", "/nowhere"]


class Name(BaseModel):
    name: str


def ask(context: Context) -> str:
    """Ask for a name."""
    return elicit(context, "For whom?", Name).name


def told(
    connection: HTTPConnection,
    client: MCPClient,
    method: str,
    name: str | None = None,
    **more: str | None,
) -> tuple[int, Any]:
    """Return the status of the answer to a request, and its result or error."""
    params = {} if name is None else {"name": name}
    if method == "initialize":
        params["protocolVersion"] = client.revision.version
    message = client.message(method, **params)
    sent = {"Content-Type": "application/json", **client.mirrored(message), **more}
    kept = {name: value for name, value in sent.items() if value is not None}
    connection.request("POST", "/mcp", dumps(message), kept)
    response = connection.getresponse()
    answer = strict(response.read())
    return response.status, answer.get("result") or answer["error"]


@pytest.mark.requirement("state.none-of-connections")
def test_requests_share_no_state_over_a_connection(user: Any, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    serve(settings, where, ask)
    _, secret = Token.objects.issue(user=user, name="test")
    known = {"Authorization": f"Bearer {secret}"}
    modern, legacy = MCPClient(), MCPClient(revision="2025-11-25")
    with running() as address:
        link = HTTPConnection(*address, timeout=10)
        link.connect()
        kept = link.sock
        # Who calls:
        for _ in range(2):
            status, result = told(link, modern, "tools/call", "where", **known)
            assert (status, result["isError"]) == (200, False)
            status, error = told(link, modern, "tools/call", "where")
            assert (status, error["code"]) == (401, 401)
        # Capabilities of the client:
        for _ in range(2):
            modern.capabilities = {"elicitation": {}}
            status, result = told(link, modern, "tools/call", "ask", **known)
            assert (status, result["resultType"]) == (200, "input_required")
            modern.capabilities = {}
            status, error = told(link, modern, "tools/call", "ask", **known)
            assert (status, error["code"]) == (400, -32021)
        # Which revision it speaks: without the header that is 2025-03-26, without output schemas.
        for version, has_schemas in (("2025-11-25", True), (None, False)):
            status, result = told(link, legacy, "initialize", **known)
            assert (status, result["protocolVersion"]) == (200, "2025-11-25")
            sent = {**known, "MCP-Protocol-Version": version}
            status, result = told(link, legacy, "tools/list", **sent)
            assert (status, len(result["tools"])) == (200, 2)
            assert {"outputSchema" in tool for tool in result["tools"]} == {has_schemas}
        # All of it over one connection, which the server has kept.
        assert link.sock is kept
        link.close()


def test_server_refuses_a_declared_oversized_body(address: tuple[str, int]) -> None:
    connection = HTTPConnection(*address, timeout=10)
    connection.putrequest("POST", "/mcp")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(2**30))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()

"""Questions to clients of earlier revisions, in processes that share a cache of files."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.processes import test_end_of_servers
from tests.processes.test_end_of_servers import Server
from tests.processes.test_live_streams import path_of, toggle

start, database = test_end_of_servers.start, test_end_of_servers.database

# Two processes each, but for one on the direct lane.
KINDS = ("gunicorn, writers", "uvicorn, workers", "uvicorn, direct")
ASKING = {"elicitation": {"form": {}}}


@pytest.fixture
def begun(start: Callable[[str], Server], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Raw]:
    """Start a server with variables ``SERVED_...``, and return a client with a session."""

    def begun(kind: str, ask: str = "20", **served: str) -> Raw:
        for name, value in {"ask": ask, **served}.items():
            monkeypatch.setenv(f"SERVED_{name.upper()}", value)
        client = Raw(start(kind))
        client.begin()
        return client

    return begun


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, begun: Callable[..., Raw]) -> Server:
    return begun(request.param, calls="12").server


async def answer_with_ada(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


@pytest.mark.requirement("legacy.sessions")
@pytest.mark.parametrize("tool", ["book", "abook"])
def test_official_client_answers_questions_of_many_calls(server: Server, tool: str) -> None:
    async def main() -> list[Any]:
        async with create_mcp_http_client() as http:
            url = f"http://127.0.0.1:{server.port}{path_of(server)}"
            way = streamable_http_client(url, http_client=http)
            async with Client(way, mode="legacy", elicitation_callback=answer_with_ada) as client:
                calls = [client.call_tool(tool, {"train": f"train {each}"}) for each in range(8)]
                prompt = await client.get_prompt("greeting")
                assert prompt.messages[0].content.text == "Greet Ada."
                return await asyncio.gather(*calls)

    results = asyncio.run(main())
    texts = [each.content[0].text for each in results]
    assert all(each.startswith("Ada and Ada: ") for each in texts), texts
    # Each wrote one group: what was written before the questions is undone.
    assert sorted(int(each.rpartition(" ")[2]) for each in texts)[-1] <= 8
    assert (
        server.shell("from django.contrib.auth.models import Group; print(Group.objects.count())")
        == "8"
    )


class Raw:
    """A client that sends what a test wants."""

    def __init__(self, server: Server) -> None:
        self.server, self.session = server, ""

    def send(self, message: Any, method: str = "POST", **headers: str) -> http.client.HTTPResponse:
        named = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
            **({"Mcp-Session-Id": self.session} if self.session else {}),
            **headers,
        }
        self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        self.connection.request(method, path_of(self.server), json.dumps(message), named)
        return self.connection.getresponse()

    def status(self, message: Any, method: str = "POST", **headers: str) -> int:
        response = self.send(message, method, **headers)
        with closing(self.connection):
            response.read()
        return response.status

    def begin(self, capabilities: Any = ASKING) -> str:
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        params["clientInfo"] = {"name": "raw", "version": "1"}
        response = self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        with closing(self.connection):
            assert "result" in json.loads(response.read())
        self.session = response.headers["Mcp-Session-Id"]
        return self.session

    def ask(self, tool: str, **arguments: Any) -> http.client.HTTPResponse:
        """Call a tool; returns the response, whose events ``event`` reads."""
        params = {"name": tool, "arguments": arguments}
        return self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def event(response: http.client.HTTPResponse) -> dict[str, Any]:
    """Return the next message of a stream."""
    while not (line := response.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
    return found


def reply(question: Any, **content: Any) -> dict[str, Any]:
    result = {"action": "accept", "content": content}
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


def test_only_the_first_reply_in_the_session_counts(server: Server) -> None:
    client, other = Raw(server), Raw(server)
    session = client.begin()
    assert 21 <= len(session) <= 200
    assert re.fullmatch(r"[!-~]+", session)
    other.begin()
    response = client.ask("book", train="the night train")
    with closing(client.connection):
        question = event(response)
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Who takes the night train?"
        assert Raw(server).status(reply(question, name="without a session")) == 202
        assert other.status(reply(question, name="another session")) == 202
        for id in ("unknown", 5, "x" * 32, "a key of another\nform"):
            assert Raw.status(sender(client), reply({"id": id}, name="unknown")) == 202
        assert sender(client).status(reply(question, name="Ada")) == 202
        assert sender(client).status(reply(question, name="twice")) == 202
        second = event(response)
        assert second["params"]["message"] == "And who else?"
        assert sender(client).status(reply(question, name="late")) == 202
        assert sender(client).status(reply(second, name="Grace")) == 202
        result = event(response)["result"]
    assert result["content"][0]["text"] == "Ada and Grace: 1"


def sender(client: Raw) -> Raw:
    """Return a client of the same session, with another connection."""
    found = Raw(client.server)
    found.session = client.session
    return found


def replies_kept(server: Server) -> int:
    """Return how many entries the cache has."""
    return len([*Path(f"{server.database}.cache").glob("*.djcache")])


def test_client_that_leaves_while_asked_leaves_nothing(server: Server) -> None:
    client = Raw(server)
    client.begin()
    opened = []
    # Until a process runs as many calls as one caller may have.
    while True:
        each = sender(client)
        response = each.ask("book", train=f"train {len(opened)}")
        opened.append((each, response))
        if response.status == 429:
            break
        event(response)
    for each, response in opened:
        response.close()
        each.connection.close()
    until = time.monotonic() + 20
    # Each process answers one of them at least.
    while {sender(client).status(call("look", number=1)) for _ in range(20)} != {200}:
        assert time.monotonic() < until, "the calls still run"
        time.sleep(0.1)
    while replies_kept(server):
        assert time.monotonic() < until, "the cache still waits for replies"
        time.sleep(0.1)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize("kind", ["gunicorn, writers", "uvicorn"])
def test_question_without_answer_is_withdrawn(kind: str, begun: Callable[..., Raw]) -> None:
    client = begun(kind, ask="0.5")
    response = client.ask("book", train="the night train")
    with closing(client.connection):
        question = event(response)
        withdrawn = event(response)
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        result = event(response)["result"]
    assert result["isError"]
    assert "did not answer: cancel" in result["content"][0]["text"]


@pytest.mark.parametrize("refusal", [{"code": -1, "message": "no form"}, None])
def test_reply_that_is_no_answer_counts_as_cancelled(
    refusal: Any, begun: Callable[..., Raw]
) -> None:
    client = begun("gunicorn, writers")
    response = client.ask("book", train="the night train")
    with closing(client.connection):
        question = event(response)
        message = {"jsonrpc": "2.0", "id": question["id"], "error": refusal}
        assert sender(client).status(message) == 202
        result = event(response)["result"]
    assert "did not answer: cancel" in result["content"][0]["text"]


def test_client_that_declares_nothing_is_not_asked(server: Server) -> None:
    client = Raw(server)
    client.begin({})
    response = client.ask("book", train="x")
    with closing(client.connection):
        error = json.loads(response.read())["error"]
    assert error["code"] == -32021
    assert "this client did not declare in initialize" in error["message"]
    without = Raw(server)
    response = without.ask("book", train="x")
    with closing(without.connection):
        error = json.loads(response.read())["error"]
    assert "requires MCP 2026-07-28" in error["message"]


@pytest.mark.parametrize("kind", ["gunicorn, writers", "uvicorn"])
def test_tool_that_is_switched_off_while_it_asks_ends(kind: str, begun: Callable[..., Raw]) -> None:
    client = begun(kind)
    response = client.ask("book", train="the night train")
    with closing(client.connection):
        question = event(response)
        toggle(client.server, "book", False)
        time.sleep(1)
        assert sender(client).status(reply(question, name="Ada")) == 202
        assert event(response)["error"]["message"] == "Unknown tool: book"


def test_threads_are_left_for_the_answers(begun: Callable[..., Raw]) -> None:
    client = begun("gunicorn, threads", threads="1")
    first = client.ask("book", train="one")
    with closing(client.connection):
        question = event(first)
        other = sender(client)
        refused = other.ask("book", train="two")
        with closing(other.connection):
            assert "it asks as many clients as it can" in refused.read().decode()
        assert sender(client).status(reply(question, name="Ada")) == 202
        assert sender(client).status(reply(event(first), name="Grace")) == 202
        assert event(first)["result"]["content"][0]["text"] == "Ada and Grace: 1"


def test_server_without_threads_does_not_ask(begun: Callable[..., Raw]) -> None:
    client = begun("gunicorn")
    response = client.ask("book", train="one")
    with closing(client.connection):
        assert json.loads(response.read())["error"]["code"] == -32021


@pytest.mark.parametrize("kind", ["gunicorn, writers", "uvicorn"])
def test_heartbeats_go_on_while_a_client_is_asked(kind: str, begun: Callable[..., Raw]) -> None:
    client = begun(kind, heartbeat="0.5")
    params = {"name": "book", "arguments": {"train": "x"}, "_meta": {"progressToken": 7}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    response = client.send(message)
    with closing(client.connection):
        # A heartbeat may come before the question.
        methods = [event(response)["method"] for _ in range(4)]
    assert methods.count("elicitation/create") == 1
    assert methods.count("notifications/progress") == 3

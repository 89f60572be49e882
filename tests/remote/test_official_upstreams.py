"""The official client and this one receive the same from official servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, ListToolsResult

from mcp_bridge.protocol import JSONObject
from mcp_bridge.remote.client import RemoteError
from tests.remote.calls import calling, tools_of
from tests.remote.conftest import Connect
from tests.remote.upstreams.official import KINDS
from tests.remote.upstreams.writing import LEGACY, MODERN

CALLS: dict[str, JSONObject] = {
    "add": {"a": 2**40, "b": -1},
    "count": {"of": 3},
    "fail": {"reason": "It rains."},
    "weather": {"region": "Tromsø", "days": 2},
    "missing": {},
}
OF_EVERYTHING: dict[str, JSONObject] = {
    "echo": {"message": "Tromsø"},
    "get-sum": {"a": 1, "b": 2},
    "get-structured-content": {"location": "Chicago"},
    "get-tiny-image": {},
    "get-resource-links": {"count": 3},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "trigger-long-running-operation": {"duration": 0.1, "steps": 2},
    "missing": {},
}
REGION = {"Mcp-Param-Region": "=?base64?VHJvbXPDuA==?="}


async def agree(_: object, question: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


def theirs(url: str, calls: Mapping[str, JSONObject], **callbacks: Any) -> Any:
    """Return the tools, results and progress that the official client receives."""

    async def main() -> Any:
        reported: list[Any] = []

        async def note(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            reported.append((progress, total, message))

        async with (
            httpx2.AsyncClient(timeout=60, trust_env=False) as http,
            Client(streamable_http_client(url, http_client=http), **callbacks) as client,
        ):
            tools = await client.list_tools()
            results = {
                name: await client.call_tool(name, dict(given), progress_callback=note)
                for name, given in calls.items()
            }
            return tools, results, reported

    return asyncio.run(main())


@pytest.fixture(params=[each for each in KINDS if each != "asking"])
def url(request: pytest.FixtureRequest, official: str) -> str:
    return f"{official}/{request.param}/mcp"


def compare(connect: Connect, url: str, calls: Mapping[str, JSONObject]) -> None:
    """Compare as models, which drop the members that the official client does not know."""
    client, progress = connect(url, max_event_bytes=100_000), list[Any]()
    tools, results, reported = theirs(url, calls)
    assert ListToolsResult.model_validate(tools_of(client)) == tools
    for name, given in calls.items():
        headers = REGION if name == "weather" else {}
        exchange = calling(name, given, headers=headers, on_progress=progress.append)
        assert CallToolResult.model_validate(client.request(exchange)) == results[name]
    assert [tuple(map(each.get, ("progress", "total", "message"))) for each in progress] == reported


def test_both_clients_receive_equal_lists_and_results(connect: Connect, url: str) -> None:
    compare(connect, url, CALLS)


@pytest.mark.alone
def test_everything_server_answers_both_clients_alike(
    connect: Connect, everything_url: str
) -> None:
    compare(connect, everything_url, OF_EVERYTHING)


@pytest.mark.alone
def test_everything_server_receives_a_new_session(connect: Connect, everything_url: str) -> None:
    client = connect(everything_url)
    client.meet()
    client.outbound.send("DELETE", "", client._fields(client._peer), None)  # type: ignore[arg-type]
    # It answers 400 for a session that has ended.
    with pytest.raises(RemoteError, match="No valid session ID"):
        tools_of(client)
    assert tools_of(client)["tools"]


def test_revision_is_found(connect: Connect, url: str) -> None:
    client = connect(url)
    client.meet()
    assert client.version == (LEGACY if "legacy" in url else MODERN)
    assert client.info["serverInfo"] == {"name": "upstream", "version": "1.0"}
    assert client.info["instructions"] == "Add numbers."


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_known_revision_is_corrected(connect: Connect, url: str, version: str) -> None:
    client = connect(url, version)
    assert len(tools_of(client)["tools"]) == 4
    # A modern server speaks legacy revisions too.
    assert client.version == (LEGACY if "legacy" in url else version)


def test_parameter_without_its_header_is_an_error(connect: Connect, official: str) -> None:
    client = connect(f"{official}/modern_json/mcp")
    with pytest.raises(RemoteError, match="Mcp-Param-Region header is missing") as caught:
        client.request(calling("weather", {"region": "Oslo"}))
    assert caught.value.code == -32020


def test_question_is_answered_in_a_second_round(connect: Connect, official: str) -> None:
    url = f"{official}/asking/mcp"
    client = connect(url)
    capabilities: JSONObject = {"elicitation": {"form": {}}}
    first = client.request(calling("greet", capabilities=capabilities))
    assert first["resultType"] == "input_required"
    answer = {"action": "accept", "content": {"name": "Ada"}}
    more = {
        "inputResponses": dict.fromkeys(first["inputRequests"], answer),
        "requestState": first["requestState"],
    }
    last = client.request(calling("greet", capabilities=capabilities, more=more))
    _, results, _ = theirs(url, {"greet": {}}, elicitation_callback=agree)
    assert CallToolResult.model_validate(last) == results["greet"]
    assert last["structuredContent"] == {"result": "Hello, Ada!"}


def test_question_needs_a_declared_capability(connect: Connect, official: str) -> None:
    client = connect(f"{official}/asking/mcp")
    with pytest.raises(RemoteError) as caught:
        client.request(calling("greet"))
    assert caught.value.code == -32021

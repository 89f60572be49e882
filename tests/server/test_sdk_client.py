"""The official Python client against a live server, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from django.test.utils import override_settings
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from mcp_bridge.schemas import McpHeader
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.site import TOOLS

pytestmark = pytest.mark.django_db(transaction=True)

Work = Callable[[Client], Awaitable[Any]]


@pytest.fixture(params=["legacy", "auto", "2026-07-28"])
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def talk(live_server: Any, user: Any, era: str) -> Callable[[Work], Any]:
    """Have the official client do some work as the user."""
    _, secret = Token.objects.issue(user=user, name="test")

    async def session(work: Work) -> Any:
        headers = {"Authorization": f"Bearer {secret}"}
        async with create_mcp_http_client(headers=headers) as http:
            transport = streamable_http_client(f"{live_server.url}/mcp", http_client=http)
            async with Client(transport, mode=era) as client:
                return await work(client)

    return lambda work: asyncio.run(session(work))


def test_client_negotiates_the_revision_of_its_era(talk: Callable[[Work], Any], era: str) -> None:
    async def work(client: Client) -> str:
        return client.session.protocol_version

    assert talk(work) == ("2025-11-25" if era == "legacy" else "2026-07-28")


def test_client_walks_all_pages(talk: Callable[[Work], Any]) -> None:
    async def work(client: Client) -> list[str]:
        names: list[str] = []
        page = await client.list_tools()
        names += [tool.name for tool in page.tools]
        while page.next_cursor:
            page = await client.list_tools(cursor=page.next_cursor)
            names += [tool.name for tool in page.tools]
        return names

    with override_settings(MCP_BRIDGE={"PAGE_SIZE": 7}):
        assert talk(work) == TOOLS


def test_client_gets_structured_content(talk: Callable[[Work], Any]) -> None:
    result = talk(lambda client: client.call_tool("add", {"a": 20, "b": 22}))
    assert result.structured_content == {"result": 42}
    assert result.content[0].text == "42"


def test_client_sends_recursive_arguments(talk: Callable[[Work], Any]) -> None:
    root = {"value": 1, "children": [{"value": 2, "children": []}]}
    result = talk(lambda client: client.call_tool("tree", {"root": root}))
    assert result.structured_content == root


def test_client_repeats_parameters_in_headers(talk: Callable[[Work], Any], settings: Any) -> None:
    def routed(region: Annotated[str, McpHeader("Region")]) -> str:
        """Take an argument that a proxy may route by."""
        return region

    async def work(client: Client) -> Any:
        await client.list_tools()
        return await client.call_tool("routed", {"region": "Zürich"})

    serve(settings, routed)
    assert talk(work).content[0].text == "Zürich"


def test_client_gets_an_image(talk: Callable[[Work], Any]) -> None:
    result = talk(lambda client: client.call_tool("blocks", {"kind": "image"}))
    assert (result.content[0].type, result.content[0].mime_type) == ("image", "image/png")


def test_client_reads_every_argument_error(talk: Callable[[Work], Any]) -> None:
    result = talk(lambda client: client.call_tool("add", {"a": "1", "c": 2}))
    assert result.is_error
    assert [line.split(":")[0] for line in result.content[0].text.splitlines()] == ["/a", "/c"]


def test_client_calls_an_async_procedure(talk: Callable[[Work], Any]) -> None:
    result = talk(lambda client: client.call_tool("later", {"text": "hello"}))
    assert result.content[0].text == "hello"


def test_client_is_refused_an_unknown_tool(talk: Callable[[Work], Any]) -> None:
    async def work(client: Client) -> int:
        with pytest.raises(MCPError, match="Unknown tool: permitted") as raised:
            await client.call_tool("permitted", {})
        return raised.value.error.code

    assert talk(work) == -32602


def test_client_without_credential_sees_public_tools(live_server: Any, era: str) -> None:
    async def session() -> list[str]:
        async with Client(f"{live_server.url}/mcp", mode=era) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert asyncio.run(session()) == ["ping_public"]

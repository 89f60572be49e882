"""
The clients that are Python packages, each used as its documentation says.

A client is an asynchronous context manager that takes the address, the token, and a list to which
each question to the user is added; if the package can ask, the user agrees.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Shown:
    """A call as the model, or the program, gets to see it."""

    text: str
    kinds: list[str] = field(default_factory=list)
    error: bool | None = None


@dataclass
class Connection:
    list: Callable[[], Awaitable[list[str]]]
    call: Callable[[str, dict[str, Any]], Awaitable[Shown]]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def of_result(result: Any) -> Shown:
    """Show a CallToolResult of the official models in any version."""
    blocks = result.content
    error = getattr(result, "is_error", None)
    return Shown(
        " ".join(getattr(block, "text", "") for block in blocks if block.type == "text"),
        [block.type for block in blocks],
        bool(getattr(result, "isError", False) if error is None else error),
    )


def connection(client: Any) -> Connection:
    """Connect by a client, or a session, with the methods of the official one."""

    async def names() -> list[str]:
        listed = await client.list_tools()
        return [tool.name for tool in getattr(listed, "tools", listed)]

    async def call(name: str, arguments: dict[str, Any]) -> Shown:
        return of_result(await client.call_tool(name, arguments))

    return Connection(names, call)


def agreeing(asked: list[str], result: Any) -> Callable[..., Awaitable[Any]]:
    """Return the callback of a user who agrees, for clients with the official models."""

    async def agree(_: Any, question: Any, *more: Any) -> Any:
        asked.append(question.message)
        return result(action="accept", content={"confirm": True})

    return agree


def agreeing_in_words(asked: list[str]) -> Callable[..., Awaitable[Any]]:
    """Agree as FastMCP's handler of questions."""

    async def agree(message: str, kind: Any, params: Any, context: Any) -> Any:
        asked.append(message)
        return {"confirm": True}

    return agree


@asynccontextmanager
async def official(
    url: str, token: str, asked: list[str], mode: str = "auto"
) -> AsyncIterator[Connection]:
    """Connect by the official SDK, ``mcp``."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client
    from mcp_types import ElicitResult

    async with create_mcp_http_client(headers=bearer(token)) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(
            transport, mode=mode, elicitation_callback=agreeing(asked, ElicitResult)
        ) as client:
            yield connection(client)


@asynccontextmanager
async def official_legacy(url: str, token: str, asked: list[str]) -> AsyncIterator[Connection]:
    """Connect by the official SDK with the handshake of the older revisions."""
    async with official(url, token, asked, mode="legacy") as connection:
        yield connection


@asynccontextmanager
async def official_1(url: str, token: str, asked: list[str]) -> AsyncIterator[Connection]:
    """Connect by the official SDK before its version 2."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.types import ElicitResult

    async with (
        streamablehttp_client(url, headers=bearer(token)) as (read, write, _),
        ClientSession(read, write, elicitation_callback=agreeing(asked, ElicitResult)) as session,
    ):
        await session.initialize()
        yield connection(session)


@asynccontextmanager
async def mcp_remote(url: str, token: str, asked: list[str]) -> AsyncIterator[Connection]:
    """Connect by the official SDK over stdio, with mcp-remote between it and the site."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    program = os.environ["MCP_REMOTE"]
    arguments = [url, "--header", f"Authorization: Bearer {token}"]
    environment = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], "BROWSER": "true"}
    process = StdioServerParameters(command=program, args=arguments, env=environment)
    with open(os.devnull, "w") as unread:
        async with (
            stdio_client(process, errlog=unread) as (read, write),
            ClientSession(read, write) as session,
        ):
            await asyncio.wait_for(session.initialize(), 15)
            yield connection(session)


@asynccontextmanager
async def fastmcp(url: str, token: str, asked: list[str]) -> AsyncIterator[Connection]:
    """Connect by FastMCP's client."""
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    transport = StreamableHttpTransport(url, headers=bearer(token))
    async with Client(transport, elicitation_handler=agreeing_in_words(asked)) as client:
        yield connection(client)


@asynccontextmanager
async def pydantic_ai(url: str, token: str, asked: list[str]) -> AsyncIterator[Connection]:
    """Connect by Pydantic AI's toolset for MCP servers."""
    from pydantic_ai.mcp import MCPToolset

    toolset = MCPToolset(url, headers=bearer(token), elicitation_handler=agreeing_in_words(asked))
    async with toolset:

        async def names() -> list[str]:
            return [tool.name for tool in await toolset.list_tools()]

        async def call(name: str, arguments: dict[str, Any]) -> Shown:
            made = await toolset.direct_call_tool(name, arguments)
            parts = made if isinstance(made, list) else [made]
            kinds = ["image" if type(part).__name__ == "BinaryImage" else "text" for part in parts]
            return Shown(json.dumps(made, default=str)[:2000], kinds)

        yield Connection(names, call)


@asynccontextmanager
async def openai_agents(url: str, token: str, asked: list[str]) -> AsyncIterator[Connection]:
    """Connect by the MCP servers of the OpenAI Agents SDK."""
    from agents.mcp import MCPServerStreamableHttp

    params: Any = {"url": url, "headers": bearer(token)}
    async with MCPServerStreamableHttp(params, client_session_timeout_seconds=30) as server:
        yield connection(server)


@asynccontextmanager
async def llama_index(url: str, token: str, asked: list[str]) -> AsyncIterator[Connection]:
    """Connect by LlamaIndex's tool spec."""
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    spec = McpToolSpec(BasicMCPClient(url, headers=bearer(token)))
    tools: dict[str, Any] = {}

    async def names() -> list[str]:
        for tool in await spec.to_tool_list_async():
            tools[tool.metadata.name] = tool
        return list(tools)

    async def call(name: str, arguments: dict[str, Any]) -> Shown:
        made = await tools[name].acall(**arguments)
        raw = made.raw_output
        return of_result(raw) if hasattr(raw, "content") else Shown(str(made), error=made.is_error)

    yield Connection(names, call)


@asynccontextmanager
async def langchain(url: str, token: str, asked: list[str]) -> AsyncIterator[Connection]:
    """langchain-mcp-adapters."""
    from langchain_mcp_adapters.callbacks import Callbacks
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from mcp.types import ElicitResult

    server: Any = {"transport": "streamable_http", "url": url, "headers": bearer(token)}
    client = MultiServerMCPClient(
        {"newsroom": server}, callbacks=Callbacks(on_elicitation=agreeing(asked, ElicitResult))
    )
    tools: dict[str, Any] = {}

    async def names() -> list[str]:
        tools.update({tool.name: tool for tool in await client.get_tools()})
        return list(tools)

    async def call(name: str, arguments: dict[str, Any]) -> Shown:
        request = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
        message = await tools[name].ainvoke(request)
        parts = message.content if isinstance(message.content, list) else [message.content]
        kinds = [part.get("type", "") if isinstance(part, dict) else "text" for part in parts]
        text = " ".join(p.get("text", "") if isinstance(p, dict) else p for p in parts)
        return Shown(text, kinds, message.status == "error")

    yield Connection(names, call)


@asynccontextmanager
async def google_adk(url: str, token: str, asked: list[str]) -> AsyncIterator[Connection]:
    """Connect by the Agent Development Kit's toolset."""
    from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
    from mcp.types import ElicitResult

    params = StreamableHTTPConnectionParams(url=url, headers=bearer(token))
    toolset = McpToolset(
        connection_params=params, elicitation_callback=agreeing(asked, ElicitResult)
    )
    tools: dict[str, Any] = {}

    async def names() -> list[str]:
        tools.update({tool.name: tool for tool in await toolset.get_tools()})
        return list(tools)

    async def call(name: str, arguments: dict[str, Any]) -> Shown:
        made = await tools[name].run_async(args=arguments, tool_context=_tool_context())
        if "content" not in made:
            return Shown(str(made), error=True)
        blocks = made["content"]
        text = " ".join(block.get("text", "") for block in blocks)
        return Shown(text, [block["type"] for block in blocks], bool(made.get("isError")))

    try:
        yield Connection(names, call)
    finally:
        await toolset.close()


def _tool_context() -> Any:
    """Return a context as the runner of an agent makes it."""
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.agents.llm_agent import LlmAgent
    from google.adk.sessions import InMemorySessionService, Session
    from google.adk.tools.tool_context import ToolContext

    return ToolContext(
        InvocationContext(
            session_service=InMemorySessionService(),
            invocation_id="1",
            agent=LlmAgent(name="gate"),
            session=Session(id="1", app_name="gate", user_id="gate"),
        )
    )

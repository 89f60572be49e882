"""The official Python client, connected to the newsroom as one user in one era."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    ImageContent,
    TextContent,
)

INVALID_PARAMS = -32602


class NotAsExpected(Exception):
    """The newsroom answered something else than the script says it does."""


def expect(fulfilled: object, what: str) -> None:
    """Raise NotAsExpected unless fulfilled."""
    if not fulfilled:
        raise NotAsExpected(f"Expected {what}.")


class Visitor:
    """One connection that shows each step in a line and stops at the first surprise."""

    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self.client = client
        self.say = say

    async def tool_names(self) -> list[str]:
        """The names of all tools that the user sees, over all pages."""
        page = await self.client.list_tools()
        names = [tool.name for tool in page.tools]
        while page.next_cursor:
            page = await self.client.list_tools(cursor=page.next_cursor)
            names += [tool.name for tool in page.tools]
        return names

    async def call(self, name: str, **arguments: Any) -> Any:
        """The structured result of a call that has to succeed, unwrapped where it is wrapped."""
        result = await self._succeeds(name, arguments)
        structured = result.structured_content
        expect(structured is not None, f"{name} to give a structured result")
        return structured["result"] if list(structured) == ["result"] else structured

    async def with_bar(self, name: str, **arguments: Any) -> Any:
        """The result of a call that reports progress, which is shown as a bar."""
        shown = -1

        async def show(done: float, total: float | None, message: str | None) -> None:
            nonlocal shown
            tenths = int(10 * done / (total or done))
            if tenths > shown:
                shown = tenths
                bar = "#" * tenths + "." * (10 - tenths)
                self.say(f"    [{bar}] {done:g} of {total:g}, {message}")

        result = await self.client.call_tool(name, arguments, progress_callback=show)
        expect(not result.is_error, f"{name} to succeed, which said: {_text(result)}")
        expect(shown == 10, f"{name} to report its end")
        return result.structured_content

    async def image(self, name: str, **arguments: Any) -> ImageContent:
        """The image that a call has to give."""
        result = await self._succeeds(name, arguments)
        block = result.content[0]
        expect(isinstance(block, ImageContent), f"{name} to give an image")
        picture = base64.b64decode(block.data)
        expect(picture.startswith(b"\x89PNG"), f"{name} to give a PNG picture")
        self.say(f"{name}: an image, {block.mime_type}, {len(picture)} bytes")
        return block

    async def failure(self, name: str, **arguments: Any) -> str:
        """What a model reads of a call that has to fail inside the tool."""
        result = await self.client.call_tool(name, arguments)
        expect(result.is_error, f"{name} to fail with {arguments}")
        return _text(result)

    async def refusal(self, name: str, **arguments: Any) -> str:
        """The error of a call of a tool that the user must not even know."""
        try:
            await self.client.call_tool(name, arguments)
        except MCPError as error:
            expect(error.code == INVALID_PARAMS, f"{name} to be refused with -32602")
            expect(error.message == f"Unknown tool: {name}", f"{name} to be unknown")
            return error.message
        raise NotAsExpected(f"Expected {name} to be refused.")

    async def _succeeds(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        result = await self.client.call_tool(name, arguments)
        expect(not result.is_error, f"{name} to succeed, which said: {_text(result)}")
        return result


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


@asynccontextmanager
async def visit(
    url: str, mode: str, credential: str | httpx2.Auth, say: Callable[[str], None]
) -> AsyncIterator[Visitor]:
    """
    A connection with a token, or by a login.

    ``mode`` is the client's: "auto" discovers the era, "legacy" shakes hands.
    """
    is_token = isinstance(credential, str)
    headers = {"Authorization": f"Bearer {credential}"} if is_token else {}
    auth = None if is_token else credential
    # A proxy that the environment names has no business with this machine's own address.

    async def agree(_: object, question: ElicitRequestParams) -> ElicitResult:
        say("the user is asked:")
        for line in question.message.splitlines():
            say(f"    {line}")
        say("    and agrees")
        return ElicitResult(action="accept", content={"confirm": True})

    async with (
        httpx2.AsyncClient(headers=headers, auth=auth, timeout=60, trust_env=False) as http,
        Client(
            streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=agree
        ) as client,
    ):
        yield Visitor(client, say)

"""The official Python client answers the questions of a tool, or of the server before it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import ElicitResult
from pydantic import BaseModel

from mcp_bridge import Context
from mcp_bridge.elicitation import elicit
from mcp_bridge.models import PendingCall
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.confirming import RUNS, wipe

pytestmark = pytest.mark.django_db(transaction=True)


class Name(BaseModel):
    name: str


def greet(context: Context) -> str:
    """Greet two people."""
    return " and ".join(elicit(context, f"Who is {word}?", Name).name for word in ("one", "two"))


def talk(
    live_server: Any, user: Any, tool: str, mode: str, action: Any = "accept", **arguments: Any
) -> Any:
    """
    Call a tool; return the result, after the user's action on each question, and the questions.
    """
    _, secret = Token.objects.issue(user=user, name="test")
    asked: list[str] = []

    async def answer(_: Any, question: Any) -> ElicitResult:
        asked.append(question.message)
        if action != "accept":
            return ElicitResult(action=action)
        content = {"confirm": True} if tool == "wipe" else {"name": question.message[7:-1]}
        return ElicitResult(action="accept", content=content)

    async def session() -> Any:
        headers = {"Authorization": f"Bearer {secret}"}
        async with create_mcp_http_client(headers=headers) as http:
            transport = streamable_http_client(f"{live_server.url}/mcp", http_client=http)
            async with Client(transport, mode=mode, elicitation_callback=answer) as client:
                return await client.call_tool(tool, arguments)

    return asyncio.run(session()), asked


def test_client_asks_its_user_and_the_call_runs(live_server: Any, user: Any, settings: Any) -> None:
    RUNS.clear()
    serve(settings, wipe, confirm=True)
    result, asked = talk(live_server, user, "wipe", "2026-07-28", name="all")
    assert (result.is_error, RUNS, len(asked)) == (False, [("all", 1)], 1)
    assert "May wipe (wipe) be run" in asked[0]


@pytest.mark.parametrize(
    ("action", "waiting", "text"),
    [("cancel", 1, "The call is pending"), ("decline", 0, "and declined")],
)
def test_cancelled_or_declined_form_runs_nothing(
    action: str, waiting: int, text: str, live_server: Any, user: Any, settings: Any
) -> None:
    RUNS.clear()
    serve(settings, wipe, confirm=True)
    result, asked = talk(live_server, user, "wipe", "2026-07-28", action, name="all")
    assert (result.is_error, RUNS, len(asked)) == (True, [], 1)
    assert text in result.content[0].text
    assert PendingCall.objects.filter(status="waiting").count() == waiting


def test_client_answers_round_after_round(live_server: Any, user: Any, settings: Any) -> None:
    serve(settings, greet)
    result, asked = talk(live_server, user, "greet", "auto")
    assert result.content[0].text == "one and two"
    assert asked == ["Who is one?", "Who is two?"]


def test_legacy_client_is_sent_to_the_queue(live_server: Any, user: Any, settings: Any) -> None:
    RUNS.clear()
    serve(settings, wipe, confirm=True)
    result, asked = talk(live_server, user, "wipe", "legacy", name="all")
    assert (result.is_error, asked, RUNS) == (True, [], [])
    PendingCall.objects.get().decide(using="default", status="approved")
    assert not talk(live_server, user, "wipe", "legacy", name="all")[0].is_error
    assert RUNS == [("all", 1)]
    serve(settings, greet)
    with pytest.raises(ExceptionGroup) as raised:
        talk(live_server, user, "greet", "legacy")
    assert raised.group_contains(MCPError, match="requires MCP 2026-07-28")

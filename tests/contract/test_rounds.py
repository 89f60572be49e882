"""The number of questions of a call, and which of them count as a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from pydantic import BaseModel

from mcp_bridge import Context
from mcp_bridge.elicitation import elicit
from mcp_bridge.exceptions import InputRequired
from mcp_bridge.protocol.input_requests import FormElicitRequest
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve

RUNS: list[str] = []
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


class Seats(BaseModel):
    seats: int


def book(context: Context) -> int:
    """Book seats."""
    RUNS.append("book")
    return elicit(context, "How many?", Seats).seats


async def abook(context: Context) -> int:
    """Book seats, in a coroutine."""
    return book(context)


def nag(context: Context) -> str:
    """Ask for another name each time."""
    RUNS.append("nag")
    key = f"name-{len(context.input_responses)}"
    raise InputRequired({key: FormElicitRequest("Which name?", FORM)}, tool_state=len(RUNS))


def twice(context: Context) -> int:
    """Ask two questions, one after the other."""
    RUNS.append("twice")
    return (
        elicit(context, "How many?", Seats).seats + elicit(context, "How many more?", Seats).seats
    )


@pytest.fixture(autouse=True)
def uncounted() -> Iterator[None]:
    RUNS.clear()
    cache.clear()
    yield
    cache.clear()


def answered(client: CheckedClient, name: str, content: Any, most: int = 101) -> list[Any]:
    """Answer with the same content as long as the tool asks; the results."""
    params: dict[str, Any] = {"name": name, "arguments": {}}
    results = [client.post("tools/call", **params)]
    while results[-1].get("resultType") == "input_required" and len(results) < most:
        (key,) = results[-1]["inputRequests"]
        answer = {"action": "accept", "content": content}
        if key == "confirm":
            answer["content"] = {"confirm": True}
        sent = {"inputResponses": {key: answer}, "requestState": results[-1]["requestState"]}
        results.append(client.post("tools/call", **params, **sent))
    return results


def client_of(user: Any) -> CheckedClient:
    return CheckedClient(user=user, capabilities={"elicitation": {}})


@pytest.mark.off_tasks
@pytest.mark.parametrize(
    ("tool", "content"),
    [
        (book, {"seats": "many"}),
        (book, {}),
        (abook, {"seats": None}),
        (nag, {"name": "x"}),
        (twice, {"seats": "many"}),
    ],
)
@pytest.mark.parametrize("confirm", [False, True])
def test_rounds_after_the_first_answer_are_counted(
    tool: Any, content: Any, confirm: bool, user: Any, settings: Any
) -> None:
    serve(settings, tool, throttle="5/hour", confirm=confirm)
    results = answered(client_of(user), tool.__name__, content)
    assert "Too many calls" in text_of(results[-1])
    # The call, its first answer, and four answers that count; the first of two was for a person.
    assert len(RUNS) == (5 if confirm else 6)
    assert "Too many calls" in text_of(answered(client_of(user), tool.__name__, {})[-1])


@pytest.mark.parametrize("tool", [book, abook, nag])
@pytest.mark.parametrize("throttle", [None, "1000/hour"])
def test_call_has_at_most_ten_rounds(
    tool: Any, throttle: str | None, user: Any, settings: Any
) -> None:
    serve(settings, tool, throttle=throttle)
    results = answered(client_of(user), tool.__name__, {"name": "x"})
    assert (len(RUNS), len(results)) == (10, 10)
    assert results[-1]["isError"] is True
    assert "10 rounds" in text_of(results[-1])
    # Another call starts again from zero.
    assert answered(client_of(user), tool.__name__, {}, most=2)[-1]["inputRequests"]


def test_question_and_answer_count_once(user: Any, settings: Any) -> None:
    serve(settings, book, throttle="3/hour")
    for _ in range(3):
        assert answered(client_of(user), "book", {"seats": 2})[-1]["isError"] is False
    assert "Too many calls" in text_of(answered(client_of(user), "book", {"seats": 2})[-1])


@pytest.mark.off_tasks
def test_throttled_answer_can_be_sent_again(user: Any, settings: Any) -> None:
    serve(settings, twice, throttle="1/hour")
    client = client_of(user)
    params: dict[str, Any] = {"name": "twice", "arguments": {}}
    result = client.post("tools/call", **params)
    for _ in range(2):
        (key,) = result["inputRequests"]
        answer = {key: {"action": "accept", "content": {"seats": 2}}}
        sent = {"inputResponses": answer, "requestState": result["requestState"]}
        result = client.post("tools/call", **params, **sent)
    assert "Too many calls" in text_of(result)
    cache.clear()
    assert client.post("tools/call", **params, **sent)["structuredContent"] == {"result": 4}
    cache.clear()
    with pytest.raises(MCPError, match="been used already"):
        client.post("tools/call", **params, **sent)

"""A batch is limited like the same number of single requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache import cache
from rest_framework.throttling import SimpleRateThrottle

from mcp_bridge import mcp_tool
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.values import dumps

RAN: list[str] = []
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clear the counts, and stop the clock of the throttles."""
    monkeypatch.setattr(SimpleRateThrottle, "timer", lambda throttle: 1_000_000_020.0)
    cache.clear()
    RAN.clear()
    yield
    cache.clear()


def write(size: int) -> str:
    """Write a group, and return a text."""
    Group.objects.create(name=str(len(RAN)))
    RAN.append("write")
    return "x" * size


@mcp_tool(read_only=True)
async def wait(size: int) -> str:
    """Return a text, in a coroutine."""
    RAN.append("wait")
    return "x" * size


@pytest.fixture(params=[False, True], ids=["wsgi", "asgi"])
def site(request: pytest.FixtureRequest, settings: Any, user: Any) -> Callable[..., CheckedClient]:
    """Serve the tools with settings; return a client that may send batches."""

    def served(**options: Any) -> CheckedClient:
        settings.MCP_BRIDGE = options
        serve(settings, write, wait, asynchronous=request.param)
        return CheckedClient(user=user, revision="2025-03-26")

    return served


def call(id: Any, tool: str = "write", size: int = 1) -> dict[str, Any]:
    params = {"name": tool, "arguments": {"size": size}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def listing(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/list"}


def send(client: CheckedClient, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers to a batch, in their order."""
    response = client.send(dumps(list(messages)))
    assert response.status_code == 200
    answers: list[dict[str, Any]] = response.json()
    assert [each["id"] for each in answers] == [each["id"] for each in messages if "id" in each]
    return answers


def codes(answers: list[dict[str, Any]]) -> list[int | None]:
    return [each.get("error", {}).get("code") for each in answers]


def limited(rate: str) -> dict[str, Any]:
    kinds = ["rest_framework.throttling.UserRateThrottle"]
    return {"THROTTLE_CLASSES": kinds, "THROTTLE_RATES": {"user": rate}}


@pytest.mark.parametrize("tool", ["write", "wait"])
def test_each_request_of_a_batch_counts_against_the_endpoint(tool: str, site: Any) -> None:
    client = site(**limited("7/min"))
    answers = send(client, *(call(each, tool) for each in range(10)))
    assert codes(answers) == [None] * 7 + [429] * 3
    assert answers[7]["error"]["message"] == "Too many requests. Retry after 60 seconds."
    assert len(RAN) == 7
    # The next request exceeds the rate as well, and one row records all refusals.
    assert client.send(dumps(call(1))).status_code == 429
    assert ToolCallRecord.objects.filter(error_code="throttled").count() == 1


def test_several_batches_share_one_count(site: Any) -> None:
    client = site(**limited("5/min"))
    assert codes(send(client, call(1), listing(2), call(3))) == [None] * 3
    assert codes(send(client, listing(1), call(2), listing(3))) == [None, None, 429]


def test_notifications_are_not_counted(site: Any) -> None:
    client = site(**limited("2/min"))
    assert codes(send(client, call(1), *[NOTIFICATION] * 5, call(2))) == [None, None]


def test_result_limit_applies_to_each_call_of_a_batch(site: Any) -> None:
    client = site(MAX_RESULT_BYTES=4_000)
    answers = send(client, call(1, size=2900), call(2, size=9000), call(3, size=2900))
    assert [each["result"]["isError"] for each in answers] == [False, True, False]
    # The call whose result was too long has been rolled back.
    assert Group.objects.count() == 2


def test_text_of_an_error_is_cut_to_the_limit(settings: Any, modern: CheckedClient) -> None:
    def complain() -> str:
        """Fail with a long text."""
        from mcp_bridge import ToolError

        raise ToolError("\0" * 50_000)

    settings.MCP_BRIDGE = {"MAX_RESULT_BYTES": 10_000}
    serve(settings, complain)
    assert modern.call_tool("complain")["isError"] is True
    assert len(modern.response.content) < 11_000

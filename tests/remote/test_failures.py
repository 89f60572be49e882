"""Remote servers that fail: what the model reads, and that all else goes on."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.remote import breaker
from mcp_bridge.signals import tool_call_finished
from mcp_bridge.testing import MCPClient, text_of
from tests.remote.desk import FORECAST, Desk, open_desk, serve_desk, tool
from tests.remote.upstreams.dropping import DROPPING
from tests.remote.upstreams.lying import LIES
from tests.remote.upstreams.slow import SLOW

pytestmark = pytest.mark.django_db
READ_ONLY = {**FORECAST, "annotations": {"readOnlyHint": True}}
MAYBE = "The action may or may not have been performed."


def told(client: MCPClient, name: str = "weather_forecast") -> str:
    result = client.call_tool(name, {"city": "Bonn"})
    assert result["isError"]
    return text_of(result)


# The phrase, whether the call may have been performed, and the class of the status on record.
SAID: dict[str, tuple[str, bool, str]] = {
    "html": ("answered with text/html, which is not MCP", True, "2xx"),
    "half_json": ("answered with text that is not valid JSON", True, "2xx"),
    "wrong_id": ("answered another request", True, "2xx"),
    "two_answers": ("answered twice", True, "2xx"),
    "no_answer": ("did not answer", True, "2xx"),
    "compressed": ("answered in the encoding 'gzip', which was not requested", True, "2xx"),
    "redirect": ("answered with a redirect: not followed", False, "3xx"),
    "challenge": ("refused the credential", False, "4xx"),
    "busy": ("repeat the call in 7 seconds", False, "4xx"),
    "failing": ("failed (HTTP status 503)", True, "5xx"),
    "bad_params": ("answered with an error: Invalid params", False, "4xx"),
}


@pytest.mark.parametrize("lie", SAID)
def test_bad_answer_is_an_error_that_names_the_server(
    settings: Any, desk: Desk, client: MCPClient, lie: str
) -> None:
    phrase, is_maybe, status = SAID[lie]
    serve_desk(settings, desk)
    desk.raw = LIES[lie]
    text = told(client)
    assert text.startswith("The remote server Weather ")
    assert phrase in text
    assert (MAYBE in text) == is_maybe
    assert not any(each in text for each in ("127.0.0.1", "evil", "10.0.0.7"))
    record = ToolCallRecord.objects.get()
    assert (record.upstream, record.upstream_status, record.outcome) == (
        "weather",
        status,
        "failed",
    )
    desk.raw = None
    assert text_of(client.call_tool("weather_forecast", {"city": "Bonn"})) == "sun"


@pytest.mark.parametrize("drop", DROPPING)
def test_dropped_call_may_have_been_performed(
    settings: Any, desk: Desk, client: MCPClient, drop: str
) -> None:
    serve_desk(settings, desk)
    desk.raw = DROPPING[drop]
    if drop == "after_answer":
        assert text_of(client.call_tool("weather_forecast", {"city": "Bonn"})) == "done"
    else:
        assert MAYBE in told(client)


def test_read_only_call_may_be_repeated(settings: Any, client: MCPClient) -> None:
    with open_desk(READ_ONLY) as desk:
        serve_desk(settings, desk)
        desk.raw = DROPPING["before_head"]
        assert MAYBE not in told(client)


@pytest.mark.parametrize("kind", ["silent", "silent_stream", "body_byte_by_byte"])
def test_slow_answer_ends_at_the_limits(
    settings: Any, desk: Desk, client: MCPClient, kind: str
) -> None:
    serve_desk(settings, desk, first_byte_s=1, whole_call_s=1, idle_s=1)
    desk.raw = SLOW[kind]
    text = told(client)
    assert text.startswith("The remote server Weather did not answer in time")


def test_breaker_opens_and_one_call_tries_again(
    settings: Any, desk: Desk, client: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_desk(settings, desk)
    desk.raw = LIES["failing"]
    for _ in range(breaker.FAILURES):
        told(client)
    before = len(desk.received)
    assert "has failed repeatedly: retry in" in told(client)
    assert len(desk.received) == before
    assert ToolCallRecord.objects.latest("pk").upstream_status == "error"
    desk.raw = None
    # Not yet: its pause has not passed.
    assert "has failed repeatedly" in told(client)
    monkeypatch.setattr(breaker, "monotonic", lambda: 10.0**9)
    assert text_of(client.call_tool("weather_forecast", {"city": "Bonn"})) == "sun"


def test_wrong_answers_do_not_open_the_breaker(
    settings: Any, desk: Desk, client: MCPClient
) -> None:
    serve_desk(settings, desk)
    desk.raw = LIES["html"]
    for _ in range(breaker.FAILURES + 1):
        assert "text/html" in told(client)


def test_other_servers_work_while_one_is_down(settings: Any, desk: Desk, client: MCPClient) -> None:
    serve_desk(settings, desk)
    with open_desk(tool("news")) as other:
        serve_desk(settings, other, slug="press")
    assert "The remote server Press cannot be reached" in told(client, "press_news")
    assert text_of(client.call_tool("weather_forecast", {"city": "Bonn"})) == "sun"
    assert [each["name"] for each in client.list_tools()] == ["press_news", "weather_forecast"]


def test_signal_and_record_say_which_server(settings: Any, desk: Desk, client: MCPClient) -> None:
    serve_desk(settings, desk)
    heard: list[Any] = []

    def hear(**sent: Any) -> None:
        heard.append((sent["upstream"], sent["upstream_status"], sent["result_bytes"] > 0))

    tool_call_finished.connect(hear)
    try:
        client.call_tool("weather_forecast", {"city": "Bonn"})
    finally:
        tool_call_finished.disconnect(hear)
    assert heard == [("weather", "2xx", True)]


def test_tool_outside_the_protocol_is_an_error(
    settings: Any, desk: Desk, client: MCPClient
) -> None:
    serve_desk(settings, desk)
    for answer in ({"content": "sun"}, {"content": [1]}, {"isError": "yes"}, {"_meta": 3}):
        desk.answer = lambda params, answer=answer: answer  # type: ignore[misc]
        assert "returned a result that is not MCP" in told(client)

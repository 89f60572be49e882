"""Every bad answer becomes an error whose phrase does not contain addresses."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcp_bridge.outbound.client import OutboundError
from mcp_bridge.remote.client import AnswerError, RemoteError
from tests.remote.calls import calling
from tests.remote.conftest import Connect
from tests.remote.upstreams.slow import comments_for
from tests.remote.upstreams.writing import LEGACY, MODERN
from tests.support.services import Service, service

ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|localhost|://|:\d{2,5}\b|evil")

# The phrase, the HTTP status, and whether the server may have done what it was asked to do.
LIES = {
    "html": ("answered with text/html, which is not MCP", 200, True),
    "wrong_id": ("answered another request than the one that was sent", 200, True),
    "wrong_id_in_stream": ("answered another request", 200, True),
    "half_json": ("answered with text that is not valid JSON", 200, True),
    "half_json_in_stream": ("answered with text that is not valid JSON", 200, True),
    "two_answers": ("answered twice", 200, True),
    "no_answer": ("did not answer the request", 202, True),
    "no_answer_in_stream": ("ended its answer before its end", 200, True),
    "batch": ("answered with JSON that is not a JSON-RPC message", 200, True),
    "no_result": ("answered without a result", 200, True),
    "untyped": ("answered with data without a type, which is not MCP", 200, True),
    "redirect": ("answered with a redirect: not followed", 302, False),
    "challenge": ("refused the credential", 401, False),
    "busy": ("receives too many requests: repeat the call in 7 seconds", 429, False),
    "busy_until_a_date": ("receives too many requests: repeat the call later", 429, False),
    "failing": ("failed (HTTP status 503)", 503, True),
    "missing": ("refused the request (HTTP status 404)", 404, False),
}
SESSIONS = {
    "spaced_session": "sent a session id with invalid characters",
    "long_session": "sent a session id with invalid characters",
    "old_revision": "speaks MCP 1999-12-31, which this site does not speak",
}
HUGE = {
    "endless_body": "answered with more than 100000 bytes, which is the limit; request less",
    "endless_event": "sent an event of more than 10000 bytes, which is the limit",
    "endless_lines": "sent an event of more than 10000 bytes, which is the limit",
    "long_event": "sent an event of more than 10000 bytes, which is the limit",
}


def failure(connect: Connect, url: str, version: str = MODERN, **limits: float) -> OutboundError:
    """Return the error of a call."""
    with pytest.raises(OutboundError) as caught:
        connect(url, version, **limits).request(calling("look"))
    assert not ADDRESS.search(str(caught.value))
    return caught.value


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_errors(connect: Connect, lying: Service, lie: str) -> None:
    before = len(lying.received)
    error = failure(connect, f"{lying.url}/{lie}")
    assert isinstance(error, AnswerError)
    assert (str(error), error.status, error.is_sent) == LIES[lie]
    assert len(lying.received) == before + 1


def test_encoding_that_was_not_requested_is_refused(connect: Connect, lying: Service) -> None:
    error = failure(connect, f"{lying.url}/compressed")
    assert str(error) == "answered in the encoding 'gzip', which was not requested"
    assert lying.received[-1].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("lie", SESSIONS)
def test_sessions_of_liars_are_not_used(connect: Connect, lying: Service, lie: str) -> None:
    before = len(lying.received)
    assert str(failure(connect, f"{lying.url}/{lie}", LEGACY)) == SESSIONS[lie]
    assert all("mcp-session-id" not in each.headers for each in lying.received[before:])


@pytest.mark.parametrize("lie", ["error_with_strange_code", "bad_params", "refused_unread"])
def test_call_that_was_refused_is_not_repeated(connect: Connect, lying: Service, lie: str) -> None:
    before = len(lying.received)
    with pytest.raises(RemoteError):
        connect(f"{lying.url}/{lie}", MODERN).request(calling("look"))
    assert sum(b"tools/call" in each.body for each in lying.received[before:]) == 1


def test_stream_may_end_its_lines_with_carriage_returns(connect: Connect, lying: Service) -> None:
    result = connect(f"{lying.url}/carriage_returns", MODERN).request(calling("look"))
    assert result["content"] == [{"type": "text", "text": "done"}]


def test_foreign_progress_is_not_reported(connect: Connect, lying: Service) -> None:
    reported: list[object] = []
    client = connect(f"{lying.url}/foreign_progress", MODERN)
    assert client.request(calling("look", on_progress=reported.append))["content"]
    assert reported == []


def test_others_work_while_one_server_lies(connect: Connect, lying: Service, official: str) -> None:
    failure(connect, f"{lying.url}/html")
    client = connect(f"{official}/modern_json/mcp", MODERN)
    assert client.request(calling("add", {"a": 1, "b": 2}))["structuredContent"] == {"total": 3}


@pytest.mark.parametrize("path", HUGE)
def test_answers_end_at_their_bounds(connect: Connect, huge: Service, path: str) -> None:
    error = failure(connect, f"{huge.url}/{path}")
    assert (str(error), error.is_sent) == (HUGE[path], True)


def test_many_events_are_not_one_body(connect: Connect, huge: Service) -> None:
    result = connect(f"{huge.url}/many_events", MODERN).request(calling("look"))
    assert result["content"] == [{"type": "text", "text": "done"}]


def test_slow_answers_end_at_the_deadline(connect: Connect, slow: Service) -> None:
    def fail(path: str) -> tuple[str, bool]:
        error = failure(connect, f"{slow.url}/{path}", timeout=1)
        return str(error), error.is_sent

    with ThreadPoolExecutor() as pool:
        errors = [*pool.map(fail, ["silent", "head_byte_by_byte", "body_byte_by_byte"])]
    assert errors == [("did not answer in time", True)] * 3


def test_missing_first_byte_ends_the_call(connect: Connect, slow: Service) -> None:
    error = failure(connect, f"{slow.url}/silent", first_byte_timeout=0.2)
    assert str(error) == "did not answer in time"


def test_failed_handshake_has_not_sent_the_call(connect: Connect, slow: Service) -> None:
    error = failure(connect, f"{slow.url}/silent", "", first_byte_timeout=0.2)
    assert (str(error), error.is_sent) == ("did not answer in time", False)


@pytest.mark.parametrize("lie", ["busy", "challenge", "failing"])
def test_server_that_refuses_to_begin_is_asked_once(
    connect: Connect, lying: Service, lie: str
) -> None:
    for version in ("", LEGACY):
        before = len(lying.received)
        failure(connect, f"{lying.url}/{lie}", version)
        assert len(lying.received) == before + 1


def test_silent_stream_ends_at_the_idle_bound(connect: Connect, slow: Service) -> None:
    error = failure(connect, f"{slow.url}/silent_stream", pause=0.2)
    assert (str(error), error.is_sent) == ("did not answer in time", True)


def test_stream_lives_while_bytes_come(connect: Connect) -> None:
    # The comments end long after the deadline of the call.
    with service(mcp=comments_for(2.5)) as running:
        client = connect(f"{running.url}/mcp", MODERN, timeout=2, pause=30)
        assert client.request(calling("look", may_last=True))["content"]


def test_answer_does_not_wait_for_its_stream(connect: Connect, slow: Service) -> None:
    result = connect(f"{slow.url}/open_after_answer", MODERN).request(calling("look"))
    assert result["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.parametrize("path", ["before_head", "in_head", "in_body", "in_stream", "not_http"])
def test_dropped_calls_may_have_been_done(connect: Connect, dropping: Service, path: str) -> None:
    before = len(dropping.received)
    error = failure(connect, f"{dropping.url}/{path}")
    assert (str(error), error.is_sent) == ("broke off", True)
    assert len(dropping.received) == before + 1


def test_drop_after_the_answer_loses_nothing(connect: Connect, dropping: Service) -> None:
    result = connect(f"{dropping.url}/after_answer", MODERN).request(calling("look"))
    assert result["content"] == [{"type": "text", "text": "done"}]


def test_closed_port_receives_nothing(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = failure(connect, f"http://127.0.0.1:{port}/mcp")
    assert (str(error), error.is_sent) == ("cannot be reached", False)


def test_invalid_header_is_an_error_without_its_value(connect: Connect, lying: Service) -> None:
    before = len(lying.received)
    client = connect(f"{lying.url}/html", MODERN, headers={"Authorization": "secret\n"})
    with pytest.raises(OutboundError, match="a header of the request is invalid") as caught:
        client.request(calling("look"))
    assert not caught.value.is_sent
    assert caught.value.__cause__ is None
    assert len(lying.received) == before

"""The client keeps what servers send, their sessions, and one request for each call."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcp_bridge.outbound.client import OutboundError
from mcp_bridge.remote.client import AnswerError, RemoteError
from tests.remote.calls import calling, tools_of
from tests.remote.conftest import Connect
from tests.remote.upstreams import verbatim
from tests.remote.upstreams.verbatim import RESULT, TOOLS, Verbatim
from tests.remote.upstreams.writing import LEGACY, MODERN
from tests.support.services import Service, send, service

KINDS = [(MODERN, False), (MODERN, True), (LEGACY, False), (LEGACY, True)]


@pytest.fixture(params=KINDS, ids=["modern", "modern streams", "legacy", "legacy streams"])
def upstream(request: pytest.FixtureRequest) -> Iterator[Verbatim]:
    version, streams = request.param
    with verbatim.running(version, streams=streams) as running:
        yield running


@pytest.fixture
def legacy() -> Iterator[Verbatim]:
    with verbatim.running(LEGACY) as running:
        yield running


class GivenUp(Exception):
    """The caller does not want the answer any more."""


def test_unknown_members_and_large_numbers_survive(connect: Connect, upstream: Verbatim) -> None:
    client = connect(upstream.url)
    assert tools_of(client) == {"tools": TOOLS, "unknown": 2**60}
    assert client.request(calling("look")) == RESULT


def test_call_is_one_request_in_steady_state(connect: Connect, upstream: Verbatim) -> None:
    client = connect(upstream.url)
    client.request(calling("look"))
    before = len(upstream.seen)
    for _ in range(5):
        client.request(calling("look"))
    assert upstream.methods[before:] == ["tools/call"] * 5


def test_known_modern_server_receives_nothing_but_calls(connect: Connect) -> None:
    with verbatim.running(MODERN) as upstream:
        connect(upstream.url, MODERN).request(calling("look"))
    assert upstream.methods == ["tools/call"]


def test_known_legacy_server_receives_no_discovery(connect: Connect, legacy: Verbatim) -> None:
    connect(legacy.url, LEGACY).request(calling("look"))
    assert legacy.methods == ["initialize", "notifications/initialized", "tools/call"]


def test_connection_is_used_again_after_each_answer(connect: Connect, upstream: Verbatim) -> None:
    client = connect(upstream.url)
    for _ in range(5):
        client.request(calling("look"))
    assert len(upstream.connections) == 1


def test_credentials_do_not_share_a_session(connect: Connect, legacy: Verbatim) -> None:
    clients = [connect(legacy.url, headers={"Authorization": each}) for each in ("one", "two")]
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(each.request, calling("look")) for each in clients * 20]:
            assert done.result() == RESULT
    pairs = {(each.session, each.credential) for each in legacy.seen if each.session}
    assert Counter(session for session, _ in pairs) == dict.fromkeys(legacy.sessions, 1)
    assert {credential for _, credential in pairs} == {"one", "two"}
    assert legacy.methods.count("initialize") == 2


def test_session_that_expired_is_begun_again(connect: Connect, legacy: Verbatim) -> None:
    client = connect(legacy.url)
    client.request(calling("look"))
    legacy.sessions.clear()
    before = len(legacy.seen)
    assert client.request(calling("look")) == RESULT
    assert legacy.methods[before:] == [
        "tools/call",
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]


def test_expired_session_is_begun_once_for_all_threads(connect: Connect, legacy: Verbatim) -> None:
    client = connect(legacy.url)
    client.request(calling("look"))
    legacy.sessions.clear()
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(client.request, calling("look")) for _ in range(16)]:
            assert done.result() == RESULT
    assert legacy.methods.count("initialize") == 2
    assert {each.session for each in legacy.seen[-8:]} <= legacy.sessions


def test_server_that_forgets_each_session_is_an_error(connect: Connect, legacy: Verbatim) -> None:
    client = connect(legacy.url)
    client.meet()
    legacy.sessions = Forgetful()
    with pytest.raises(AnswerError, match="^does not keep its session$") as caught:
        client.request(calling("look"))
    assert legacy.methods.count("tools/call") == 2
    assert caught.value.status == 404


class Forgetful(set[str]):
    """The sessions of a server that has several processes behind one address."""

    def add(self, session: str) -> None: ...


@pytest.mark.parametrize("status", [400, 403, 409, 500])
def test_call_with_another_status_is_not_repeated(
    connect: Connect, legacy: Verbatim, status: int
) -> None:
    client = connect(legacy.url)
    client.meet()
    legacy.sessions.clear()
    legacy.status_of_unknown = status
    with pytest.raises((AnswerError, RemoteError)):
        client.request(calling("look"))
    assert legacy.methods.count("tools/call") == 1


def test_session_refused_with_400_is_begun_next_time(connect: Connect, legacy: Verbatim) -> None:
    client = connect(legacy.url)
    client.meet()
    legacy.sessions.clear()
    legacy.status_of_unknown = 400
    with pytest.raises(RemoteError):
        client.request(calling("look"))
    assert client.request(calling("look")) == RESULT


def test_closed_client_ends_its_session(connect: Connect, legacy: Verbatim) -> None:
    client = connect(legacy.url)
    client.meet()
    client.close()
    assert legacy.methods[-1] == "DELETE"
    assert legacy.seen[-1].session in legacy.sessions
    assert client.request(calling("look")) == RESULT


@pytest.mark.parametrize("status", [200, 400, 404, 405, 406, 415])
def test_legacy_server_may_refuse_discovery(
    connect: Connect, legacy: Verbatim, status: int
) -> None:
    legacy.status_of_other = status
    assert connect(legacy.url).request(calling("look")) == RESULT


def test_legacy_server_may_answer_discovery(connect: Connect, legacy: Verbatim) -> None:
    legacy.discovers = True
    client = connect(legacy.url)
    assert client.request(calling("look")) == RESULT
    assert client.version == LEGACY


@pytest.mark.parametrize(("was", "now"), [(LEGACY, MODERN), (MODERN, LEGACY)])
def test_server_that_changed_its_revision_is_met_again(
    connect: Connect, was: str, now: str
) -> None:
    with verbatim.running(was) as upstream:
        client = connect(upstream.url, was)
        client.request(calling("look"))
        upstream.version = now
        assert client.request(calling("look")) == RESULT
        assert client.version == now
        before = len(upstream.seen)
        client.request(calling("look"))
        assert upstream.methods[before:] == ["tools/call"]


@pytest.mark.parametrize(("told", "is_now"), [(LEGACY, MODERN), (MODERN, LEGACY)])
def test_stored_revision_may_be_outdated(connect: Connect, told: str, is_now: str) -> None:
    with verbatim.running(is_now) as upstream:
        client = connect(upstream.url, told)
        assert client.request(calling("look")) == RESULT
        assert client.version == is_now


def test_server_of_unknown_revisions_is_an_error(connect: Connect) -> None:
    with verbatim.running("2030-01-01") as upstream:
        for told in ("", LEGACY, MODERN):
            with pytest.raises(AnswerError, match="MCP 2030-01-01|other revisions") as caught:
                connect(upstream.url, told).request(calling("look"))
            assert not caught.value.is_sent
    assert "tools/call" not in {each.method for each in upstream.seen if each.session}


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_requests_of_the_server_are_answered(connect: Connect, version: str) -> None:
    with verbatim.running(version) as upstream:
        assert connect(upstream.url, version).request(calling("ask")) == RESULT
    ping, elicitation = (each for each in upstream.seen if not each.method)
    assert ping.message == {"jsonrpc": "2.0", "id": "ping", "result": {}}
    assert elicitation.message["id"] == "elicitation/create"
    assert elicitation.message["error"]["code"] == -32601
    assert {ping.session, elicitation.session} == {upstream.seen[-3].session}


@pytest.mark.parametrize("kind", ["modern_sse", "legacy_stateful_sse", "legacy_stateless_sse"])
def test_progress_arrives(connect: Connect, official: str, kind: str) -> None:
    arrived: list[Any] = []
    client = connect(f"{official}/{kind}/mcp")
    client.request(calling("count", {"of": 3}, on_progress=arrived.append))
    assert [(each["progress"], each["message"]) for each in arrived] == [
        (1, "number 1"),
        (2, "number 2"),
        (3, "number 3"),
    ]


def test_error_of_progress_ends_the_call(connect: Connect, official: str) -> None:
    def give_up(params: Any) -> None:
        raise GivenUp

    client = connect(f"{official}/modern_sse/mcp")
    with pytest.raises(GivenUp):
        client.request(calling("count", {"of": 3}, on_progress=give_up))
    assert client.request(calling("add", {"a": 1, "b": 2}))["structuredContent"] == {"total": 3}


@pytest.mark.parametrize("path", ["silent", "silent_stream"])
def test_check_gives_up_while_nothing_arrives(connect: Connect, slow: Service, path: str) -> None:
    checks: list[int] = []

    def check() -> None:
        checks.append(1)
        raise GivenUp

    client = connect(f"{slow.url}/{path}", MODERN)
    # The server answers nothing until the client has gone.
    with pytest.raises(GivenUp):
        client.request(calling("look", check=check))
    assert checks == [1]


def test_failed_handshake_is_one_for_all_that_wait(connect: Connect) -> None:
    waiting = threading.Semaphore(0)
    may_fail = threading.Event()

    def fail(received: Any, handler: Any) -> None:
        may_fail.wait(30)
        send(handler, status=500)

    with service(mcp=fail) as running, ThreadPoolExecutor(5) as pool:
        client = connect(f"{running.url}/mcp")
        exchanges = [calling("look", check=waiting.release) for _ in range(5)]
        calls = [pool.submit(client.request, each) for each in exchanges]
        for _ in exchanges:
            # One waits for the server, four for its handshake.
            assert waiting.acquire(timeout=30)
        may_fail.set()
        for done in calls:
            with pytest.raises(OutboundError, match=r"^failed \(HTTP status 500\)$"):
                done.result()
    assert len(running.received) == 1


def test_check_gives_up_while_another_thread_meets_server(connect: Connect, slow: Service) -> None:
    client, met = connect(f"{slow.url}/silent"), threading.Event()

    def note() -> None:
        met.set()
        if over.is_set():
            raise GivenUp

    def give_up() -> None:
        raise GivenUp

    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.request, calling("look", check=note))
        assert met.wait(30)
        with pytest.raises(GivenUp):
            client.request(calling("look", check=give_up))
        assert not first.done()
        over.set()
        with pytest.raises(GivenUp):
            first.result(30)

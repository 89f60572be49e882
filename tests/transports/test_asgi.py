"""Requests as an ASGI server passes them on: bodies in chunks, headers as they came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.test import override_settings

from mcp_bridge.registry.registry import registry
from tests.support import lane, wire
from tests.support.asgi import scope_with
from tests.support.wire import caller, compact, message, strict

quiet = wire.quiet

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PUBLIC = compact(message(caller(), name="ping_public", arguments={})).encode()
BASE = [(b"host", b"testserver"), (b"content-type", b"application/json")]
MODERN = [
    (b"mcp-protocol-version", b"2026-07-28"),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"ping_public"),
]


@pytest.fixture(
    autouse=True,
    scope="module",
    params=[
        ("tests.support.site", False),
        ("tests.support.site_async", False),
        ("tests.support.site", True),
    ],
    ids=["sync", "async", "direct lane"],
)
def test_site(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    """
    Serve both views under ASGI, and the endpoint without Django's handler.

    The handler answers in a separate thread, in which the tests' database is not available: the
    owner's settings are read before, and no call is recorded.
    """
    told = {**settings.MCP_BRIDGE, "STATE_MAX_AGE": 3600, "AUDIT": None}
    urlconf, is_direct = request.param
    context = pytest.MonkeyPatch.context()
    with override_settings(ROOT_URLCONF=urlconf, MCP_BRIDGE=told), context as patch:
        if is_direct:
            patch.setattr(lane, "IS_ON", True)
        with django_db_blocker.unblock():
            assert len(registry.snapshot)
        yield


def deliver(chunks: list[bytes], sent: list[tuple[bytes, bytes]], **more: Any) -> tuple[int, Any]:
    """Return status and JSON of the answer to a POST with a body in chunks."""

    async def main() -> tuple[int, Any]:
        scope = {**scope_with(BASE + sent), **more}
        application = ApplicationCommunicator(lane.application(), scope)
        for chunk in chunks:
            await application.send_input({"type": "http.request", "body": chunk, "more_body": True})
        await application.send_input({"type": "http.request", "body": b"", "more_body": False})
        start = await application.receive_output(5)
        answer = await application.receive_output(5)
        await application.wait(5)
        return start["status"], strict(answer["body"])

    return async_to_sync(main)()


@pytest.mark.parametrize("length", [None, str(len(PING)).encode()])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_body_in_chunks_is_read_whole(size: int, length: bytes | None) -> None:
    chunks = [PING[index : index + size] for index in range(0, len(PING), size)]
    sent = [] if length is None else [(b"content-length", length)]
    assert deliver(chunks, sent) == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})


@pytest.mark.parametrize("length", [None, b"5", b"40"])
def test_body_that_understates_its_length_is_counted(length: bytes | None, quiet: None) -> None:
    sent = [] if length is None else [(b"content-length", length)]
    status, answer = deliver([b" " * 2**18] * 4 + [PING], sent)
    assert (status, answer["error"]["code"]) == (413, -32600)


@pytest.mark.parametrize("length", [b"1048577", b"99999999999999999999"])
def test_body_that_overstates_its_length_is_refused(length: bytes, quiet: None) -> None:
    status, answer = deliver([PING], [(b"content-length", length)])
    assert (status, answer["error"]["code"]) == (413, -32600)


def test_body_shorter_than_its_length_is_incomplete(quiet: None) -> None:
    status, answer = deliver([PING], [(b"content-length", str(len(PING) + 50).encode())])
    assert (status, answer["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize("length", [b"-1", b"x", b"", b"1,1", b"1e3"])
def test_invalid_length_never_fails_the_server(length: bytes, quiet: None) -> None:
    status, answer = deliver([PING], [(b"content-length", length)])
    assert status in (200, 400)
    assert answer.get("error", {"code": -32600})["code"] == -32600


def test_modern_call_is_answered() -> None:
    status, answer = deliver([PUBLIC], MODERN)
    assert (status, answer["result"]["isError"]) == (200, False)


@pytest.mark.requirement("header.case")
@pytest.mark.parametrize("change", [bytes.upper, bytes.title, bytes.swapcase, bytes.lower])
def test_names_of_headers_are_case_insensitive(change: Callable[[bytes], bytes]) -> None:
    """Servers pass on names in lower case, as ASGI has it, but nothing relies on it."""
    sent = [(change(name), value) for name, value in MODERN]
    # With the addresses from a server, the direct lane reads the headers itself.
    for more in ({}, {"client": ("127.0.0.1", 50000), "server": ("127.0.0.1", 80)}):
        status, answer = deliver([PUBLIC], sent, **more)
        assert (status, answer["result"]["isError"]) == (200, False)


@pytest.mark.parametrize("index", range(len(MODERN)))
def test_duplicate_header_is_a_mismatch(index: int, quiet: None) -> None:
    for value in (MODERN[index][1], b"other"):
        status, answer = deliver([PUBLIC], [*MODERN, (MODERN[index][0], value)])
        assert (status, answer["error"]["code"], answer["id"]) == (400, -32020, 1)


@pytest.mark.parametrize("index", range(len(MODERN)))
def test_underscore_is_not_a_hyphen(index: int, quiet: None) -> None:
    """Django drops such headers under ASGI, so that they cannot replace the real ones."""
    sent = [*MODERN]
    sent[index] = (sent[index][0].replace(b"-", b"_"), sent[index][1])
    status, answer = deliver([PUBLIC], sent)
    assert (status, answer["error"]["code"]) == (400, -32020)


def test_header_with_an_underscore_overrides_nothing() -> None:
    status, _ = deliver([PUBLIC], [*MODERN, (b"mcp_name", b"drop"), (b"mcp_method", b"x")])
    assert status == 200


@pytest.mark.requirement("http.origin-checked")
@pytest.mark.parametrize(
    "sent",
    [[(b"origin", b"http://testserver")] * 2, [(b"origin", b"\xff")], [(b"origin", b"null")]],
    ids=["twice", "no ascii", "null"],
)
def test_origin_is_checked_unchanged(sent: list[tuple[bytes, bytes]], quiet: None) -> None:
    assert deliver([PING], sent)[0] == 403


def test_thousands_of_headers_are_not_a_failure() -> None:
    assert deliver([PING], [(b"x-many", b"1")] * 3000)[0] == 200

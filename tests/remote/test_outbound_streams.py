"""Responses of other services, read while they arrive."""

from __future__ import annotations

import gzip
import socket
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from mcp_bridge.outbound.addresses import is_global
from mcp_bridge.outbound.client import Outbound, OutboundError, Response
from tests.remote.upstreams.slow import SLOW
from tests.remote.upstreams.writing import LAST, begin, chunk
from tests.support.services import Received, Service, send, service


def compressed(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, gzip.compress(b"x" * 200_000), Content_Encoding="gzip")


def broken_gzip(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"\x1f\x8b\x08nothing", Content_Encoding="gzip")


def redirect(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, status=302, Location="/echo")


class Steps:
    """A compressed response, whose second half is written after the first was read."""

    def __init__(self) -> None:
        self.is_read = threading.Event()
        self.ports = set[int]()

    def __call__(self, received: Received, handler: BaseHTTPRequestHandler) -> None:
        self.ports.add(handler.client_address[1])
        coder = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        first = coder.compress(b"one") + coder.flush(zlib.Z_SYNC_FLUSH)
        handler.wfile.write(chunk(first))
        if self.is_read.wait(30):
            handler.wfile.write(chunk(coder.compress(b"two") + coder.flush()) + LAST)


def endless(received: Received, handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    while True:
        handler.wfile.write(chunk(b"x" * 8192))


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def other(steps: Steps) -> Iterator[Service]:
    answers = {each.__name__: each for each in (compressed, broken_gzip, redirect, endless)}
    with service(None, steps=steps, **answers, **SLOW) as running:
        yield running


@pytest.fixture
def outbound(other: Service) -> Iterator[Outbound]:
    made = Outbound(other.url, timeout=60, max_bytes=50)
    yield made
    made.close()


def opened(outbound: Outbound, path: str, check: Any = None) -> Any:
    return outbound.open("GET", path, {}, None, check)


def test_chunks_are_decompressed_while_they_arrive(outbound: Outbound, steps: Steps) -> None:
    with opened(outbound, "/steps") as response:
        chunks = response.chunks()
        assert next(chunks) == b"one"
        steps.is_read.set()
        assert b"".join(chunks) == b"two"


def test_connection_is_used_again_after_a_stream(outbound: Outbound, steps: Steps) -> None:
    steps.is_read.set()
    for _ in range(5):
        with opened(outbound, "/steps") as response:
            assert b"".join(response.chunks()) == b"onetwo"
    assert len(steps.ports) == 1


def test_stream_that_is_left_closes_its_connection(outbound: Outbound, steps: Steps) -> None:
    with opened(outbound, "/endless") as response:
        next(response.chunks())
    steps.is_read.set()
    with opened(outbound, "/steps") as response:
        assert response.read() == b"onetwo"


def test_large_chunks_are_decompressed_in_parts(outbound: Outbound) -> None:
    with opened(outbound, "/compressed") as response:
        sizes = [len(each) for each in response.chunks()]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 64 * 1024


def test_body_over_the_limit_is_not_read(outbound: Outbound) -> None:
    with pytest.raises(OutboundError, match="more than 50 bytes"):
        outbound.send("GET", "/compressed", {}, None)


def read(response: Response) -> object:
    return response.read()


def stream(response: Response) -> object:
    return list(response.chunks())


@pytest.mark.parametrize("way", [read, stream])
def test_errors_while_reading_are_outbound_errors(outbound: Outbound, way: Any) -> None:
    # They are raised inside the block, which may handle them.
    phrase = "^answered with invalid gzip data$"
    with opened(outbound, "/broken_gzip") as response, pytest.raises(OutboundError, match=phrase):
        way(response)


def test_rest_of_a_stream_has_a_deadline(outbound: Outbound) -> None:
    with opened(outbound, "/silent_stream") as response:
        chunks = response.chunks()
        assert next(chunks) == b": begun\n\n"
        response.expect_end(0.05)
        with pytest.raises(OutboundError, match="^did not answer in time$"):
            next(chunks)


def test_limits_of_one_call_do_not_reach_another(outbound: Outbound, steps: Steps) -> None:
    steps.is_read.set()
    with opened(outbound, "/silent_stream") as response:
        chunks = response.chunks()
        next(chunks)
        response.expect_end(0)
        with opened(outbound, "/steps") as other:
            assert other.read() == b"onetwo"
        with pytest.raises(OutboundError, match="^did not answer in time$"):
            next(chunks)


def test_check_may_end_a_stream(outbound: Outbound) -> None:
    class GivenUp(Exception): ...

    def check() -> None:
        raise GivenUp

    with pytest.raises(GivenUp), opened(outbound, "/silent_stream", check) as response:
        list(response.chunks())


def test_check_does_not_extend_the_pause(other: Service) -> None:
    outbound = Outbound(other.url, timeout=60, max_bytes=50, pause=0.2)
    checks: list[int] = []
    response = opened(outbound, "/silent_stream", lambda: checks.append(1))
    with pytest.raises(OutboundError, match="^did not answer in time$"), response as found:
        list(found.chunks())
    outbound.close()
    assert checks


def test_redirect_is_not_followed(outbound: Outbound, other: Service) -> None:
    assert outbound.send("GET", "/redirect", {}, None).status == 302
    assert [each.path for each in other.received] == ["/redirect"]


def test_proxies_of_the_environment_are_ignored(
    outbound: Outbound, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert outbound.send("GET", "/redirect", {}, None).status == 302


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"]])
def test_host_with_a_private_address_is_refused(
    other: Service, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    def resolve(host: str, port: int, **options: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    port = other.url.rpartition(":")[2]
    outbound = Outbound(
        f"http://upstream.example:{port}", timeout=60, max_bytes=50, allows=is_global
    )
    with pytest.raises(OutboundError, match="^cannot be reached$") as caught:
        outbound.send("GET", "/redirect", {}, None)
    assert not caught.value.is_sent
    assert other.received == []

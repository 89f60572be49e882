"""Answers of the service, however bad they are."""

from __future__ import annotations

import gzip
import logging
import os
import socket
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import route
from tests.ext.openapi.calling import (
    DOCUMENT,
    Offer,
    called,
    failed,
)
from tests.sources.operations.documents import STRING, of_object
from tests.support.services import Received, Service, send
from tests.support.serving import served

READS, WRITES = "read", "write"
MAYBE = " The action may or may not have been performed."


def answering(
    offer: Offer, answer: Callable[[Received, BaseHTTPRequestHandler], None], **options: Any
) -> Service:
    at_the_other_end = offer(**options)
    at_the_other_end.answers |= {"read": answer, "write": answer}
    return at_the_other_end


def sending(*given: Any, **more: Any) -> Callable[[Received, BaseHTTPRequestHandler], None]:
    return lambda received, handler: send(handler, *given, **more)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (sending({"detail": "secret"}, 401), "The service refused the site."),
        (sending(b"<html>no</html>", 403, "text/html"), "The service refused the site."),
        (sending({"message": "There is none."}, 404), "There is none."),
        (sending({"detail": "Slow."}, 429, Retry_After="7"), "Slow. Try again in 7 seconds."),
        (
            sending(b"<html>secret</html>", 200, "text/html"),
            "The service answered with an HTML page (200 OK) instead of data.",
        ),
        (
            sending(b"", 302, Location="http://127.0.0.1:1/secret"),
            "The service answered with a redirect (302 Found): not followed.",
        ),
        (
            sending(b"\x00" * 50, Content_Encoding="gzip"),
            "The service answered with invalid gzip data.",
        ),
        (
            sending(b"x", Content_Encoding="br"),
            "The service answered in the encoding 'br', which was not requested.",
        ),
    ],
)
def test_service_refusal_is_one_sentence(
    answer: Any, text: str, offer: Offer, caller: MCPClient
) -> None:
    at_the_other_end = answering(offer, answer)
    assert failed(caller, READS) == text
    assert len(at_the_other_end.received) == 1


def test_service_failure_leaves_the_outcome_unknown(offer: Offer, caller: MCPClient) -> None:
    at_the_other_end = answering(offer, sending({"detail": "secret"}, 503))
    assert failed(caller, READS) == (
        "The service failed (503 Service Unavailable). The same call may succeed later."
    )
    assert failed(caller, WRITES) == f"The service failed (503 Service Unavailable).{MAYBE}"
    assert len(at_the_other_end.received) == 2


def test_oversized_decompressed_answer_is_not_read(offer: Offer, caller: MCPClient) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    answering(offer, sending(bomb, Content_Encoding="gzip"), max_bytes=1_000_000)
    assert failed(caller, READS) == (
        "The service answered with more than 1000000 bytes, which is the limit; request less."
    )
    answering(offer, sending(gzip.compress(b'{"a":1}'), Content_Encoding="gzip"))
    assert called(caller, READS) == {"a": 1}


def test_oversized_answer_is_not_read(offer: Offer, caller: MCPClient) -> None:
    answering(offer, sending(b"x" * 1001), max_bytes=1000)
    assert "more than 1000 bytes" in failed(caller, READS)


def dripping(received: Received, handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def dripping_headers(received: Received, handler: BaseHTTPRequestHandler) -> None:
    for each in b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 100:
        handler.wfile.write(bytes([each]))
        time.sleep(0.05)


@pytest.mark.parametrize("answer", [dripping, dripping_headers])
def test_slow_answer_is_cut_off_at_the_deadline(
    answer: Any, offer: Offer, caller: MCPClient, caplog: pytest.LogCaptureFixture
) -> None:
    answering(offer, answer, timeout=0.3)
    begun = time.monotonic()
    assert failed(caller, WRITES) == f"The service did not answer in time.{MAYBE}"
    assert time.monotonic() - begun < 2
    assert failed(caller, READS) == "The service did not answer in time."


def test_interrupted_answer_is_reported(offer: Offer, caller: MCPClient) -> None:
    def hang_up(received: Received, handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True

    answering(offer, hang_up)
    assert failed(caller, WRITES) == f"The service broke off.{MAYBE}"


def test_unreachable_service_is_reported(offer: Offer, caller: MCPClient) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    offer(server=f"http://127.0.0.1:{port}")
    assert failed(caller, WRITES) == "The service cannot be reached."
    offer(server="https://nowhere.invalid", insecure=True)
    assert failed(caller, WRITES) == "The service cannot be reached."


@pytest.mark.parametrize("address", ["169.254.169.254", "[::ffff:169.254.169.254]", "0.0.0.0"])
def test_non_host_addresses_are_never_connected_to(
    address: str, offer: Offer, caller: MCPClient, caplog: pytest.LogCaptureFixture
) -> None:
    offer(server=f"http://{address}", insecure=True)
    assert failed(caller, READS) == "The service cannot be reached."
    assert "is not allowed" in caplog.text


def test_environment_variables_are_ignored(
    offer: Offer, caller: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    offer()
    assert called(caller, "read")["path"] == "/read"


def test_connections_are_reused_only_within_a_process(
    offer: Offer, caller: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = []

    def note(received: Received, handler: BaseHTTPRequestHandler) -> None:
        ports.append(handler.client_address[1])
        send(handler, {})

    answering(offer, note)
    for _ in range(3):
        called(caller, READS)
    assert len(set(ports)) == 1
    # As after a fork.
    monkeypatch.setattr(os, "getpid", lambda: -1)
    called(caller, READS)
    assert len(set(ports)) == 2


def test_field_errors_are_lines_with_argument_names(offer: Offer, caller: MCPClient) -> None:
    at_the_other_end = offer()
    errors = {"path": "Too old.", "body": "Too new."}
    detail = [{"loc": [place, "slug"], "msg": text} for place, text in errors.items()]
    at_the_other_end.answers["articles"] = sending({"detail": detail}, 422)
    assert failed(caller, "articles_put", slug="b", path_slug="a") == (
        "/path_slug: Too old.\n/slug: Too new."
    )


def test_output_schemas_are_sent_if_enabled(offer: Offer) -> None:
    operation = {
        "operationId": "read",
        "responses": {"200": {"content": {"application/json": {"schema": of_object(a=STRING)}}}},
    }
    document = DOCUMENT | {"paths": {"/read": {"get": operation}}}
    offer(document, operations=["read"])
    assert served("read").output_schema is None
    offer(document, operations=["read"], output_schemas=True)
    assert served("read").output_schema == {"type": "object", "properties": {"a": STRING}}


def test_service_refusals_are_logged(
    offer: Offer, caller: MCPClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mcp_bridge.ext.openapi")
    answering(offer, sending({"detail": "secret"}, 401))
    failed(caller, READS)
    assert "Tool 'read': the service answered 401" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("asynchronous", [False, True])
def test_calls_work_at_both_endpoints(
    asynchronous: bool, offer: Offer, user: Any, settings: Any
) -> None:
    offer(permissions=["auth.view_user"])
    route(settings, asynchronous=asynchronous)
    user.user_permissions.add(Permission.objects.get(codename="view_user"))
    caller = MCPClient(user=User.objects.get(pk=user.pk))
    assert called(caller, "read")["path"] == "/read"

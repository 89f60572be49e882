"""Calls of gRPC methods: streams, statuses, metadata, TLS."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.db import connection
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from mcp_bridge.features import Context, ToolCall
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.tokens.models import Token
from tests.ext.grpc.conftest import Offer
from tests.ext.grpc.echo import DATA, count, say, structured, told
from tests.support.serving import served


def failing(code: grpc.StatusCode, text: str, *details: Any) -> Any:
    """Return a method that fails with a status code and a text."""

    def fail(request: Any, sent: Any, context: Any) -> Any:
        if not details:
            context.abort(code, text)
        status = Status(code=code.value[0], message=text)
        for each in details:
            status.details.add().Pack(each)
        context.abort_with_status(rpc_status.to_status(status))

    return fail


def test_stream_is_a_list(offer: Offer) -> None:
    offer(DATA, {"Count": count})
    assert structured("echo_count", number=3) == {
        "result": [{}, {"number": 1}, {"number": 2}],
        "truncated": False,
    }


def test_stream_is_truncated_and_cancelled(offer: Offer) -> None:
    ended = threading.Event()

    def endless(request: Any, sent: Any, context: Any) -> Iterator[Any]:
        context.add_callback(ended.set)
        while context.is_active():
            yield {"number": 1}

    offer(DATA, {"Count": endless}, max_messages=5)
    answer = structured("echo_count")
    assert (len(answer["result"]), answer["truncated"]) == (5, True)
    assert ended.wait(5)


def test_stream_is_truncated_by_size(offer: Offer) -> None:
    def large(request: Any, sent: Any, context: Any) -> Iterator[Any]:
        for _ in range(50):
            yield {"data": b"x" * 1000}

    offer(DATA, {"Count": large}, max_bytes=5000)
    answer = structured("echo_count")
    assert (len(answer["result"]), answer["truncated"]) == (5, True)


Code = grpc.StatusCode


@pytest.mark.parametrize(
    "code",
    [
        *(Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.ALREADY_EXISTS, Code.FAILED_PRECONDITION),
        *(Code.OUT_OF_RANGE, Code.ABORTED, Code.PERMISSION_DENIED, Code.RESOURCE_EXHAUSTED),
    ],
)
def test_service_errors_for_callers_are_returned(offer: Offer, code: grpc.StatusCode) -> None:
    offer(DATA, {"Say": failing(code, "Not in March."), "Look": failing(code, "")})
    assert told("echo_say") == "Not in March."
    assert told("echo_look").endswith(".")


def test_each_refused_field_is_a_line(offer: Offer) -> None:
    wrong = BadRequest(
        field_violations=[
            {"field": "lines[0].sku", "description": "is not known"},
            {"field": 'labels["a/b"]', "description": "is too long"},
            {"field": "", "description": "cannot be"},
            {"field": "text"},
        ]
    )
    offer(DATA, {"Say": failing(Code.INVALID_ARGUMENT, "Wrong.", wrong)})
    assert told("echo_say").splitlines() == [
        "/lines/0/sku: is not known",
        "/labels/a~1b: is too long",
        "/: cannot be",
        "/text: is not valid",
    ]


def test_retry_delay_is_returned(offer: Offer) -> None:
    retry = RetryInfo(retry_delay=Duration(seconds=36, nanos=500_000_000))
    offer(DATA, {"Say": failing(Code.RESOURCE_EXHAUSTED, "Too much.", retry)})
    assert told("echo_say") == "Too much. Retry after 37 seconds."


@pytest.mark.parametrize("code", [Code.UNKNOWN, Code.INTERNAL, Code.DATA_LOSS])
def test_arbitrary_exceptions_are_only_logged(
    offer: Offer, code: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    offer(DATA, {"Say": failing(code, "the password is 7f3z")})
    text = told("echo_say")
    assert "7f3z" not in text
    assert "the site's log says why" in text
    assert "7f3z" in caplog.text


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (Code.UNAUTHENTICATED, "The service refused the site."),
        (Code.UNIMPLEMENTED, "This tool is not implemented yet."),
        (Code.UNAVAILABLE, "The service cannot be reached just now."),
        (Code.CANCELLED, "The call was cancelled."),
    ],
)
def test_site_misconfiguration_is_logged_and_hidden_from_callers(
    offer: Offer, code: grpc.StatusCode, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    offer(DATA, {"Look": failing(code, "token 7f3z of 10.0.0.1")})
    with caplog.at_level(logging.WARNING, "mcp_bridge.ext.grpc"):
        assert told("echo_look") == sentence
    assert "token 7f3z of 10.0.0.1" in caplog.text


def test_unknown_outcome_of_a_write_is_reported(offer: Offer) -> None:
    offer(DATA, {"Say": lambda request, sent, context: time.sleep(0.5)}, timeout=0.1)
    assert told("echo_say") == (
        "The service did not answer in time. The action may or may not have been performed: "
        "check before you retry."
    )


def test_unreachable_service_is_reported(offer: Offer) -> None:
    offer(DATA, target="127.0.0.1:1")
    assert told("echo_look") == "The service cannot be reached just now."


@pytest.mark.parametrize(("size", "fits"), [(100_000, True), (300_000, False)])
def test_oversized_answer_is_refused(offer: Offer, size: int, fits: bool) -> None:
    offer(DATA, {"Look": lambda request, sent, context: {"data": b"x" * size}}, max_bytes=200_000)
    if fits:
        assert len(structured("echo_look")["data"]) > size
    else:
        assert "is too large" in told("echo_look")


def test_request_too_large_for_the_service_is_reported(offer: Offer) -> None:
    limit = {"options": [("grpc.max_receive_message_length", 1000)]}
    offer(DATA, {"Look": say}, limit)
    assert "is too large" in told("echo_look", text="x" * 5000)


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_during_a_service_call(offer: Offer) -> None:
    seen = []

    def metadata(call: Any) -> list[Any]:
        seen.append(connection.in_atomic_block)
        return []

    offer(DATA, {"Say": say}, metadata=metadata)
    structured("echo_say")
    assert seen == [False]


def user_of(call: Any) -> list[tuple[str, str]]:
    return [("x-user", call.context.user.get_username())]


def test_service_receives_the_caller_in_every_thread(offer: Offer) -> None:
    offer(DATA, {"Look": say}, metadata=f"{__name__}.user_of")
    tool = served("echo_look")

    class Someone:
        def __init__(self, name: str) -> None:
            self.get_username = lambda: name

    def call(number: int) -> bool:
        made = ToolCall(
            tool=tool,
            arguments=tool.check({"number": number}),
            context=Context(user=Someone(f"user {number}")),
        )
        answer = tool.invoke(made)
        return (answer.number, answer.text) == (number, f"user {number}")

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(1, 200)))


@pytest.mark.requirement("auth.no-passthrough")
@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (("X-User", "ada"), "the metadata key 'X-User'"),
        (("grpc-timeout", "1"), "the metadata key 'grpc-timeout'"),
        ((":path", "/"), "the metadata key ':path'"),
        (("x-user", "Zoë 7f3z"), "the metadata value of 'x-user'"),
        (("x-user", "a\r\nb 7f3z"), "the metadata value of 'x-user'"),
        (("x-user", b"ada 7f3z"), "the metadata value of 'x-user'"),
        (("x-user-bin", "ada 7f3z"), "the metadata value of 'x-user-bin'"),
        (("x-user", None), "the metadata value of 'x-user'"),
        (("authorization", "Bearer {}"), "the caller's credential"),
        (("x-trace-bin", b"\xff{}"), "the caller's credential"),
    ],
)
def test_invalid_metadata_is_refused_before_the_call(
    offer: Offer, pair: Any, why: str, user: Any, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    _, secret = Token.objects.issue(user=user, name="test")
    key, value = pair
    if value and "{}" in str(value):
        value = (
            value.replace(b"{}", secret.encode()) if key[-4:] == "-bin" else value.format(secret)
        )
    heard: list[Any] = []
    offer(DATA, {"Look": lambda *args: heard.append(1)}, metadata=lambda call: [(key, value)])
    result = CheckedClient(token=secret).call_tool("echo_look", {})
    assert "the site's log says why" in text_of(result)
    assert why in caplog.text
    shown = text_of(result) + caplog.text + "".join(capfd.readouterr())
    assert "7f3z" not in shown
    assert secret not in shown
    assert heard == []


def test_non_ascii_names_are_sent_as_bytes(offer: Offer) -> None:
    offer(
        DATA,
        {"Look": lambda request, sent, context: {"text": sent["x-user-bin"].decode()}},
        metadata=lambda call: [("x-user-bin", "Zoë".encode())],
    )
    assert structured("echo_look") == {"text": "Zoë"}


@pytest.fixture(scope="module")
def certificate() -> tuple[bytes, bytes]:
    """A key and a self-signed certificate for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return (
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        made.public_bytes(serialization.Encoding.PEM),
    )


def test_service_is_called_over_tls(offer: Offer, certificate: tuple[bytes, bytes]) -> None:
    server = {"credentials": grpc.ssl_server_credentials([certificate])}
    offer(
        DATA,
        {"Look": say},
        server,
        credentials=lambda: grpc.ssl_channel_credentials(certificate[1]),
    )
    assert structured("echo_look", text="a") == {"text": "a"}


def test_untrusted_certificate_is_refused(
    offer: Offer, certificate: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    server = {"credentials": grpc.ssl_server_credentials([certificate])}
    offer(DATA, {"Look": say}, server, credentials=grpc.ssl_channel_credentials)
    assert told("echo_look") == "The service cannot be reached just now."
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text

"""Requests that the service receives: their values, headers and address."""

from __future__ import annotations

import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.contrib.auth.models import User

from mcp_bridge.features import Context, ToolCall
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.outbound.addresses import is_global, is_host
from mcp_bridge.records.rows import flush
from mcp_bridge.testing import MCPClient
from mcp_bridge.tokens.models import Token
from tests.ext.openapi.calling import (
    DOCUMENT,
    FORM,
    HOOK,
    Offer,
    called,
    failed,
)
from tests.sources.operations.documents import parameter
from tests.support.services import service
from tests.support.serving import served


def test_colliding_argument_names_reach_their_places(offer: Offer, caller: MCPClient) -> None:
    offer()
    got = called(
        caller, "articles_put", slug="new", path_slug="a b/é", query_dryRun="y", dryRun=True
    )
    assert got["method"] == "PUT"
    assert got["path"] == "/articles/a%20b%2F%C3%A9"
    assert got["query"] == "dryRun=y"
    assert json.loads(got["body"]) == {"slug": "new", "dryRun": True}


def test_lists_forms_files_and_nested_queries_are_received(offer: Offer, caller: MCPClient) -> None:
    at_the_other_end = offer()
    assert called(caller, "numbers", body=[1, 2])["body"] == "[1,2]"
    got = called(caller, "forms", title="a+b c", meta={"k": {"l": [1, 2]}})
    assert got["type"] == FORM
    assert parse_qsl(got["body"]) == [
        *(("title", "a+b c"), ("meta[k][l][]", "1"), ("meta[k][l][]", "2"))
    ]
    called(
        caller, "files", photo="data:image/png;base64,iVBORw==", photo_filename="a.png", title="é"
    )
    [*_, sent] = at_the_other_end.received
    whole = f"Content-Type: {sent.headers['content-type']}\r\n\r\n".encode() + sent.body
    first, second = message_from_bytes(whole).get_payload()  # type: ignore[misc]
    assert (first.get_filename(), first.get_payload(decode=True)) == ("a.png", b"\x89PNG")  # type: ignore[union-attr]
    assert second.get_payload(decode=True) == "é".encode()  # type: ignore[union-attr]
    got = called(caller, "articles_get", slug="x", filter={"a": {"b": "c d"}})
    assert got["query"] == "filter%5Ba%5D%5Bb%5D=c%20d"


@pytest.mark.parametrize("slug", ["..", ".", "", "a/../../admin", "..%2f"])
def test_value_cannot_change_the_path(slug: str, offer: Offer, caller: MCPClient) -> None:
    at_the_other_end = offer()
    result = caller.call_tool("articles_get", {"slug": slug})
    paths = [each.target for each in at_the_other_end.received]
    assert paths == ([] if result.get("isError") else ["/articles/..%252f"])


def test_delimiters_stay_within_their_value(offer: Offer, caller: MCPClient) -> None:
    offer()
    assert called(caller, "articles_get", slug="a?b=c#d")["path"] == "/articles/a%3Fb%3Dc%23d"
    assert failed(caller, "articles_get", slug="x", **{"X-User": "a\r\nX-Other: b"}) == (
        "/X-User: must contain only printable ASCII characters"
    )


def test_path_can_contain_a_query(offer: Offer, caller: MCPClient) -> None:
    parameters = [parameter("term", "path", required=True), parameter("q")]
    operation = {"operationId": "search", "parameters": parameters}
    offer(DOCUMENT | {"paths": {"/find?by={term}": {"get": operation}}}, operations=["search"])
    assert called(caller, "search", term="a?b&c", q="d")["query"] == "by=a%3Fb%26c&q=d"


def test_paths_are_below_that_of_the_server(offer: Offer, caller: MCPClient) -> None:
    url = offer().url
    offer(server=f"{url}/v2/")
    assert called(caller, "read")["path"] == "/v2/read"


def test_invalid_arguments_never_leave_the_site(offer: Offer, caller: MCPClient) -> None:
    at_the_other_end = offer()
    assert failed(caller, "numbers", body=["a"]).startswith("/body/0: must be an integer")
    assert failed(caller, "files", photo="https://example.com/a.png").startswith("/photo: is not")
    assert at_the_other_end.received == []
    flush()
    assert list(ToolCallRecord.objects.values_list("tool", "outcome").order_by("pk")) == [
        ("numbers", "refused"),
        ("files", "failed"),
    ]


# Who asks


@pytest.mark.requirement("auth.no-passthrough")
def test_hook_sets_headers_and_callers_credential_is_not_sent(offer: Offer, user: Any) -> None:
    at_the_other_end = offer(headers=HOOK)
    other = User.objects.create_user("bob")
    for each in (user, other):
        client = MCPClient(user=each)
        client.headers = {"Authorization": "Bearer of-the-caller", "Cookie": "sessionid=1"}
        # A model cannot override it.
        called(client, "articles_get", slug="x", **{"X-User": "root"})
    received = [each.headers for each in at_the_other_end.received]
    assert [each["x-user"] for each in received] == [user.get_username(), "bob"]
    assert [each["authorization"] for each in received] == ["Bearer of-the-site"] * 2
    assert "of-the-caller" not in str(received)
    assert "cookie" not in received[0]


@pytest.mark.requirement("auth.no-passthrough")
def test_hook_cannot_send_the_credential_of_the_call(
    offer: Offer, user: Any, caplog: pytest.LogCaptureFixture
) -> None:
    at_the_other_end = offer(headers="tests.ext.openapi.calling.passing_headers")
    _, secret = Token.objects.issue(user=user, name="test")
    text = failed(MCPClient(token=secret), "read")
    assert "the site's log says why" in text
    assert "the value of 'X-Token' contains the caller's credential" in caplog.text
    assert secret not in text + caplog.text
    assert at_the_other_end.received == []


def test_hook_can_refuse_and_its_errors_leak_nothing(
    offer: Offer, caller: MCPClient, caplog: pytest.LogCaptureFixture
) -> None:
    at_the_other_end = offer(headers="tests.ext.openapi.calling.refusing_headers")
    assert failed(caller, "read") == "Link your account at /account first."
    offer(headers="tests.ext.openapi.calling.broken_headers")
    assert "the site's log says why" in failed(caller, "read")
    assert "'Authorization' has a character" in caplog.text
    assert "secret" not in caplog.text
    assert at_the_other_end.received == []


def test_concurrent_calls_keep_users_apart(offer: Offer) -> None:
    at_the_other_end = offer(headers=HOOK)
    mapped = served("articles_get")
    users = [User(pk=number, username=f"user{number}") for number in range(8)]

    def ask(user: Any) -> None:

        for number in range(5):
            arguments = {"slug": f"{user.username}-{number}"}
            mapped.invoke(ToolCall(tool=mapped, arguments=arguments, context=Context(user=user)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, users))
    pairs = [(each.path, each.headers["x-user"]) for each in at_the_other_end.received]
    assert len(pairs) == 40
    assert all(path.startswith(f"/articles/{name}-") for path, name in pairs)


# The way there


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate of localhost and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8
    file = tmp_path / "certificate.pem"
    file.write_bytes(
        made.public_bytes(pem) + key.private_bytes(pem, private, serialization.NoEncryption())
    )
    return file


def test_server_certificate_and_hostname_are_verified(
    offer: Offer, caller: MCPClient, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with service(tls=context) as secured:
        by_name = secured.url.replace("127.0.0.1", "localhost")
        offer(server=by_name, ca_file=certificate)
        assert called(caller, "read")["path"] == "/read"
        offer(server=secured.url, ca_file=certificate)
        assert failed(caller, "read") == "The service cannot be reached."
        assert "IP address mismatch" in caplog.text
        offer(server=by_name)
        assert failed(caller, "write") == "The service cannot be reached."
        assert "self-signed certificate" in caplog.text


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "::1",
            "10.0.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "fe80::1%eth0",
        ),
        *("192.168.1.1", "fd00::1", "224.0.0.1", "::", "255.255.255.255", "240.0.0.1"),
        *("::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "ff02::1"),
        *("2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", "2001:db8::1"),
    ],
)
def test_private_addresses_are_recognised_in_every_spelling(address: str) -> None:
    assert not is_global(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"])
def test_public_addresses_are_recognised(address: str) -> None:
    assert is_global(address)
    assert is_host(address)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *((each, True) for each in ("127.0.0.1", "::1", "10.0.0.1", "fd00::1", "::ffff:10.0.0.1")),
        *((each, False) for each in ("169.254.169.254", "fe80::1%eth0", "0.0.0.0", "224.0.0.1")),
        *((each, False) for each in ("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "::")),
        *((each, False) for each in ("2002:a9fe:a9fe::1", "255.255.255.255", "ff02::1")),
    ],
)
def test_private_hosts_are_allowed_and_link_local_refused(address: str, expected: bool) -> None:
    assert is_host(address) is expected

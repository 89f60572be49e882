"""Findings of mcp_doctor on a live server and on proxies before it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.management.test_doctor import Doctor
from tests.support import site
from tests.support.serving import taking

pytestmark = [pytest.mark.alone, pytest.mark.django_db(transaction=True)]

Headers = dict[str, str]
# Takes the method, the path and the headers of a request, which it may change, and returns the
# proxy's own answer, if any: the status, the headers and the body.
Rule = Callable[[str, str, Headers], tuple[int, Headers, bytes] | None]
HTML = {"Content-Type": "text/html"}


@contextmanager
def proxy(
    upstream: str, rule: Rule, hidden: str = "", context: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serve a reverse proxy, which takes the header ``hidden`` out of answers; yield its origin."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = dict(self.headers.items())
            answer = rule(self.command, self.path, headers)
            if answer is None:
                connection = HTTPConnection(urlsplit(upstream).netloc, timeout=20)
                connection.request(self.command, urlsplit(self.path).path, body, headers)
                response = connection.getresponse()
                passed = {name: value for name, value in response.getheaders() if name != hidden}
                answer = response.status, passed, response.read()
                connection.close()
            status, passed, content = answer
            self.send_response(status)
            for name, value in {**passed, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = handle_any

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http{'s' * (context is not None)}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def passing(method: str, path: str, headers: Headers) -> None:
    """Pass everything on."""


def without(*names: str) -> Rule:
    """Return a proxy that drops headers of requests."""

    def drop(method: str, path: str, headers: Headers) -> None:
        for name in [each for each in headers if each.lower() in names]:
            del headers[name]

    return drop


def answering(status: int, body: bytes = b"<h1>Page</h1>", **headers: str) -> Rule:
    """Return a proxy that answers for itself."""
    return lambda method, path, received: (status, {**HTML, **headers}, body)


@pytest.fixture
def secret(user: Any) -> str:
    """A token of an ordinary user."""
    return Token.objects.issue(user=user, name="test")[1]


@pytest.fixture
def examine(live_server: Any, secret: str) -> Callable[..., Doctor]:
    """Run the doctor against a proxy with a rule."""

    def run(rule: Rule = passing, hidden: str = "", token: str | None = secret) -> Doctor:
        with proxy(live_server.url, rule, hidden) as origin:
            return Doctor("--url", f"{origin}/mcp", *(["--token", token] if token else []))

    return run


Examine = Callable[..., Doctor]


def test_sound_live_server_has_no_findings(live_server: Any, secret: str) -> None:
    for address in (f"{live_server.url}/mcp", f"{live_server.url}/mcp/"):
        doctor = Doctor("--url", address, "--token", secret)
        assert (doctor.grave(), doctor.failed) == ([], False)
        assert doctor.found("ok", "endpoint, tools", f"{len(site.TOOLS)} tools")


def test_transparent_proxy_has_no_findings(examine: Examine) -> None:
    assert examine().grave() == []


@pytest.mark.parametrize(
    ("rule", "area", "text", "remedy"),
    [
        (without("mcp-method"), "discovery", "server/discover returned", "Mcp-Method"),
        (without("origin"), "origin", "returned status 200", "forward the Origin header"),
        (answering(200), "handshake", "which is a page", "serves the endpoint at /mcp, /mcp/"),
        (answering(401), "handshake", "a login that is not the endpoint's", "exempt this address"),
        (answering(403), "handshake", "such as Django's for CSRF", "/mcp, /mcp/"),
        (answering(404), "handshake", "an unknown address", "/mcp, /mcp/"),
        (answering(405), "handshake", "does not accept POST", "W031"),
        (answering(413), "handshake", "oversized body", "client_max_body_size"),
        (answering(500), "handshake", "an error page of the server", "log"),
        (answering(502), "handshake", "unreachable site", "Start the site's server"),
        (answering(503), "handshake", "unavailable site", "maintenance"),
        (answering(504), "handshake", "a timeout", "busy workers"),
        (answering(418), "handshake", "not the endpoint's JSON", "Another view"),
        (answering(301, Location="/mcp/"), "handshake", "loses its body", "serves both forms"),
        (answering(308, Location="https://a.example/mcp"), "handshake", "a.example", "in clients"),
        (answering(302, Location="/login/?next=/mcp"), "handshake", "/login/", "exempt the end"),
        (answering(301, Location="/mcp"), "handshake", "redirects", "SECURE_PROXY_SSL_HEADER"),
    ],
)
def test_interfering_proxies_are_findings(
    examine: Examine, rule: Rule, area: str, text: str, remedy: str
) -> None:
    doctor = examine(rule)
    found = [each for each in doctor.findings if each["area"] == f"endpoint, {area}"]
    (finding,) = [each for each in found if each["level"] == "error"]
    assert text in finding["text"]
    assert remedy in finding["remedy"]
    assert doctor.failed


def test_dropped_authorization_header_is_a_finding(examine: Examine, settings: Any) -> None:
    # Some tools are public, so no caller is refused; only the wrong credential reveals the fault.
    doctor = examine(without("authorization"))
    assert doctor.found("error", "endpoint, credential", "A wrong credential is not refused")
    serve(settings, taking(int))
    doctor = examine(without("authorization"))
    (finding,) = [each for each in doctor.findings if each["area"] == "endpoint, handshake"]
    assert "WSGIPassAuthorization On" in finding["remedy"]
    assert examine().grave() == []


def test_dropped_challenge_is_a_finding(examine: Examine, settings: Any) -> None:
    serve(settings, taking(int))
    doctor = examine(hidden="WWW-Authenticate")
    assert doctor.found("warning", "endpoint, credential", "without WWW-Authenticate")
    assert examine().found("ok", "endpoint, credential", "401 with WWW-Authenticate")


def test_invalid_and_dropped_credentials_are_distinguished(examine: Examine) -> None:
    doctor = examine(token="wrong")
    (finding,) = [each for each in doctor.findings if each["area"] == "endpoint, handshake"]
    assert "The header arrived, but the credential is invalid" in finding["remedy"]
    assert doctor.failed


def test_disallowed_host_is_a_finding(examine: Examine, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["library.example"]
    doctor = examine()
    (finding,) = [each for each in doctor.findings if each["area"] == "endpoint, handshake"]
    assert "USE_X_FORWARDED_HOST" in finding["remedy"]
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    assert not examine().failed


def test_page_served_to_get_is_a_finding(examine: Examine) -> None:
    def page(method: str, path: str, headers: Headers) -> tuple[int, Headers, bytes] | None:
        return (200, HTML, b"<h1>Page</h1>") if method == "GET" else None

    assert examine(page).found("error", "endpoint, methods", "GET returned status 200")


def test_redirected_slash_address_is_a_finding(examine: Examine) -> None:
    def redirect(method: str, path: str, headers: Headers) -> tuple[int, Headers, bytes] | None:
        return (301, {"Location": "/mcp"}, b"") if path == "/mcp/" else None

    assert examine(redirect).found("warning", "endpoint, slash", "returned status 301")


def test_closed_port_is_a_finding(live_server: Any, secret: str) -> None:
    with proxy(live_server.url, passing) as origin:
        pass
    doctor = Doctor("--url", f"{origin}/mcp", "--token", secret)
    assert doctor.found("error", "endpoint, handshake", "cannot be reached")
    assert doctor.failed


def test_unanswered_request_is_a_finding(secret: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        doctor = Doctor("--url", address, "--timeout", "0.3", "--token", secret)
    (finding,) = [each for each in doctor.findings if each["area"] == "endpoint, handshake"]
    assert "timed out" in finding["text"]
    assert "firewall" in finding["remedy"]


def test_port_without_tls_is_a_finding(live_server: Any, secret: str) -> None:
    address = live_server.url.replace("http:", "https:")
    doctor = Doctor("--url", f"{address}/mcp", "--token", secret)
    (finding,) = [each for each in doctor.findings if each["area"] == "endpoint, handshake"]
    assert "The port may not use TLS" in finding["remedy"]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """An untrusted certificate for 127.0.0.1, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "certificate.pem"
    path.write_bytes(built.public_bytes(pem) + secret)
    return path


def encrypted(url: str, rule: Rule, certificate: Path, secret: str) -> Doctor:
    """Run the doctor against a proxy that ends TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with proxy(url, rule, context=context) as origin:
        return Doctor("--url", f"{origin}/mcp", "--token", secret)


def test_untrusted_certificate_is_a_finding(
    live_server: Any, secret: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor = encrypted(live_server.url, passing, certificate, secret)
    (finding,) = [each for each in doctor.findings if each["area"] == "endpoint, handshake"]
    assert "certificate verify failed" in finding["text"]
    assert "fullchain.pem" in finding["remedy"]
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    doctor = encrypted(live_server.url, passing, certificate, secret)
    assert doctor.found("ok", "endpoint, handshake", "speaks 2025-11-25")


def test_unconfigured_tls_proxy_is_a_finding(
    live_server: Any,
    secret: str,
    certificate: Path,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    doctor = encrypted(live_server.url, passing, certificate, secret)
    assert doctor.found("error", "endpoint, origin", "own origin")

    def ends_tls(method: str, path: str, headers: Headers) -> None:
        headers["X-Forwarded-Proto"] = "https"

    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert encrypted(live_server.url, ends_tls, certificate, secret).grave() == []


def test_plain_http_on_the_network_is_a_warning(
    live_server: Any, secret: str, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    with proxy(live_server.url, passing) as forward:
        monkeypatch.setenv("http_proxy", forward)
        doctor = Doctor("--url", "http://library.example/mcp", "--token", secret)
    assert doctor.found("warning", "endpoint, HTTPS", "unencrypted")
    monkeypatch.delenv("http_proxy")
    assert Doctor("--url", f"{live_server.url}/mcp", "--token", secret).grave() == []

"""Discovery, fetching and caching of an issuer's keys."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from mcp_bridge.ext.jwt import keys as jwks
from mcp_bridge.models import ToolCallRecord
from tests.ext.jwt.site import IssuerAuthentication, refused, status
from tests.support.issuer import KEYS, OAUTH, OIDC, Issuer, private_key, public_jwk


def test_rfc_8414_metadata_is_found(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{issuer.url}/realms/main"
    monkeypatch.setattr(IssuerAuthentication, "issuer", url)
    issuer.serve(f"{OAUTH}/realms/main", {**issuer.metadata(), "issuer": url})
    assert status(issuer.token(iss=url)) == 200
    assert issuer.asked == [f"/realms/main{OIDC}", f"{OAUTH}/realms/main", KEYS]


def test_keys_can_be_at_an_address_without_metadata(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IssuerAuthentication, "jwks_url", f"{issuer.url}{KEYS}")
    assert status(issuer.token()) == 200
    assert issuer.asked == [KEYS]


def dripping(handler: Any) -> None:
    """Answer one byte at a time, without end."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


AWAY: dict[str, dict[str, Any]] = {
    "keys not found": {KEYS: (404, b"")},
    "keys broken": {KEYS: (500, b"")},
    "huge": {KEYS: (200, b" " * (jwks.MAX_BYTES + 1))},
    "garbage": {KEYS: (200, b"<html>\xff")},
    "deep": {KEYS: (200, b"[" * 100_000)},
    "a list": {KEYS: (200, b"[]")},
    "keys no list": {KEYS: (200, b'{"keys": {}}')},
    "no keys": {KEYS: (200, b'{"keys": []}')},
    "no objects": {KEYS: (200, b'{"keys": [1]}')},
    "redirect": {KEYS: lambda handler: handler.send(302, b"", Location="/elsewhere")},
    "too short": {KEYS: lambda handler: handler.send(200, b"{}", **{"Content-Length": "9"})},
    "no HTTP": {KEYS: lambda handler: handler.wfile.write(b"hello\r\n\r\n")},
    "dripping": {KEYS: dripping},
    "silent": {KEYS: lambda handler: time.sleep(1)},
    "metadata not found": {OIDC: (404, b"")},
    "metadata of another issuer": {OIDC: (200, b'{"issuer": "https://evil.example"}')},
    "keys not https": {OIDC: "http://192.0.2.1/keys"},
    "keys in a file": {OIDC: "file:///etc/passwd"},
    "keys nowhere": {OIDC: None},
}


@pytest.mark.parametrize("name", AWAY)
def test_unreachable_issuer_without_cached_keys_is_503(
    issuer: Issuer,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(jwks, "DEADLINE", 0.3)
    for path, answer in AWAY[name].items():
        if answer is None or isinstance(answer, str):
            issuer.serve(path, {**issuer.metadata(), "jwks_uri": answer})
        else:
            issuer.answers[path] = answer
    began = time.monotonic()
    response = refused(issuer.token())
    assert time.monotonic() - began < 3
    assert (response.status_code, response["Retry-After"]) == (503, "10")
    assert "WWW-Authenticate" not in response
    assert issuer.url.encode() not in response.content
    # Until the next attempt, no request waits.
    wait_for_fetch(issuer)
    asked, began = len(issuer.asked), time.monotonic()
    assert refused(issuer.token()).status_code == 503
    assert (len(issuer.asked), time.monotonic() - began < 3) == (asked, True)
    assert "/elsewhere" not in issuer.asked
    assert ToolCallRecord.objects.filter(error_code="unavailable").exists()
    assert f"The keys of {issuer.url} could not be fetched" in caplog.text


def wait_for_fetch(issuer: Issuer) -> None:
    """Wait until no thread fetches the keys of the issuer any more."""
    thread = jwks.keys_of(issuer.url, None)._thread
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()


def test_unreachable_issuer_is_retried(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    issuer.stop()
    assert status(issuer.token()) == 503
    issuer.start()
    assert status(issuer.token()) == 503
    monkeypatch.setattr(jwks, "MIN_INTERVAL", 0)
    assert status(issuer.token()) == 200


def test_keys_are_fetched_once_for_many_requests(issuer: Issuer) -> None:
    for _ in range(5):
        assert status(issuer.token()) == 200
    assert issuer.asked == [OIDC, KEYS]


def test_rotated_key_is_found_at_once(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "MIN_INTERVAL", 0)
    old = issuer.token()
    assert status(old) == 200
    issuer.jwks.append(public_jwk(new := private_key("RS256", 1), "RS256", kid="b"))
    assert status(issuer.token(new, header={"kid": "b"})) == 200
    assert status(old) == 200
    assert issuer.asked == [OIDC, KEYS] * 2


def test_withdrawn_key_is_refused_after_the_cache_expires(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status(issuer.token()) == 200
    issuer.jwks = [public_jwk(private_key("RS256", 1), "RS256", kid="b")]
    assert status(issuer.token()) == 200
    monkeypatch.setattr(jwks, "MAX_AGE", 0)
    monkeypatch.setattr(jwks, "MIN_INTERVAL", 0)
    assert status(issuer.token()) == 401


def test_cached_keys_are_used_while_the_issuer_is_unreachable(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status(issuer.token()) == 200
    monkeypatch.setattr(jwks, "MAX_AGE", 0)
    monkeypatch.setattr(jwks, "MIN_INTERVAL", 0)
    issuer.stop()
    for _ in range(3):
        assert status(issuer.token()) == 200
    # An unknown key must not make the site report that the issuer is unreachable.
    assert status(issuer.token(header={"kid": "b"})) == 401


def test_requests_do_not_wait_for_an_unresponsive_issuer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status(issuer.token()) == 200
    monkeypatch.setattr(jwks, "MAX_AGE", 0)
    monkeypatch.setattr(jwks, "MIN_INTERVAL", 0)
    monkeypatch.setattr(jwks, "DEADLINE", 0.3)
    issuer.answers[OIDC] = lambda handler: time.sleep(1)
    assert status(issuer.token()) == 200
    wait_for_fetch(issuer)
    monkeypatch.setattr(jwks, "DEADLINE", 20)
    began = time.monotonic()
    for kid in ("a", "b"):
        assert status(issuer.token(header={"kid": kid})) == (200 if kid == "a" else 401)
    assert time.monotonic() - began < 0.9
    wait_for_fetch(issuer)


def test_unknown_key_ids_do_not_cause_many_fetches(issuer: Issuer) -> None:
    for number in range(30):
        assert status(issuer.token(header={"kid": f"made-up-{number}"})) == 401
    assert issuer.asked == [OIDC, KEYS]


@pytest.mark.django_db(transaction=True)
def test_concurrent_threads_share_one_fetch(issuer: Issuer) -> None:
    issuer.answers[OIDC] = lambda handler: (
        time.sleep(0.3),
        handler.send(200, json.dumps(issuer.metadata()).encode()),
    )[1]
    found: list[int] = []
    token = issuer.token()

    def ask() -> None:
        found.append(len(jwks.keys_of(issuer.url, None).find("a")))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, issuer.asked) == ([1] * 8, [OIDC, KEYS])
    assert status(token) == 200

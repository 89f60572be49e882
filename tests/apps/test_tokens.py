from __future__ import annotations

import hashlib
import hmac
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.tokens.authentication import TokenAuthentication
from mcp_bridge.tokens.models import Token, digest

pytestmark = pytest.mark.django_db


def issue(user: Any, **values: Any) -> tuple[Token, str]:
    return Token.objects.issue(user=user, name="Laptop", **values)


def status(authorization: str | bytes | None) -> int:
    """Return the HTTP status that an Authorization header gets."""
    client = CheckedClient()
    if authorization is not None:
        client.headers["Authorization"] = authorization  # type: ignore[assignment]
    try:
        client.call_tool("echo", {"text": "x"})
    except MCPError as refused:
        return int(client.response.status_code) if refused.error["code"] != -32602 else 404
    return int(client.response.status_code)


def test_token_authenticates_its_user(user: Any) -> None:
    _, secret = issue(user)
    assert status(f"Bearer {secret}") == 200
    client = CheckedClient(token=secret)
    assert client.call_tool("who")["structuredContent"]["user"] == "ada"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_scheme_is_case_insensitive(scheme: str, user: Any) -> None:
    assert status(f"{scheme} {issue(user)[1]}") == 200


def test_secret_is_long_random_and_prefixed(user: Any) -> None:
    secrets = {issue(user)[1] for _ in range(20)}
    assert len(secrets) == 20
    assert all(secret.startswith("mcp_") and len(secret) >= 4 + 43 for secret in secrets)


def test_secret_is_not_stored(user: Any) -> None:
    token, secret = issue(user)
    stored = Token.objects.values().get(pk=token.pk)
    assert secret not in str(stored)
    assert secret.removeprefix("mcp_")[12:] not in str(stored)
    assert not hasattr(token, "secret")


def test_digest_is_keyed_by_the_secret_key(user: Any, settings: Any) -> None:
    token, secret = issue(user)
    plain = hashlib.sha256(secret.encode()).hexdigest()
    assert token.digest == digest(secret) != plain
    assert token.digest != hmac.new(b"", secret.encode(), "sha256").hexdigest()
    settings.SECRET_KEY = "another"
    assert token.digest != digest(secret)


def test_digests_are_unique(user: Any) -> None:
    token, _ = issue(user)
    with pytest.raises(IntegrityError):
        Token.objects.create(user=user, name="twin", digest=token.digest, hint="x")


def test_revoked_token_is_refused(user: Any) -> None:
    token, secret = issue(user)
    token.revoke()
    first = token.revoked_at
    token.revoke()
    assert (status(f"Bearer {secret}"), token.revoked_at, token.is_valid) == (401, first, False)


@pytest.mark.parametrize(("hours", "expected"), [(1, 200), (-1, 401), (0, 401)])
def test_token_is_valid_until_it_expires(hours: int, expected: int, user: Any) -> None:
    _, secret = issue(user, expires_at=timezone.now() + timedelta(hours=hours))
    assert status(f"Bearer {secret}") == expected


def test_token_of_an_inactive_user_is_refused(user: Any) -> None:
    _, secret = issue(user)
    get_user_model().objects.update(is_active=False)
    assert status(f"Bearer {secret}") == 401


def test_token_is_deleted_with_its_user(user: Any) -> None:
    _, secret = issue(user)
    user.delete()
    assert status(f"Bearer {secret}") == 401


def test_reason_of_a_refused_token_is_not_disclosed(user: Any) -> None:
    revoked, expired, (_, inactive) = (
        issue(user),
        issue(user),
        issue(get_user_model().objects.create_user("bob", is_active=False)),
    )
    revoked[0].revoke()
    Token.objects.filter(pk=expired[0].pk).update(expires_at=timezone.now())
    answers = set()
    for secret in (revoked[1], expired[1], inactive, "mcp_unknown"):
        client = CheckedClient(token=secret)
        with pytest.raises(MCPError):
            client.call_tool("echo", {"text": "x"})
        answers.add((client.response.content, str(client.response.headers)))
    assert len(answers) == 1


def mangled(secret: str) -> list[Any]:
    return [
        *(f"Bearer{secret}", f"Bearer\t{secret}", f"Bearer {secret} ", f" Bearer {secret}x"),
        *(f"Bearer {secret}\u00e9", f"Bearer {secret},{secret}", f"Bearer {secret} {secret}"),
        *(f"Bearer {secret[:-1]}", f"Bearer {secret}A", f"Bearer {secret.upper()}"),
        *(f"Token {secret}", f"Basic {secret}", secret, "Bearer", "Bearer ", "Bearer null"),
        *("Bearer undefined", f'Bearer "{secret}"', f"Bearer ={secret}", f"Bearer {secret[4:]}"),
        *(f"Bearer {'x' * 5000}", "Bearer \x00", f"Bearer {digest(secret)}"),
    ]


def test_malformed_header_is_refused(user: Any) -> None:
    _, secret = issue(user)
    wrong = [header for header in mangled(secret) if status(header) != 401]
    # HTTP servers strip blanks from the ends of a header.
    assert [header for header in wrong if header.strip() != f"Bearer {secret}"] == []


def test_missing_header_is_anonymous(user: Any) -> None:
    assert (status(None), status("")) == (404, 404)


def test_token_in_the_address_is_ignored(user: Any) -> None:
    _, secret = issue(user)
    client = CheckedClient(path=f"/mcp?access_token={secret}&token={secret}")
    with pytest.raises(MCPError, match="Unknown tool"):
        client.call_tool("echo", {"text": "x"})


def test_token_is_valid_under_a_fallback_key(user: Any, settings: Any) -> None:
    _, secret = issue(user)
    old, settings.SECRET_KEY = settings.SECRET_KEY, "a new key"
    assert status(f"Bearer {secret}") == 401
    settings.SECRET_KEY_FALLBACKS = ["another", old]
    assert status(f"Bearer {secret}") == 200
    assert status(f"Bearer {issue(user)[1]}") == 200


def test_use_is_recorded_at_most_once_a_minute(user: Any) -> None:
    token, secret = issue(user)
    assert token.last_used_at is None
    status(f"Bearer {secret}")
    token.refresh_from_db()
    first = token.last_used_at
    assert first is not None
    with CaptureQueriesContext(
        connection,
    ) as queries:
        status(f"Bearer {secret}")
    assert not [query for query in queries if f'UPDATE "{Token._meta.db_table}"' in query["sql"]]
    Token.objects.update(last_used_at=first - timedelta(seconds=61))
    status(f"Bearer {secret}")
    token.refresh_from_db()
    assert token.last_used_at >= first


def test_refused_token_is_not_recorded_as_used(user: Any) -> None:
    token, secret = issue(user)
    token.revoke()
    status(f"Bearer {secret}")
    token.refresh_from_db()
    assert token.last_used_at is None


def test_concurrent_requests_record_one_use(user: Any) -> None:
    token, _ = issue(user)
    one, other = Token.objects.get(pk=token.pk), Token.objects.get(pk=token.pk)
    one.mark_used()
    token.refresh_from_db()
    noted = token.last_used_at
    other.mark_used()
    token.refresh_from_db()
    assert token.last_used_at == noted


def test_one_query_finds_token_and_user(user: Any) -> None:
    _, secret = issue(user)
    status(f"Bearer {secret}")
    request = Request(RequestFactory().post("/", HTTP_AUTHORIZATION=f"Bearer {secret}"))
    with CaptureQueriesContext(connection) as queries:
        found, token = TokenAuthentication().authenticate(request)  # type: ignore[misc]
    assert (found, token.name, len(queries)) == (user, "Laptop", 1)


def test_class_works_in_drf_views(user: Any) -> None:
    factory, authentication = RequestFactory(), TokenAuthentication()
    assert authentication.authenticate(Request(factory.get("/"))) is None
    wrong = Request(factory.get("/", HTTP_AUTHORIZATION="Bearer mcp_wrong"))
    with pytest.raises(AuthenticationFailed):
        authentication.authenticate(wrong)
    for header in ("Bearer wrong", "Bearer", "Token mcp_wrong", "Bearermcp_wrong"):
        # Possibly a credential of another class.
        assert (
            authentication.authenticate(Request(factory.get("/", HTTP_AUTHORIZATION=header)))
            is None
        )
    assert authentication.authenticate_header(wrong) == 'Bearer realm="mcp"'


def test_secret_is_never_logged(user: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    _, secret = issue(user)
    status(f"Bearer {secret}")
    status(f"Bearer {secret}x")
    assert secret[12:] not in caplog.text


def test_token_is_shown_by_name_and_prefix(user: Any) -> None:
    token, secret = issue(user)
    assert str(token) == f"Laptop ({secret[:12]}…)"

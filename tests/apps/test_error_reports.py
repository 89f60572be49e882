"""Error mails, which show the local variables of each frame, hold no secret of ours."""

from __future__ import annotations

import secrets
from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.urls import path, reverse
from rest_framework.authentication import BaseAuthentication

from mcp_bridge.access import throttling
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.serving import route, serve
from mcp_bridge.tokens.models import Token
from tests.apps.test_tokens_admin import staff
from tests.support.reports import failing, mails

pytestmark = [pytest.mark.alone, pytest.mark.django_db(transaction=True)]
MARKER = "MARKER" * 7


class KeyAuthentication(BaseAuthentication):
    """Of a credential that is its own key, as that of DRF's tokens is."""

    def authenticate(self, request: Any) -> tuple[Any, str]:
        return get_user_model().objects.get(), request.META["HTTP_AUTHORIZATION"].split()[1]


def ping() -> str:
    """Answer."""
    return "pong"


def reported(number: int, act: Any) -> tuple[int, list[str]]:
    """Return the statements there were, and the mails, where the n-th statement fails."""
    with failing(number) as statements:
        act()
    return len(statements), mails()


def test_no_failure_while_a_token_is_issued_shows_its_secret(
    user: Any, settings: Any, monkeypatch: Any
) -> None:
    route(settings, path("admin/", admin.site.urls))
    browser = staff("everything")
    browser.raise_request_exception = False
    monkeypatch.setattr(secrets, "token_urlsafe", lambda size: MARKER)
    address = reverse("admin:mcp_bridge_tokens_token_add")
    data = {"user": user.pk, "name": "Laptop", "expires_at_0": "", "expires_at_1": ""}
    number, sent, made = 0, 0, 0
    while made >= number:
        number += 1
        Token.objects.all().delete()
        made, found = reported(number, lambda: browser.post(address, data))
        sent += len(found)
        assert not any(MARKER in each for each in found)
        # What a message says is in its cookie in another form.
        assert "messages" not in browser.cookies
    assert sent > 5
    assert not any(MARKER in str(each.get_decoded()) for each in Session.objects.all())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_no_failure_while_a_token_is_read_shows_it(
    asynchronous: bool, user: Any, settings: Any
) -> None:
    serve(settings, ping, permissions="auth.add_group", asynchronous=asynchronous)
    _, secret = Token.objects.issue(user=user, name="Laptop")
    number, sent, made = 0, 0, 0
    while made >= number:
        number += 1

        def call() -> None:
            with suppress(MCPError):
                MCPClient(token=secret).call_tool("ping", {})

        made, found = reported(number, call)
        sent += len(found)
        assert not any(secret in each for each in found)
    assert sent > 1


def test_no_failure_of_a_throttle_shows_a_credential_that_is_its_own_key(
    user: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What another test has logged is not logged again for a minute.
    monkeypatch.setattr(throttling, "_breakers", defaultdict(throttling.CircuitBreaker))
    throttle = "mcp_bridge.access.throttling.CredentialRateThrottle"
    settings.MCP_BRIDGE = {
        "AUTHENTICATION_CLASSES": ["tests.apps.test_error_reports.KeyAuthentication"],
        "THROTTLE_CLASSES": [throttle],
        "THROTTLE_RATES": {"tools": "5/min"},
    }
    cache = "django.core.cache.backends.db.DatabaseCache"
    settings.CACHES = {"default": {"BACKEND": cache, "LOCATION": "not_there"}}
    serve(settings, ping)
    client = MCPClient()
    client.headers["Authorization"] = f"Key {MARKER}"
    with failing(0):
        client.call_tool("ping", {})
    assert "does not answer" in "".join(mails())
    assert not any(MARKER in each for each in mails())

"""Error mails show the local variables of each frame, but no secrets of this package."""

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
    """A class whose credentials are their own primary key, as DRF's tokens are."""

    def authenticate(self, request: Any) -> tuple[Any, str]:
        return get_user_model().objects.get(), request.META["HTTP_AUTHORIZATION"].split()[1]


def ping() -> str:
    """Answer."""
    return "pong"


def reported(number: int, act: Any) -> tuple[int, list[str]]:
    """Return the number of statements and the mails if the n-th statement fails."""
    with failing(number) as statements:
        act()
    return len(statements), mails()


def test_reports_of_failed_issuing_show_no_secret(
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
        # A cookie would hold messages in another encoding.
        assert "messages" not in browser.cookies
    assert sent > 5
    assert not any(MARKER in str(each.get_decoded()) for each in Session.objects.all())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_reports_of_failed_authentication_show_no_token(
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


def test_reports_of_failed_throttles_show_no_credential(
    user: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An error that another test has logged is not logged again for a minute.
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
    assert "is unavailable" in "".join(mails())
    assert not any(MARKER in each for each in mails())

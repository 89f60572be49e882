"""Error mails show the local variables of each frame, but no client secrets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import pytest

from mcp_bridge.testing import MCPClient, MCPError
from tests.oauth.clients import OAuthClient, answered
from tests.support.reports import failing, mails

pytestmark = [pytest.mark.alone, pytest.mark.django_db(transaction=True)]


def assert_none_shown(act: Callable[[], Any], secrets: Callable[[], Collection[str]]) -> None:
    """Have each statement to the database fail in turn, while something is done."""
    number = made = sent = 0
    while made >= number:
        number += 1
        with failing(number) as statements, suppress(Exception):
            act()
        made, found = len(statements), mails()
        sent += len(found)
        assert not [each for each in secrets() if any(each in mail for mail in found)]
    assert sent


def test_error_reports_show_no_code_or_token(user: Any) -> None:
    client = OAuthClient(user)
    client.http.raise_request_exception = client.browser.raise_request_exception = False
    page = client.ask()
    codes: list[str] = []

    def decide() -> None:
        answer = client.decide(page)
        if answer.status_code == 302:
            codes.append(answered(answer)["code"])

    assert_none_shown(decide, lambda: codes)
    code = answered(client.decide(client.ask()))["code"]
    # Not the code or refresh token: they are parameters of the toolkit's own queries, whose frames
    # are not recognisable as called from this package.
    assert_none_shown(lambda: client.exchange(code), lambda: {client.verifier})
    issued = client.log_in()
    access = issued["access_token"]

    def call() -> None:
        with suppress(MCPError):
            MCPClient(token=access).list_tools()

    assert_none_shown(call, lambda: {access})


def test_error_reports_show_no_client_secret(monkeypatch: Any, admin_client: Any) -> None:
    marker = "MARKER" * 9
    monkeypatch.setattr("oauth2_provider.generators.generate_client_secret", lambda: marker)
    monkeypatch.setattr(
        "oauth2_provider.settings.oauth2_settings.CLIENT_SECRET_GENERATOR_CLASS",
        type("Fixed", (), {"hash": lambda self: marker}),
        raising=False,
    )

    def register() -> None:
        client = OAuthClient(token_endpoint_auth_method="client_secret_basic")
        assert client.registered["client_secret"] == marker

    assert_none_shown(register, lambda: {marker})

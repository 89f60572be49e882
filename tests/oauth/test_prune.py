"""manage.py mcp_oauth prune."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from tests.oauth.clients import OAuthClient
from tests.oauth.test_tokens import opens


def prune(*arguments: str) -> str:
    out = StringIO()
    call_command("mcp_oauth", "prune", *arguments, stdout=out)
    return out.getvalue()


def age(days: int) -> None:
    """Let all that there is be older by so many days."""
    passed = timedelta(days=days)
    for model in (Application, AccessToken, RefreshToken, Grant):
        for row in model.objects.all():
            times = {
                name: value - passed
                for name in ("created", "updated", "expires", "revoked")
                if (value := getattr(row, name, None))
            }
            model.objects.filter(pk=row.pk).update(**times)


def test_only_unused_clients_are_pruned(user: Any) -> None:
    used, forgotten = OAuthClient(user, client_name="used"), OAuthClient(user)
    assert opens(used.log_in()["access_token"])
    Application.objects.create(name="by hand", client_type="public", redirect_uris="https://a.b/c")
    age(29)
    assert "Deleted 0 registered" in prune()
    age(2)
    assert "Deleted 1 registered" in prune()
    assert not Application.objects.filter(client_id=forgotten.client_id).exists()
    # Its tokens have expired, but it is still registered and its user can authorize it again.
    age(400)
    prune()
    assert not AccessToken.objects.exists()
    assert {*Application.objects.values_list("name", flat=True)} == {"used", "by hand"}
    assert opens(used.log_in()["access_token"])


def test_authorized_client_without_calls_is_kept(user: Any) -> None:
    client = OAuthClient(user)
    client.log_in()
    age(20)
    assert "Deleted 0 registered" in prune("--unused", "1d")


def test_expired_tokens_and_documents_are_pruned(user: Any) -> None:
    OAuthClient(user).log_in()
    document = Application.objects.create(
        client_id="https://client.example/metadata.json",
        registration_source="cimd",
        cimd_expires_at=timezone.now() - timedelta(seconds=1),
    )
    prune()
    assert AccessToken.objects.count() == 1
    assert not Application.objects.filter(pk=document.pk).exists()
    age(60)
    prune()
    assert not AccessToken.objects.exists()
    assert not RefreshToken.objects.exists()


def test_invalid_duration_is_an_error() -> None:
    with pytest.raises(CommandError, match="Invalid duration 'soon'"):
        prune("--unused", "soon")

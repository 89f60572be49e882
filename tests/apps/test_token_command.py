from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.utils import timezone

from mcp_bridge.tokens.models import Token

pytestmark = pytest.mark.django_db


def mcp_token(*arguments: Any) -> tuple[str, str]:
    """Return the standard output and the standard error of the command."""
    out, err = io.StringIO(), io.StringIO()
    call_command("mcp_token", *map(str, arguments), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_create_prints_only_the_secret(user: Any) -> None:
    out, err = mcp_token("create", "ada", "--name", "Laptop")
    token = Token.objects.get()
    assert Token.objects.find(out.strip()) == token
    assert out.count("\n") == 1
    assert out.strip() not in err
    assert (token.user, token.name, token.expires_at) == (user, "Laptop", None)


def test_create_accepts_any_user() -> None:
    root = get_user_model().objects.create_superuser("root")
    out, _ = mcp_token("create", "root", "--name", "Laptop")
    assert Token.objects.get(user=root) == Token.objects.find(out.strip())


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize(
    ("text", "expected"),
    [("12h", timedelta(hours=12)), ("90d", timedelta(days=90)), ("4w", timedelta(weeks=4))],
)
def test_create_accepts_a_duration(text: str, expected: timedelta) -> None:
    before = timezone.now()
    mcp_token("create", "ada", "--name", "Laptop", "--expires", text)
    expires_at = Token.objects.get().expires_at
    assert expires_at is not None
    assert before <= expires_at - expected <= timezone.now()


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("text", ["", "90", "d", "1.5d", "1y", "1d ", "٣d", "999999d"])
def test_create_refuses_another_duration(text: str) -> None:
    with pytest.raises(CommandError, match="Invalid duration"):
        mcp_token("create", "ada", "--name", "Laptop", "--expires", text)
    assert not Token.objects.exists()


def test_list_shows_every_token_and_no_secret(user: Any) -> None:
    bob = get_user_model().objects.create_user("bob")
    _, secret = Token.objects.issue(user=user, name="Laptop")
    revoked, _ = Token.objects.issue(user=bob, name="Desk")
    revoked.revoke()
    Token.objects.issue(user=bob, name="Phone", expires_at=timezone.now())
    out, _ = mcp_token("list")
    assert [line for line in out.splitlines() if "ada" in line and "valid" in line]
    assert [line for line in out.splitlines() if "Desk" in line and "revoked" in line]
    assert [line for line in out.splitlines() if "Phone" in line and "expired" in line]
    assert secret[12:] not in out
    assert revoked.digest not in out


def test_list_can_be_limited_to_one_user(user: Any) -> None:
    Token.objects.issue(user=user, name="Laptop")
    Token.objects.issue(user=get_user_model().objects.create_user("bob"), name="Desk")
    out, _ = mcp_token("list", "--user", "bob")
    assert ("Desk" in out, "Laptop" in out) == (True, False)


def test_list_shows_when_a_token_was_used(user: Any) -> None:
    token, _ = Token.objects.issue(user=user, name="Laptop")
    assert "never" in mcp_token("list")[0]
    token.mark_used()
    assert f"{timezone.now():%Y-%m-%d}" in mcp_token("list")[0]


def test_revoke_accepts_the_number_from_list(user: Any) -> None:
    token, _ = Token.objects.issue(user=user, name="Laptop")
    number = mcp_token("list")[0].split()[0]
    assert "Laptop" in mcp_token("revoke", number)[0]
    token.refresh_from_db()
    assert not token.is_valid


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["create", "nobody", "--name", "x"], "Unknown user 'nobody'"),
        (["list", "--user", "nobody"], "Unknown user 'nobody'"),
        (["revoke", "999"], "Unknown token 999"),
        (["revoke", "x"], "invalid int value"),
        (["create", "nobody"], "required: --name"),
        ([], "required: command"),
        (["renew"], "invalid choice"),
    ],
)
def test_invalid_input_is_a_one_line_error(arguments: list[str], error: str) -> None:
    with pytest.raises(CommandError, match=error):
        mcp_token(*arguments)
    assert not Token.objects.exists()

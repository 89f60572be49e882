from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import path, reverse
from django.utils import timezone

from mcp_bridge.testing.serving import route
from mcp_bridge.tokens.models import Token
from tests.support.administrator import shown_by

pytestmark = pytest.mark.django_db
LIST = "admin:mcp_bridge_tokens_token_changelist"


@pytest.fixture(autouse=True)
def with_admin(settings: Any) -> None:
    route(settings, path("admin/", admin.site.urls))


def staff(*codenames: str) -> Client:
    """Return a browser of a user with these permissions on tokens."""
    users = get_user_model().objects
    if "everything" in codenames:
        person = users.create_superuser("root")
    else:
        person = users.create_user("staff", is_staff=True)
        wanted = Permission.objects.filter(codename__in=codenames)
        assert len(wanted) == len(codenames)
        person.user_permissions.set(wanted)
    browser = Client()
    browser.force_login(person)
    return browser


def add(browser: Client, user: Any, **values: Any) -> Any:
    """Issue a token for a user, given as an object or as the posted value."""
    data = {
        "user": getattr(user, "pk", user),
        "name": "Laptop",
        "expires_at_0": "",
        "expires_at_1": "",
        **values,
    }
    return browser.post(reverse("admin:mcp_bridge_tokens_token_add"), data, follow=True)


def secret_in(page: Any) -> str:
    """Return the secret that the page of a new token shows."""
    (secret,) = set(re.findall(r"mcp_[\w-]{43}", page.content.decode()))
    return str(secret)


def test_adding_shows_the_secret_once(user: Any) -> None:
    browser = staff("everything")
    page = add(browser, user)
    secret = secret_in(page)
    assert Token.objects.find(secret) == Token.objects.get(user=user)
    assert "no-store" in page.headers["Cache-Control"]
    for address in (reverse(LIST), reverse("admin:index"), page.request["PATH_INFO"]):
        assert secret not in browser.get(address).content.decode()
    # The secret is neither sent nor stored anywhere else.
    kept = [session.get_decoded() for session in Session.objects.all()]
    assert secret not in f"{page.redirect_chain} {kept}"
    assert "messages" not in browser.cookies


def test_adding_keeps_the_submitted_values(user: Any) -> None:
    add(staff("everything"), user, expires_at_0="2099-01-02", expires_at_1="03:04:05")
    token = Token.objects.get()
    assert (token.user, token.name) == (user, "Laptop")
    assert token.expires_at is not None
    assert token.expires_at.isoformat() == "2099-01-02T03:04:05+00:00"


def test_adding_creates_one_token_and_a_log_entry(user: Any) -> None:
    secret = secret_in(add(staff("everything"), user))
    (token,) = Token.objects.all()
    (entry,) = LogEntry.objects.all()
    assert (entry.object_id, entry.is_addition()) == (str(token.pk), True)
    assert secret[12:] not in entry.object_repr + entry.change_message


def test_digest_and_secret_are_not_shown(user: Any) -> None:
    browser = staff("everything")
    token, secret = Token.objects.issue(user=user, name="Laptop")
    names = ("change", "history", "delete")
    pages = [reverse(f"admin:mcp_bridge_tokens_token_{name}", args=[token.pk]) for name in names]
    for address in (*pages, reverse(LIST), f"{reverse(LIST)}?q=mcp_"):
        page = browser.get(address).content.decode()
        assert token.digest not in page
        assert secret[12:] not in page


def test_digest_cannot_be_searched(user: Any) -> None:
    token, _ = Token.objects.issue(user=user, name="Laptop")
    found = staff("everything").get(f"{reverse(LIST)}?q={token.digest}")
    assert found.context["cl"].result_count == 0


def test_changing_shows_no_secret_and_keeps_the_token(user: Any) -> None:
    other = get_user_model().objects.create_user("bob")
    token, secret = Token.objects.issue(user=user, name="Laptop")
    address = reverse("admin:mcp_bridge_tokens_token_change", args=[token.pk])
    data = {"name": "Desk", "expires_at_0": "", "expires_at_1": "", "user": other.pk}
    browser = staff("everything")
    data |= {"_revision": shown_by(browser, address), "digest": "x", "hint": "x"}
    page = browser.post(address, data, follow=True)
    changed = Token.objects.get()
    assert (changed.name, changed.user, changed.hint) == ("Desk", user, token.hint)
    assert Token.objects.find(secret) == changed
    assert secret[12:] not in page.content.decode()


OTHERS = ["add_token", "issue_for_others", "view_user"]
NOT_YOURS = "You cannot issue a token for this user."


def issuer(browser: Client) -> Any:
    return get_user_model().objects.get(pk=browser.session["_auth_user_id"])


def grant(person: Any, *codenames: str) -> Any:
    person.user_permissions.add(*Permission.objects.filter(codename__in=codenames))
    return person


def test_token_is_issued_for_oneself_by_default() -> None:
    browser = staff("add_token")
    page = browser.get(reverse("admin:mcp_bridge_tokens_token_add"))
    assert "user" not in page.context["adminform"].form.fields
    page = add(browser, issuer(browser))
    assert Token.objects.get().user == issuer(browser)
    assert Token.objects.find(secret_in(page)) == Token.objects.get()


def test_forged_post_cannot_issue_tokens_for_others(user: Any) -> None:
    root = get_user_model().objects.create_superuser("root")
    browser = staff("add_token", "view_token", "change_token", "delete_token")
    for pk in (root.pk, user.pk):
        forged = {"user": pk, "user_id": pk, "user_0": pk, "initial-user": pk, "name": "x"}
        address = reverse("admin:mcp_bridge_tokens_token_add", query={"user": pk})
        browser.post(address, {**forged, "expires_at_0": "", "expires_at_1": ""})
    assert [token.user for token in Token.objects.all()] == [issuer(browser)] * 2


def test_issuing_for_others_requires_a_permission(user: Any) -> None:
    assert Token.objects.find(secret_in(add(staff(*OTHERS), user))) == Token.objects.get(user=user)


def weaken(person: Any) -> None:
    """Do nothing, so that the person can only log in."""


def empower(person: Any) -> None:
    grant(person, "delete_user")


def empower_by_a_group(person: Any) -> None:
    group = Group.objects.create(name="editors")
    group.permissions.add(Permission.objects.get(codename="delete_user"))
    person.groups.add(group)


def join_a_group(person: Any) -> None:
    # Tools can be limited to groups, so membership counts even without permissions.
    person.groups.add(Group.objects.create(name="editors"))


def admit(person: Any) -> None:
    person.is_staff = True


def deactivate(person: Any) -> None:
    # The rights of an inactive user are unknown: Django returns none.
    grant(person, "delete_user")
    person.is_active = False


def crown(person: Any) -> None:
    person.is_superuser = True


LACKING = "The user has permissions or groups that you do not have, such as"


@pytest.mark.parametrize(
    ("change", "by_staff", "by_superuser", "reason"),
    [
        (weaken, True, True, ""),
        (admit, True, True, ""),
        (empower, False, True, f"{LACKING} “Can delete user”."),
        (empower_by_a_group, False, True, f"{LACKING} “Can delete user” and “editors”."),
        (join_a_group, False, True, f"{LACKING} “editors”."),
        (deactivate, False, False, "This user is not active."),
        (crown, False, False, "Superusers issue their tokens themselves."),
    ],
)
def test_token_cannot_exceed_its_issuers_rights(
    change: Any, by_staff: bool, by_superuser: bool, reason: str, user: Any
) -> None:
    change(user)
    user.save()
    for browser, allowed in ((staff(*OTHERS), by_staff), (staff("everything"), by_superuser)):
        page = add(browser, user)
        assert Token.objects.filter(user=user).exists() is allowed
        assert (NOT_YOURS in page.content.decode()) is not allowed
        assert (f"{NOT_YOURS} {reason}" in page.content.decode()) is not allowed
        Token.objects.all().delete()


def test_token_can_have_rights_shared_with_its_issuer(user: Any) -> None:
    browser = staff(*OTHERS, "delete_user")
    group = Group.objects.create(name="editors")
    group.permissions.add(Permission.objects.get(codename="add_user"))
    for person in (issuer(browser), grant(user, "delete_user")):
        person.groups.add(group)
    assert secret_in(add(browser, user))


def test_users_can_issue_own_tokens_with_any_rights(user: Any) -> None:
    for browser in (staff(*OTHERS), staff("everything")):
        add(browser, issuer(browser))
        assert Token.objects.filter(user=issuer(browser)).exists()


@pytest.mark.parametrize(
    ("permissions", "of", "changed"),
    [
        (["view_token", "change_token"], "self", True),
        (["view_token", "change_token"], "user", False),
        (["view_token", "change_token", "issue_for_others"], "user", True),
        (["view_token", "change_token", "issue_for_others"], "root", False),
    ],
)
def test_token_can_be_prolonged_by_permitted_issuers(
    permissions: list[str], of: str, changed: bool, user: Any
) -> None:
    browser = staff(*permissions)
    root = get_user_model().objects.create_superuser("root")
    owner = {"self": issuer(browser), "user": user, "root": root}[of]
    token, _ = Token.objects.issue(user=owner, name="Laptop", expires_at=timezone.now())
    address = reverse("admin:mcp_bridge_tokens_token_change", args=[token.pk])
    assert browser.get(address).status_code == 200
    data = {"name": "Laptop", "expires_at_0": "", "expires_at_1": "", "user": owner.pk}
    data["_revision"] = shown_by(browser, address)
    assert browser.post(address, data).status_code == (302 if changed else 403)
    token.refresh_from_db()
    assert (token.expires_at is None) is changed


def run_action(browser: Client, token: Token, **more: Any) -> Any:
    return browser.post(reverse(LIST), {"action": "revoke", "_selected_action": [token.pk], **more})


def test_revoking_requires_post_and_is_logged(user: Any) -> None:
    browser = staff("everything")
    token, secret = Token.objects.issue(user=user, name="Laptop")
    browser.get(reverse(LIST), {"action": "revoke", "_selected_action": token.pk})
    token.refresh_from_db()
    assert token.is_valid
    run_action(browser, token)
    token.refresh_from_db()
    assert not token.is_valid
    (entry,) = LogEntry.objects.all()
    assert (entry.object_id, entry.is_change()) == (str(token.pk), True)
    assert secret[12:] not in entry.change_message


def test_revoking_requires_a_csrf_token(user: Any) -> None:
    token, _ = Token.objects.issue(user=user, name="Laptop")
    browser = staff("everything")
    browser.handler.enforce_csrf_checks = True
    assert run_action(browser, token).status_code == 403
    token.refresh_from_db()
    assert token.is_valid


@pytest.mark.parametrize(
    ("permissions", "revoked"),
    [
        (["view_token"], False),
        (["view_token", "add_token"], False),
        (["view_token", "delete_token"], False),
        (["view_token", "change_token"], True),
        ([], False),
    ],
)
def test_revoking_requires_the_change_permission(
    permissions: list[str], revoked: bool, user: Any
) -> None:
    token, _ = Token.objects.issue(user=user, name="Laptop")
    run_action(staff(*permissions), token)
    token.refresh_from_db()
    assert (token.revoked_at is not None) is revoked


@pytest.mark.parametrize("permissions", [[], ["view_token"], ["change_token"]])
def test_adding_requires_the_add_permission(permissions: list[str], user: Any) -> None:
    assert add(staff(*permissions), user).status_code == 403
    assert not Token.objects.exists()


def test_list_shows_whether_a_token_is_valid(user: Any) -> None:
    Token.objects.issue(user=user, name="expired", expires_at=timezone.now() - timedelta(days=1))
    Token.objects.issue(user=user, name="<script>alert(1)</script>")
    page = staff("everything").get(reverse(LIST)).content.decode()
    assert page.count('alt="False"') == page.count('alt="True"') == 1
    assert "<script>alert(1)" not in page


def test_list_shows_relative_times(user: Any) -> None:
    now = timezone.now()
    token, _ = Token.objects.issue(user=user, name="Laptop", expires_at=now + timedelta(days=9))
    Token.objects.update(created_at=now - timedelta(days=800), last_used_at=now - timedelta(days=3))
    page = staff("view_token").get(reverse(LIST)).content.decode()
    for text in ("2\xa0years ago", "3\xa0days ago", "in 1\xa0week"):
        assert f">{text}</time>" in page
    token.refresh_from_db()
    assert f'<time datetime="{token.last_used_at.isoformat()[:19]}' in page  # type: ignore[union-attr]


def test_list_needs_no_query_per_token(
    user: Any, django_assert_num_queries: Any, settings: Any
) -> None:
    # STATE_MAX_AGE keeps the queries of the administrators' settings out of the count.
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "STATE_MAX_AGE": 3600}
    browser = staff("everything")

    def count() -> int:
        with django_assert_num_queries(50, exact=False) as queries:
            browser.get(reverse(LIST))
        return len(queries)

    Token.objects.issue(user=user, name="one")
    # The first page reads the tools, which its menu counts.
    count()
    few = count()
    for number in range(10):
        other = get_user_model().objects.create_user(f"user{number}")
        Token.objects.issue(user=other, name="more")
    assert count() == few


def address(name: str, token: Token) -> str:
    return reverse(f"admin:mcp_bridge_tokens_token_{name}", args=[token.pk])


def test_new_tokens_page_shows_how_to_connect_clients(user: Any) -> None:
    page = add(staff("everything"), user)
    text = page.content.decode()
    assert f"Authorization: Bearer {secret_in(page)}" in text.replace("&quot;", '"')
    assert "http://testserver/mcp" in text
    assert "<script>" not in text


def test_connection_steps_remain_available_without_the_secret(user: Any) -> None:
    token, secret = Token.objects.issue(user=user, name="Laptop")
    text = staff("view_token").get(address("connect", token)).content.decode()
    assert "Bearer TOKEN" in text
    assert secret[12:] not in text
    get_user_model().objects.all().delete()
    token, _ = Token.objects.issue(user=get_user_model().objects.create(username="x"), name="x")
    assert staff("add_token").get(address("connect", token)).status_code == 403


def test_new_token_has_a_default_expiry(user: Any) -> None:
    form = staff("add_token").get(reverse("admin:mcp_bridge_tokens_token_add")).context
    proposed = form["adminform"].form.initial["expires_at"] - timezone.now()
    assert timedelta(days=89) < proposed < timedelta(days=91)


def test_token_is_revoked_on_a_separate_page(user: Any) -> None:
    token, _ = Token.objects.issue(user=user, name="Laptop")
    browser = staff("view_token", "change_token")
    assert address("revoke", token) in browser.get(reverse(LIST)).content.decode()
    assert address("revoke", token) in browser.get(address("change", token)).content.decode()
    assert "It was never used." in browser.get(address("revoke", token)).content.decode()
    token.refresh_from_db()
    assert token.is_valid
    page = browser.post(address("revoke", token), follow=True).content.decode()
    assert "was revoked. Clients that use it are now refused." in page
    token.refresh_from_db()
    assert not token.is_valid
    browser.post(address("revoke", token))
    assert LogEntry.objects.count() == 1
    assert "and is invalid" in browser.get(address("revoke", token)).content.decode()


@pytest.mark.parametrize("permissions", [["view_token"], ["view_token", "add_token"]])
def test_revoke_page_requires_the_change_permission(permissions: list[str], user: Any) -> None:
    token, _ = Token.objects.issue(user=user, name="Laptop")
    browser = staff(*permissions)
    assert address("revoke", token) not in browser.get(address("change", token)).content.decode()
    assert browser.get(address("revoke", token)).status_code == 403
    assert browser.post(address("revoke", token)).status_code == 403
    token.refresh_from_db()
    assert token.is_valid


def test_only_superusers_delete_tokens(user: Any) -> None:
    token, _ = Token.objects.issue(user=user, name="Laptop")
    browser = staff("view_token", "change_token", "delete_token")
    assert browser.post(address("delete", token), {"post": "yes"}).status_code == 403
    assert staff("everything").post(address("delete", token), {"post": "yes"}).status_code == 302
    assert not Token.objects.exists()


def test_user_is_typed_without_permission_to_view_users(user: Any) -> None:
    browser = staff("add_token", "issue_for_others")
    page = browser.get(reverse("admin:mcp_bridge_tokens_token_add"))
    assert '<input type="text" name="user"' in page.content.decode()
    root = get_user_model().objects.create_superuser("root")
    for name in (root.username, "nobody-of-this-name", str(user.pk)):
        text = add(browser, name).content.decode()
        assert "This user does not exist, or you may not issue tokens for them." in text
    assert not Token.objects.exists()
    add(browser, user.username)
    assert Token.objects.get().user == user

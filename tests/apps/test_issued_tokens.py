"""Tokens issued for another user: the calls their issuer may approve, and when they end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core import mail
from django.core.management import CommandError, call_command
from django.db.models.signals import m2m_changed, post_save, pre_save
from django.test import Client
from django.urls import include, path, reverse
from django.utils import timezone

from mcp_bridge.confirmation.decisions import approvable
from mcp_bridge.models import PendingCall
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.serving import addresses, serve
from mcp_bridge.tokens.models import Token
from tests.apps.test_tokens_admin import add, secret_in

pytestmark = pytest.mark.django_db


def wipe() -> str:
    """Wipe everything."""
    return "wiped"


@pytest.fixture(autouse=True)
def with_pages(settings: Any) -> None:
    server = serve(settings, wipe, confirm=True)
    settings.ROOT_URLCONF = addresses(
        path("admin/", admin.site.urls),
        path("rpc", server.view),
        path("tokens/", include("mcp_bridge.tokens.urls")),
    )


def permission(codename: str) -> Permission:
    return Permission.objects.get(codename=codename)


def person(name: str, *codenames: str, **flags: Any) -> Any:
    made = get_user_model().objects.create_user(name, f"{name}@example.org", **flags)
    made.user_permissions.set([permission(each) for each in codenames])
    return made


def browser_of(user: Any) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


@pytest.fixture
def issuer() -> Any:
    names = ["add_token", "issue_for_others", "view_user", "change_pendingcall", "view_pendingcall"]
    return person("issuer", *names, is_staff=True)


def issued_for(issuer: Any, user: Any) -> str:
    """Issue a token in the admin and return its secret."""
    return secret_in(add(browser_of(issuer), user))


def is_accepted(secret: str) -> bool:
    client = MCPClient(token=secret)
    try:
        client.list_tools()
    except MCPError:
        assert client.response.status_code == 401
    return bool(client.response.status_code == 200)


def by_page(pending: PendingCall, user: Any) -> None:
    address = reverse("admin:mcp_bridge_pendingcall_change", args=[pending.pk])
    browser_of(user).post(address, {"_approve": "yes"})


def by_command(pending: PendingCall, user: Any) -> None:
    with suppress(CommandError):
        call_command("mcp_pending", "approve", str(pending.pk), "--user", user.get_username())


def by_list(pending: PendingCall, user: Any) -> None:
    browser, address = browser_of(user), reverse("admin:mcp_bridge_pendingcall_decide")
    page = browser.get(address, {"call": pending.pk}).content.decode()
    ticked = [part.split('"')[0] for part in page.split('name="call" value="')[1:]]
    browser.post(address, {"call": ticked, "_approve": "yes"})


@pytest.mark.parametrize("decide", [by_page, by_command, by_list])
@pytest.mark.parametrize("four_eyes", [True, False])
def test_issuer_cannot_approve_calls_of_their_token(
    decide: Any, four_eyes: bool, issuer: Any, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"FOUR_EYES": four_eyes}
    newcomer = person("newcomer")
    client = MCPClient(token=issued_for(issuer, newcomer))
    client.call_tool("wipe")
    (pending,) = PendingCall.objects.all()
    assert (pending.user, pending.issuer) == (newcomer, issuer)
    waiting = PendingCall.objects.filter(approvable(issuer)).exists()
    decide(pending, issuer)
    assert text_of(client.call_tool("wipe")).startswith("Nothing was run") is four_eyes
    assert waiting is not four_eyes
    other = person("other", "change_pendingcall", "view_pendingcall", is_staff=True)
    if four_eyes:
        decide(pending, other)
        assert text_of(client.call_tool("wipe")) == "wiped"


def test_issuer_can_approve_calls_of_other_tokens(issuer: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"FOUR_EYES": True}
    newcomer = person("newcomer")
    issued_for(issuer, newcomer)
    page = browser_of(newcomer).post(reverse("mcp-tokens"), {"name": "Own", "days": "30"})
    client = MCPClient(token=secret_in(page))
    client.call_tool("wipe")
    (pending,) = PendingCall.objects.all()
    assert pending.issuer == newcomer
    by_page(pending, issuer)
    assert text_of(client.call_tool("wipe")) == "wiped"


def test_call_is_queued_after_its_issuer_is_deleted(issuer: Any) -> None:
    client = MCPClient(token=issued_for(issuer, person("newcomer")))
    issuer.delete()
    assert "The call is pending" in text_of(client.call_tool("wipe"))


def flag(name: str) -> Callable[[Any], None]:
    def gain(user: Any) -> None:
        setattr(user, name, True)
        user.save()

    return gain


def flag_alone(user: Any) -> None:
    user.is_superuser = True
    user.save(update_fields=["is_superuser"])


def group(user: Any) -> None:
    user.groups.add(Group.objects.create(name="editors"))


def group_from_its_side(user: Any) -> None:
    Group.objects.create(name="editors").user_set.add(user)


def one_permission(user: Any) -> None:
    user.user_permissions.add(permission("delete_user"))


def all_permissions(user: Any) -> None:
    user.user_permissions.set(Permission.objects.all())


def permission_from_its_side(user: Any) -> None:
    permission("delete_user").user_set.set([user])


def permission_of_a_group(user: Any) -> None:
    Group.objects.get(name="all").permissions.add(permission("delete_user"))


def group_of_a_permission(user: Any) -> None:
    permission("delete_user").group_set.add(Group.objects.get(name="all"))


def by_the_admin(user: Any) -> None:
    root = get_user_model().objects.create_superuser("root")
    address = reverse("admin:auth_user_change", args=[user.pk])
    data = {
        "username": user.username,
        "email": user.email,
        "is_active": "on",
        "is_superuser": "on",
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00",
    }
    assert browser_of(root).post(address, data).status_code == 302


GAINS = [
    flag("is_superuser"),
    flag_alone,
    group,
    group_from_its_side,
    one_permission,
    all_permissions,
    permission_from_its_side,
    permission_of_a_group,
    group_of_a_permission,
    by_the_admin,
]


# Django 6.1 warns about the site's settings, which name the mailer.
@pytest.mark.filterwarnings("ignore:Django 2028 will not have a default mailer")
@pytest.mark.parametrize("gain", GAINS)
def test_token_is_revoked_if_its_user_outranks_its_issuer(
    gain: Any, issuer: Any, django_capture_on_commit_callbacks: Any
) -> None:
    newcomer = person("newcomer")
    everybody = Group.objects.create(name="all")
    for each in (issuer, newcomer):
        each.groups.add(everybody)
    secret = issued_for(issuer, newcomer)
    page = browser_of(newcomer).post(reverse("mcp-tokens"), {"name": "Own", "days": "30"})
    own, of_site = secret_in(page), Token.objects.issue(user=newcomer, name="By the site")[1]
    assert is_accepted(secret)
    # Otherwise the issuer would gain the same rights, as a member of the group.
    issuer.groups.clear()
    with django_capture_on_commit_callbacks(execute=True):
        gain(newcomer)
    assert [is_accepted(each) for each in (secret, own, of_site)] == [False, True, True]
    (sent,) = mail.outbox
    assert sent.to == ["newcomer@example.org"]
    assert "Laptop" in sent.body
    assert secret not in sent.body
    page = browser_of(newcomer).get(reverse("mcp-tokens")).content.decode()
    assert "You have gained rights that the person who issued these tokens" in page


def a_save(user: Any) -> None:
    user.first_name = "New"
    user.save()


def a_login(user: Any) -> None:
    user.last_login = timezone.now()
    user.save(update_fields=["last_login"])


def a_shared_group(user: Any) -> None:
    user.groups.add(Group.objects.get(name="all"))


def a_shared_permission(user: Any) -> None:
    user.user_permissions.add(permission("view_user"))


def a_shared_flag(user: Any) -> None:
    user.is_staff = True
    user.save()


def a_loss(user: Any) -> None:
    user.user_permissions.clear()
    user.groups.clear()


def a_change_for_others(user: Any) -> None:
    person("somebody", "delete_user", is_superuser=True).groups.add(Group.objects.get(name="all"))


@pytest.mark.parametrize(
    "change",
    [
        a_save,
        a_login,
        a_shared_group,
        a_shared_permission,
        a_shared_flag,
        a_loss,
        a_change_for_others,
    ],
)
def test_token_is_kept_if_its_issuer_has_equal_rights(
    change: Any, issuer: Any, django_capture_on_commit_callbacks: Any
) -> None:
    newcomer = person("newcomer")
    issuer.groups.add(Group.objects.create(name="all"))
    secret = issued_for(issuer, newcomer)
    with django_capture_on_commit_callbacks(execute=True):
        change(newcomer)
    assert is_accepted(secret)
    assert mail.outbox == []


@pytest.mark.parametrize("signal", [pre_save, post_save, m2m_changed])
def test_signals_sent_by_other_code_are_handled(signal: Any) -> None:
    user = person("newcomer")
    user.is_staff = True
    for sender in (get_user_model(), Token, get_user_model().groups.through):
        signal.send(sender=sender, instance=user)
        signal.send(sender=sender, instance=Group(name="editors"))


@pytest.mark.parametrize("gain", GAINS)
def test_tokens_issued_by_a_superuser_are_kept(gain: Any, issuer: Any) -> None:
    newcomer = person("newcomer")
    newcomer.groups.add(Group.objects.create(name="all"))
    issuer.is_superuser = True
    issuer.save()
    secret = issued_for(issuer, newcomer)
    gain(newcomer)
    assert is_accepted(secret)


@pytest.mark.parametrize("end", ["delete", "deactivate"])
def test_deleted_or_inactive_issuer_has_no_rights(end: str, issuer: Any) -> None:
    newcomer = person("newcomer")
    secret = issued_for(issuer, newcomer)
    if end == "delete":
        issuer.delete()
    else:
        issuer.is_active = False
        issuer.save()
    assert is_accepted(secret)
    newcomer.user_permissions.add(permission("view_user"))
    assert not is_accepted(secret)


def test_admin_shows_the_issuer_of_a_token(issuer: Any) -> None:
    issued_for(issuer, person("newcomer"))
    root = get_user_model().objects.create_superuser("root")
    (token,) = Token.objects.all()
    address = reverse("admin:mcp_bridge_tokens_token_change", args=[token.pk])
    assert ">issuer<" in browser_of(root).get(address).content.decode()
    issuer.delete()
    assert browser_of(root).get(address).status_code == 200

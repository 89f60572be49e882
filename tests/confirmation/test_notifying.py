"""The signal and the mails when a call is queued for approval."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core import mail
from django.core.cache import cache

from mcp_bridge.checks.settings import check_settings
from mcp_bridge.models import PendingCall
from mcp_bridge.signals import tool_call_held
from mcp_bridge.testing import MCPClient, text_of
from tests.support.administrator import serve_tools

pytestmark = [
    pytest.mark.django_db,
    # Django 6.1 warns about the site's settings, which name the mailer.
    pytest.mark.filterwarnings("ignore:Django 2028 will not have a default mailer"),
    pytest.mark.filterwarnings("ignore:The EMAIL_BACKEND setting is deprecated"),
]
SECRET = "hunter2-of-ada"


def wipe(word: str) -> str:
    """Wipe a word."""
    raise AssertionError


@pytest.fixture
def hold(settings: Any, django_capture_on_commit_callbacks: Any) -> Callable[..., None]:
    """A function that queues a call of ada's, as a committed request does."""
    cache.clear()
    serve_tools(settings, wipe, confirm=True)
    ada = get_user_model().objects.create_user("ada", email="ada@example.com")

    def hold(word: str = SECRET, **options: Any) -> None:
        settings.MCP_BRIDGE = {"NOTIFY_HELD": ["Editors"], **options}
        with django_capture_on_commit_callbacks(execute=True):
            ada.refresh_from_db()
            assert "is pending" in text_of(MCPClient(user=ada).call_tool("wipe", {"word": word}))

    return hold


def person(name: str, *groups: str, **values: Any) -> Any:
    """Return a member of the staff who may decide, unless ``decides`` is False."""
    decides = values.pop("decides", True)
    given = {"email": f"{name}@example.com", "is_staff": True, **values}
    user = get_user_model().objects.create_user(name, **given)
    user.groups.set([Group.objects.get_or_create(name=each)[0] for each in groups])
    if decides:
        user.user_permissions.add(Permission.objects.get(codename="change_pendingcall"))
    return user


def mailed() -> list[str]:
    """Return the sorted recipients of mails since the last call of this function."""
    found = sorted(address for each in mail.outbox for address in each.recipients())
    mail.outbox.clear()
    return found


def test_queued_call_is_signalled_once(hold: Any) -> None:
    received = []

    def receive(**values: Any) -> None:
        received.append((values["call"].tool.name, values["pending"]))
        raise RuntimeError

    tool_call_held.connect(receive)
    try:
        hold()
        hold()
    finally:
        tool_call_held.disconnect(receive)
    assert received == [("wipe", PendingCall.objects.get())]


def test_mails_are_sent_only_if_configured(hold: Any) -> None:
    person("bea", "Editors")
    hold(NOTIFY_HELD=[])
    assert mailed() == []


def test_permitted_group_members_are_mailed(hold: Any) -> None:
    person("bea", "Editors")
    person("carl", "Authors")
    person("dora", "Editors", "Authors")
    person("without permission", "Editors", decides=False)
    person("gone", "Editors", is_active=False)
    person("not of the staff", "Editors", is_staff=False)
    person("without address", "Editors", email="")
    hold()
    assert mailed() == ["bea@example.com", "dora@example.com"]
    hold("more", NOTIFY_HELD=["Editors", "Authors", "Nobody"])
    # The others have already been mailed.
    assert mailed() == ["carl@example.com"]


def test_addresses_of_unpermitted_users_are_not_mailed(hold: Any) -> None:
    person("bea")
    person("gone", is_active=False)
    addresses = ["team@example.com", "BEA@example.com", "gone@example.com", "bea@example.com"]
    hold(NOTIFY_HELD=addresses)
    assert mailed() == ["bea@example.com", "team@example.com"]


def test_recipients_are_not_disclosed_to_each_other(hold: Any) -> None:
    person("bea", "Editors")
    person("carl", "Editors")
    hold()
    (message,) = mail.outbox
    assert (message.to, len(message.bcc)) == ([], 2)


def test_person_receives_one_mail_a_minute(hold: Any) -> None:
    person("bea", "Editors")
    hold("a")
    hold("b")
    hold("a")
    assert mailed() == ["bea@example.com"]
    cache.clear()
    # A call that is already queued causes no mail.
    hold("b")
    assert mailed() == []
    hold("c")
    assert "3 calls are pending." in mail.outbox[0].body


def test_mail_names_caller_and_tool_without_arguments(hold: Any) -> None:
    person("bea", "Editors")
    hold()
    (message,) = mail.outbox
    key = PendingCall.objects.get().pk
    assert message.subject == "django-mcp-bridge: a call of wipe is pending approval"
    assert message.body == (
        "'ada' called wipe, which runs only after a person has approved the call.\n\n"
        "Review the call and decide: "
        f"http://testserver/admin/mcp_bridge/pendingcall/{key}/change/\n\n"
        "1 call is pending.\n"
    )
    assert SECRET not in message.subject + message.body


def test_mail_counts_only_approvable_calls(hold: Any) -> None:
    for word in "abc":
        hold(word)
    newest = PendingCall.objects.latest("pk").pk
    PendingCall.objects.exclude(pk=newest).update(fingerprint="another")
    person("bea", "Editors")
    hold()
    (message,) = mail.outbox
    assert message.body.endswith("\n\n2 calls are pending.\n")


def test_line_breaks_in_names_are_escaped(hold: Any) -> None:
    person("bea", "Editors")
    get_user_model().objects.filter(username="ada").update(username="ada\n\nhttp://evil.example")
    hold(SERVER_INFO={"name": "x", "version": "1", "title": "News\nBcc: all@example.com"})
    (message,) = mail.outbox
    assert message.subject.startswith("News Bcc: all@example.com: ")
    assert "'ada\\n\\nhttp://evil.example' called" in message.body


def test_mail_links_to_the_configured_address(hold: Any) -> None:
    person("bea", "Editors")
    hold(RESOURCE="https://news.example/mcp")
    assert "https://news.example/admin/mcp_bridge/pendingcall/" in mail.outbox[0].body


def test_mail_does_not_link_to_the_request_host(hold: Any, settings: Any) -> None:
    person("bea", "Editors")
    settings.ALLOWED_HOSTS = ["*"]
    hold()
    number = PendingCall.objects.get().pk
    assert mail.outbox[0].body == (
        "'ada' called wipe, which runs only after a person has approved the call.\n\n"
        "Review the call and decide in the admin under “Pending calls” or with "
        f"“manage.py mcp_pending list {number}” on the server.\n\n"
        "1 call is pending.\n"
    )


def test_mail_has_no_link_without_a_page(hold: Any, settings: Any) -> None:
    person("bea", "Editors")
    del settings.ROOT_URLCONF.urlpatterns[0]
    hold()
    assert "mcp_pending list" in mail.outbox[0].body


def test_mails_are_in_the_language_of_the_site(hold: Any, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    person("bea", "Editors")
    hold()
    assert mailed() == ["bea@example.com"]


def test_caller_is_not_mailed_with_four_eyes(hold: Any) -> None:
    ada = get_user_model().objects.get(username="ada")
    ada.is_staff = True
    ada.save()
    ada.groups.add(Group.objects.create(name="Editors"))
    ada.user_permissions.add(Permission.objects.get(codename="change_pendingcall"))
    person("bea", "Editors")
    hold("a", FOUR_EYES=True)
    assert mailed() == ["bea@example.com"]
    hold("b")
    assert mailed() == ["ada@example.com"]


def test_failed_mail_is_logged_and_the_call_queued(hold: Any, settings: Any, caplog: Any) -> None:
    person("bea", "Editors")
    settings.EMAIL_BACKEND = "tests.nowhere.Backend"
    with caplog.at_level(logging.ERROR, "mcp_bridge"):
        hold()
    (record,) = caplog.records
    assert "No email was sent" in record.message
    assert SECRET not in caplog.text
    assert PendingCall.objects.get().status == "waiting"


@pytest.mark.parametrize("given", ["Editors", [""], [1], None])
def test_invalid_values_are_reported(given: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"NOTIFY_HELD": given}
    assert [message.id for message in check_settings()] == ["mcp_bridge.E002"]

"""The administrators' page of the applications that users have connected."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone
from oauth2_provider.models import get_access_token_model

from mcp_bridge.oauth.models import ClientUse, mark_used
from tests.oauth.browsing import (
    CALLBACK,
    assert_no_query_for_each_client,
    browser_of,
    connect,
    decide,
    is_let_in,
    redeem,
    refresh,
    register,
    serve_admin,
    text_of,
)

LIST = "/admin/mcp_bridge_oauth/clientuse/"
VIEW, DELETE = "view_clientuse", "delete_clientuse"


@pytest.fixture(autouse=True)
def with_admin(settings: Any) -> None:
    serve_admin(settings, admin.site)


def staff(*codenames: str) -> Client:
    """Return the browser of a staff user with permissions, or without any of a superuser."""
    person = get_user_model().objects.create_user("staff", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    get_user_model().objects.filter(pk=person.pk).update(is_superuser=not codenames)
    return browser_of("staff")


def listed(browser: Client, **query: Any) -> str:
    page = browser.get(LIST, query)
    assert page.status_code == 200
    return text_of(page)


def links(browser: Client, **query: Any) -> list[str]:
    """Return the addresses of the Disconnect links."""
    page = browser.get(LIST, query).content.decode()
    return [unescape(each) for each in re.findall(r'href="([^"]*/delete/)"', page)]


def test_list_shows_who_connected_what_and_since_when() -> None:
    client = register(redirect_uris=f"{CALLBACK} http://localhost:8787/callback")
    connect(browser_of("ada"), client, scope="mcp mcp:write")
    connect(browser_of("bob"), register(name="Ours", registration_source="manual"))
    mark_used(get_user_model().objects.get(username="bob"), client)
    mark_used(get_user_model().objects.get(username="ada"), client)
    ClientUse.objects.update(
        first_used_at=timezone.now().replace(year=2023, month=4, day=16),
        last_used_at=timezone.now().replace(year=2024, month=5, day=17),
    )
    text = listed(staff())
    text = text.replace("Redirects to: ", "").replace("User: ", "").replace("Scopes: ", "")
    row = "Claude unverified claude.ai localhost ada mcp, mcp:write Since: April 16, 2023, "
    assert re.search(rf"{row}.{{,12}} Last used: May 17, 2024", text), text
    assert re.search("Ours claude.ai bob mcp Since: .{,40} Last used: not yet", text), text
    assert "2 connected applications" in text


def test_registrations_of_one_client_are_one_row() -> None:
    ports = [
        register(client_id=f"c{port}", redirect_uris=f"http://localhost:{port}/callback")
        for port in (1001, 1002, 1003)
    ]
    tokens = [connect(browser_of("ada"), each) for each in ports]
    connect(browser_of("ada"), register(client_id="other", name="Other"))
    connect(browser_of("ada"), register(client_id="elsewhere"))
    # One that an administrator vouches for is not one that takes its name.
    connect(browser_of("ada"), register(client_id="ours", registration_source="manual"))
    browser = staff()
    text = listed(browser)
    assert "Claude unverified 3 registrations Redirects to: localhost User: ada" in text
    assert "4 connected applications" in text
    (address,) = [each for each in links(browser) if f"_2F{ports[-1].pk}/" in each]
    browser.post(address)
    assert [is_let_in(each) for each in tokens] == [False, False, False]
    assert "3 connected applications" in listed(browser)


def test_disconnecting_asks_and_ends_all_access() -> None:
    client, ada, bob = register(), browser_of("ada"), browser_of("bob")
    tokens, kept = connect(ada, client), connect(bob, client)
    code = decide(ada, client, allow=True)["code"]
    browser = staff(VIEW, DELETE)
    (address,) = links(browser, q="ada")
    page = text_of(browser.get(address))
    assert "Disconnect Claude from ada?" in page
    assert (is_let_in(tokens), is_let_in(kept)) == (True, True)
    answer = browser.post(address, follow=True)
    assert "Claude was disconnected. It can no longer act as ada." in text_of(answer)
    assert (is_let_in(tokens), is_let_in(kept)) == (False, True)
    assert refresh(client, tokens)["error"] == "invalid_grant"
    assert redeem(client, code)["error"] == "invalid_grant"
    (entry,) = LogEntry.objects.all()
    assert (entry.object_id, entry.user.username) == (str(client.pk), "staff")
    assert entry.get_change_message() == "Disconnected from ada."


def test_ended_connection_is_not_disconnected_again() -> None:
    connect(browser_of("ada"), register())
    browser = staff()
    (address,) = links(browser)
    browser.post(address)
    for answer in (browser.get(address, follow=True), browser.post(address, follow=True)):
        assert answer.redirect_chain == [(LIST, 302)]
        assert "This application is not connected." in text_of(answer)
    assert LogEntry.objects.count() == 1


@pytest.mark.parametrize("key", ["1", "x_2F1", "1_2F", "1_2Fx", "_2F1"])
def test_unknown_connection_leads_back_to_the_list(key: str) -> None:
    answer = staff().post(f"{LIST}{key}/delete/", follow=True)
    assert "This application is not connected." in text_of(answer)


def test_viewer_cannot_disconnect() -> None:
    client = register()
    tokens = connect(browser_of("ada"), client)
    browser, ada = staff(VIEW), get_user_model().objects.get(username="ada")
    assert "Claude unverified" in listed(browser)
    assert links(browser) == []
    address = f"{LIST}{ada.pk}_2F{client.pk}/delete/"
    for answer in (browser.get(address), browser.post(address)):
        assert answer.status_code == 403
        assert "the permission “Can delete connected application”" in text_of(answer)
    assert is_let_in(tokens)


def test_connections_are_hidden_without_permission() -> None:
    assert staff("view_application").get(LIST).status_code == 403
    assert Client().get(LIST).status_code == 302


def test_clients_are_linked_for_users_who_may_view_them() -> None:
    clients = '<a href="/admin/oauth2_provider/application/">'
    assert clients in staff().get(LIST).content.decode()
    viewer = get_user_model().objects.get(username="staff")
    get_user_model().objects.filter(pk=viewer.pk).update(is_superuser=False)
    viewer.user_permissions.set(Permission.objects.filter(codename=VIEW))
    assert clients not in browser_of("staff").get(LIST).content.decode()


def test_connections_are_found_by_user_and_client() -> None:
    connect(browser_of("ada"), register())
    connect(browser_of("bob"), register(name="Cursor", client_id="cursor"))
    browser = staff()
    names = ["Claude", "Cursor"]
    for term, expected in {"ADA": ["Claude"], "curs": ["Cursor"], "x": [], " ": names}.items():
        text = listed(browser, q=term)
        assert [each for each in names if f"{each} unverified" in text] == expected
    assert "No matching applications." in listed(browser, q="x")


def test_ended_connections_are_not_listed() -> None:
    connect(browser_of("ada"), register())
    get_access_token_model().objects.update(expires=timezone.now() - timedelta(days=31))
    assert "No application is connected." in listed(staff())


def test_long_list_has_pages() -> None:
    client = register()
    for number in range(101):
        get_access_token_model().objects.create(
            user=get_user_model().objects.create_user(f"user{number}"),
            application=client,
            token=f"token{number}",
            expires=timezone.now() + timedelta(hours=1),
        )
    browser = staff()
    assert [listed(browser, p=page).count("unverified") for page in ("", 2, "x")] == [100, 1, 100]
    assert re.search(
        r'<a href="\?q=user&amp;p=2">', browser.get(LIST, {"q": "user"}).content.decode()
    )


def test_list_needs_no_query_per_connection(django_assert_num_queries: Any) -> None:
    assert_no_query_for_each_client(staff(), LIST, django_assert_num_queries)


def test_owner_of_a_client_takes_no_query_per_user(django_assert_max_num_queries: Any) -> None:
    owner = get_user_model().objects.create_user("owner")
    client = register(registration_source="manual", user=owner)
    for name in ("ada", "bob", "eva", "dan", "fay", "gil", "hal"):
        connect(browser_of(name), client)
    browser = staff()
    with django_assert_max_num_queries(14):
        assert listed(browser).count("Claude unverified") == 7


def test_hostile_names_are_escaped() -> None:
    name = "<script>alert(1)</script>\u202e"
    get_user_model().objects.create_user("<b>eve")
    connect(browser_of("<b>eve"), register(name=name))
    page = staff().get(LIST).content.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert not re.search("<script>alert|<b>eve|\u202e", page)


def test_front_page_opens_with_this_permission_alone() -> None:
    page = staff(VIEW).get("/admin/mcp_bridge_oauth/")
    assert LIST in page.content.decode()
    assert "Connect a client" in page.content.decode()

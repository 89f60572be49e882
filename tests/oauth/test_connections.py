"""The clients that a user has connected: listed and disconnected."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection
from django.test import Client
from django.urls import include, path
from django.utils import timezone
from django.utils.formats import localize
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_device_grant_model,
    get_id_token_model,
    get_refresh_token_model,
)

from mcp_bridge.oauth.connections import revoke
from mcp_bridge.oauth.models import ClientUse, mark_used
from mcp_bridge.testing.serving import addresses
from tests.oauth.browsing import (
    CONNECTIONS,
    assert_no_query_for_each_client,
    browser_of,
    connect,
    decide,
    is_let_in,
    redeem,
    refresh,
    register,
    sent_by,
    text_of,
)
from tests.oauth.conftest import RESOURCE
from tests.support.page import Page


def listed(browser: Client) -> str:
    return text_of(browser.get(CONNECTIONS))


def disconnect(browser: Client, client: Any) -> Any:
    return browser.post(CONNECTIONS, {"client_id": client.client_id}, follow=True)


def test_connection_is_described() -> None:
    browser, client = browser_of(), register(redirect_uris="https://a.example/1 https://b.example/")
    connect(browser, client, scope="mcp mcp:write")
    text = listed(browser)
    for part in (
        "Claude unverified",
        "Redirects you to a.example b.example",
        "Permissions Use the tools of this site Change what is on this site",
        "Last used not yet",
        ", unless used before then",
        "You are ada on",
    ):
        assert part in text
    ends = get_access_token_model().objects.get().expires + timedelta(days=30)
    assert f"Expires {localize(ends)}, unless" in text


def test_last_use_is_shown() -> None:
    browser, client = browser_of(), register()
    connect(browser, client)
    mark_used(get_user_model().objects.get(username="ada"), client)
    ClientUse.objects.update(last_used_at=timezone.now().replace(year=2024, month=5, day=17))
    assert "Last used May 17, 2024" in listed(browser)


def test_first_connection_date_outlasts_its_tokens() -> None:
    browser, client = browser_of(), register()
    tokens = connect(browser, client)
    mark_used(get_user_model().objects.get(username="ada"), client)
    ClientUse.objects.update(first_used_at=timezone.now().replace(year=2024, month=5, day=17))
    refresh(client, tokens)
    assert "First connected May 17, 2024" in listed(browser)


def test_client_is_listed_once_with_all_its_scopes() -> None:
    browser, client = browser_of(), register()
    connect(browser, client, scope="mcp")
    connect(browser, client, scope="mcp:write")
    text = listed(browser)
    assert text.count("Claude unverified") == 1
    assert "Use the tools of this site Change what is on this site" in text


def test_each_user_sees_and_disconnects_their_own_connections() -> None:
    client = register()
    tokens = connect(browser_of("ada"), client)
    bob = browser_of("bob")
    assert "No application is connected." in listed(bob)
    disconnect(bob, client)
    assert is_let_in(tokens)
    of_bob = connect(bob, client)
    disconnect(bob, client)
    assert (is_let_in(tokens), is_let_in(of_bob)) == (True, False)


def test_disconnected_client_is_refused_at_once() -> None:
    browser, client = browser_of(), register()
    tokens, other = connect(browser, client), connect(browser, register(client_id="other"))
    refreshed = refresh(client, connect(browser, client))
    code = decide(browser, client, allow=True)["code"]
    assert all(map(is_let_in, (tokens, refreshed, other)))
    page = disconnect(browser, client)
    assert "Claude was disconnected. It can no longer act as you." in text_of(page)
    assert list(map(is_let_in, (tokens, refreshed, other))) == [False, False, True]
    assert refresh(client, tokens)["error"] == "invalid_grant"
    assert refresh(client, refreshed)["error"] == "invalid_grant"
    assert redeem(client, code)["error"] == "invalid_grant"
    assert not ClientUse.objects.filter(application=client).exists()
    unrevoked = get_refresh_token_model().objects.filter(revoked__isnull=True)
    assert [each.application.client_id for each in unrevoked] == ["other"]
    # It can request access again.
    assert is_let_in(connect(browser, client))


def test_disconnecting_deletes_device_codes_and_id_tokens() -> None:
    browser, client = browser_of(), register()
    connect(browser, client)
    ada, eve = get_user_model().objects.get(), get_user_model().objects.create_user("eve")
    ends = timezone.now() + timedelta(days=1)
    devices, id_tokens = get_device_grant_model().objects, get_id_token_model().objects
    for number, user in enumerate((ada, eve)):
        codes = {"device_code": f"d{number}", "user_code": f"u{number}"}
        devices.create(user=user, client_id=client.client_id, expires=ends, **codes)
        id_tokens.create(user=user, application=client, expires=ends)
    disconnect(browser, client)
    assert [each.user for each in (*devices.all(), *id_tokens.all())] == [eve, eve]
    revoke(client)
    assert not devices.exists()
    assert not id_tokens.exists()


def test_form_of_the_page_disconnects() -> None:
    browser, client = browser_of(enforce_csrf_checks=True), register()
    tokens = connect(browser, client)
    page = browser.get(CONNECTIONS)
    assert disconnect(browser, client).status_code == 403
    assert is_let_in(tokens)
    button = re.search(r'<button type="submit" aria-label="([^"]*)">', page.content.decode())
    assert button is not None
    assert button[1] == "Disconnect Claude"
    browser.post(CONNECTIONS, sent_by(page, "mcp-disconnect"))
    assert not is_let_in(tokens)


def test_disconnecting_is_confirmed_without_scripts() -> None:
    browser, client = browser_of(), register()
    connect(browser, client)
    page = Page(browser.get(CONNECTIONS).content.decode())
    (asking,) = (each for each in page.all("button") if each.get("aria-haspopup") == "dialog")
    (asked,) = (each for each in page.all("div") if "popover" in each)
    assert (asking["type"], asking["popovertarget"]) == ("button", asked["id"])
    # The only button that submits the form is inside of the question.
    before = page.html.partition(f'id="{asked["id"]}"')[0]
    assert 'type="submit"' not in before
    assert "Disconnect “Claude”? It can no longer act as you" in listed(browser)


def test_page_without_connections_says_how_to_connect() -> None:
    text = listed(browser_of())
    assert "Paste this address into your client. It opens a page of this site" in text
    assert RESOURCE in text


def test_tokens_page_is_linked_if_installed(settings: Any) -> None:
    assert "/mcp/tokens/" not in browser_of().get(CONNECTIONS).content.decode()
    settings.ROOT_URLCONF = addresses(
        path("mcp/tokens/", include("mcp_bridge.tokens.urls")),
        path("", include("mcp_bridge.oauth.urls")),
    )
    browser = browser_of()
    for here, there in ((CONNECTIONS, "/mcp/tokens/"), ("/mcp/tokens/", CONNECTIONS)):
        text = browser.get(here).content.decode()
        assert f'<a href="{there}">' in text
        assert f'<a href="{here}" aria-current="page">' in text
    assert "A client that cannot log in needs a token." in listed(browser)


def test_get_request_disconnects_nothing() -> None:
    browser, client = browser_of(), register()
    tokens = connect(browser, client)
    browser.get(CONNECTIONS, {"client_id": client.client_id})
    browser.head(CONNECTIONS)
    assert is_let_in(tokens)


@pytest.mark.parametrize("method", ["get", "post"])
def test_anonymous_user_is_sent_to_log_in(method: str) -> None:
    answer = getattr(Client(), method)(CONNECTIONS)
    assert (answer.status_code, answer["Location"]) == (302, f"/login/?next={CONNECTIONS}")


@pytest.mark.parametrize("client_id", ["", "nobody", "\x00", "x" * 10_000])
def test_revoking_an_unknown_connection_is_a_no_op(client_id: str) -> None:
    browser = browser_of()
    tokens = connect(browser, register())
    page = browser.post(CONNECTIONS, {"client_id": client_id}, follow=True)
    assert page.status_code == 200
    assert "was disconnected" not in text_of(page)
    assert is_let_in(tokens)


def test_ended_connections_are_not_listed() -> None:
    browser = browser_of()
    refreshable, ended, revoked = (register(client_id=each, name=each) for each in "rex")
    connect(browser, refreshable)
    connect(browser, ended)
    token = connect(browser, revoked)["refresh_token"]
    Client().post("/oauth/revoke/", {"client_id": "x", "token": token})
    now, tokens = timezone.now(), get_access_token_model().objects
    tokens.filter(application=refreshable).update(expires=now - timedelta(days=29))
    tokens.filter(application=ended).update(expires=now - timedelta(days=31))
    assert re.findall(r"\b([rex]) unverified", listed(browser)) == ["r"]


def test_connection_without_expiry_is_labelled(settings: Any) -> None:
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "REFRESH_TOKEN_EXPIRE_SECONDS": None}
    browser = browser_of()
    connect(browser, register())
    assert "Expires when you disconnect it" in listed(browser)


def test_page_needs_no_query_per_connection(django_assert_num_queries: Any) -> None:
    assert_no_query_for_each_client(browser_of(), CONNECTIONS, django_assert_num_queries)


def test_use_is_recorded_once_a_minute() -> None:
    client, ada = register(), get_user_model().objects.create_user("ada")
    mark_used(ada, client)
    first = ClientUse.objects.get()
    mark_used(ada, client)
    assert ClientUse.objects.get().last_used_at == first.last_used_at
    ClientUse.objects.update(last_used_at=first.last_used_at - timedelta(seconds=61))
    mark_used(ada, client)
    again = ClientUse.objects.get()
    assert again.last_used_at > first.last_used_at
    assert again.first_used_at == first.first_used_at


def test_recent_use_takes_one_query(django_assert_num_queries: Any) -> None:
    client, ada = register(), get_user_model().objects.create_user("ada")
    mark_used(ada, client)
    with django_assert_num_queries(1):
        mark_used(ada, client)


def test_token_without_a_client_records_no_use() -> None:
    mark_used(get_user_model().objects.create_user("ada"), None)
    assert not ClientUse.objects.exists()


def test_unwritable_use_is_logged_without_an_error(caplog: Any) -> None:
    client, ada = register(client_id="abc"), get_user_model().objects.create_user("ada")

    def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "clientuse" in sql.lower() and not sql.startswith("SELECT"):
            raise OperationalError("disk full")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        mark_used(ada, client)
    (record,) = [each for each in caplog.records if each.name == "mcp_bridge.oauth"]
    assert record.getMessage() == "The use of the client abc could not be recorded"
    # The transaction around it goes on.
    assert get_application_model().objects.count() == 1
    assert not ClientUse.objects.exists()


def test_use_is_deleted_with_its_client() -> None:
    client, ada = register(), get_user_model().objects.create_user("ada")
    mark_used(ada, client)
    client.delete()
    assert not ClientUse.objects.exists()

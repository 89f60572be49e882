"""Staff with only the permission to add tokens see their own in the admin, and no others."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import include, path, reverse

from mcp_bridge.testing.serving import route
from mcp_bridge.tokens.models import Token
from tests.apps.test_tokens_admin import LIST, add, address, issuer, run_action, secret_in, staff
from tests.support.links import leading

pytestmark = pytest.mark.django_db
ADD = "admin:mcp_bridge_tokens_token_add"
FRONT = "/admin/mcp_bridge_tokens/"
PAGES = ("change", "history", "connect", "revoke")


@pytest.fixture(autouse=True)
def with_admin(settings: Any) -> None:
    own = path("mcp/tokens/", include("mcp_bridge.tokens.urls"))
    route(settings, own, path("admin/", admin.site.urls))


def text_of(browser: Client, place: str, **query: Any) -> str:
    response = browser.get(place, query)
    assert response.status_code == 200, place
    return unescape(response.content.decode())


def is_revoked(token: Token) -> bool:
    return Token.objects.get(pk=token.pk).revoked_at is not None


@pytest.fixture
def theirs(user: Any) -> Token:
    return Token.objects.issue(user=user, name="Of somebody else")[0]


def own(browser: Client, name: str = "Mine") -> Token:
    return Token.objects.issue(user=issuer(browser), name=name)[0]


def test_adders_can_open_pages_of_their_own_tokens() -> None:
    browser = staff("add_token")
    token = own(browser)
    for page in PAGES:
        assert "Mine" in text_of(browser, address(page, token)), page
    assert "Bearer TOKEN" in text_of(browser, address("connect", token))


@pytest.mark.parametrize("page", [*PAGES, "delete"])
def test_adders_cannot_open_tokens_of_others(page: str, theirs: Token) -> None:
    browser = staff("add_token")
    place = address(page, theirs)
    # Same as for a token that does not exist.
    nobodys = place.replace(f"/{theirs.pk}/", f"/{theirs.pk + 100}/")
    for each in (place, nobodys):
        assert (browser.get(each).status_code, browser.post(each).status_code) == (403, 403)
    assert not is_revoked(theirs)


def test_adders_list_shows_only_their_own_tokens(theirs: Token) -> None:
    browser = staff("add_token")
    text = text_of(browser, reverse(LIST))
    assert "You do not have a token yet." in text
    assert "You see only your own tokens" in text
    token = own(browser)
    for query in (
        {},
        {"q": "o"},
        {"q": theirs.user.get_username()},
        {"user__exact": theirs.user.pk},
        {"all": ""},
        {"_facets": "True"},
    ):
        page = browser.get(reverse(LIST), query)
        assert theirs not in page.context["cl"].queryset
        assert "Of somebody else" not in page.content.decode()
        assert theirs.hint not in page.content.decode()
    assert list(browser.get(reverse(LIST)).context["cl"].queryset) == [token]


def test_adders_can_revoke_their_own_token(theirs: Token) -> None:
    browser = staff("add_token")
    first, second = own(browser, "First"), own(browser, "Second")
    for place in (reverse(LIST), address("change", first)):
        assert address("revoke", first) in leading(place, text_of(browser, place))
    text = unescape(browser.post(address("revoke", first), follow=True).content.decode())
    assert "was revoked. Clients that use it are now refused." in text
    run_action(browser, second)
    run_action(browser, theirs)
    assert [is_revoked(each) for each in (first, second, theirs)] == [True, True, False]
    assert LogEntry.objects.filter(user=issuer(browser)).count() == 2


def test_revoke_is_offered_only_if_permitted(theirs: Token) -> None:
    browser = staff("add_token", "view_token")
    mine = own(browser)
    links = leading(reverse(LIST), text_of(browser, reverse(LIST)))
    assert address("revoke", mine) in links
    assert address("change", theirs) in links
    assert address("revoke", theirs) not in links
    chosen = [mine.pk, theirs.pk]
    data = {"action": "revoke", "_selected_action": chosen}
    text = unescape(browser.post(reverse(LIST), data, follow=True).content.decode())
    assert (is_revoked(mine), is_revoked(theirs)) == (True, False)
    assert "Your own of the selected tokens were revoked." in text
    assert "Tokens of other users were not revoked" in text
    assert "The selected tokens were revoked." not in text
    data["_selected_action"] = [theirs.pk]
    text = unescape(browser.post(reverse(LIST), data, follow=True).content.decode())
    assert "Tokens of other users were not revoked" in text


def test_viewers_are_not_offered_to_revoke(theirs: Token) -> None:
    browser = staff("view_token")
    text = text_of(browser, reverse(LIST))
    assert not [each for each in leading(reverse(LIST), text) if each.endswith("/revoke/")]
    assert 'value="revoke"' not in text
    assert address("revoke", theirs) not in text_of(browser, address("change", theirs))


def test_prolonging_own_token_requires_the_change_permission() -> None:
    browser = staff("add_token")
    token = own(browser)
    data = {"name": "Other", "expires_at_0": "", "expires_at_1": ""}
    assert browser.post(address("change", token), data).status_code == 403
    assert Token.objects.get().name == "Mine"
    assert browser.post(address("delete", token), {"post": "yes"}).status_code == 403


KINDS = [
    ["add_token"],
    ["view_token"],
    ["add_token", "view_token"],
    ["add_token", "issue_for_others"],
    ["add_token", "view_token", "change_token", "delete_token"],
    ["add_token", "view_user"],
    ["everything"],
]


@pytest.mark.parametrize("permissions", KINDS)
def test_token_pages_link_only_to_permitted_pages(permissions: list[str], theirs: Token) -> None:
    browser = staff(*permissions)
    mine = own(browser)
    places = [FRONT, reverse(LIST), reverse(ADD)]
    places += [address(page, each) for page in (*PAGES, "delete") for each in (mine, theirs)]
    pages = [(place, browser.get(place)) for place in places]
    if "add_token" in permissions:
        pages.append((reverse(ADD), add(browser, issuer(browser).get_username())))
        assert secret_in(pages[-1][1])
    opened = [(place, page.content.decode()) for place, page in pages if page.status_code == 200]
    # Each link once, because the menus of all pages have the same links.
    links = {link: place for place, text in opened for link in leading(place, text, "a")}
    refused = {link: place for link, place in links.items() if browser.get(link).status_code == 403}
    assert not refused
    assert len(opened) > 3


def test_issuing_for_another_user_links_only_permitted_pages(
    user: Any,
) -> None:
    browser = staff("add_token", "issue_for_others")
    page = add(browser, user.get_username())
    assert Token.objects.find(secret_in(page)) == Token.objects.get(user=user)
    for link in leading(reverse(ADD), page.content.decode(), "a"):
        assert browser.get(link).status_code != 403, link
    assert user.get_username() in page.content.decode()


def test_typed_usernames_are_suggested() -> None:
    browser = staff("add_token", "issue_for_others")
    text = text_of(browser, reverse(ADD))
    assert '<input type="text" name="user" value="staff"' in text


@pytest.mark.parametrize("permissions", KINDS)
def test_own_tokens_page_is_linked_if_installed(
    permissions: list[str],
) -> None:
    browser = staff(*permissions)
    places = [FRONT, reverse(LIST)]
    for place in places:
        assert "/mcp/tokens/" in leading(place, text_of(browser, place)), place
    if "add_token" in permissions:
        page = add(browser, issuer(browser).get_username())
        assert secret_in(page)
        assert "/mcp/tokens/" in leading(reverse(ADD), page.content.decode())


@pytest.mark.parametrize("permissions", KINDS)
def test_own_tokens_page_is_not_linked_if_missing(permissions: list[str], settings: Any) -> None:
    route(settings, path("admin/", admin.site.urls))
    browser = staff(*permissions)
    for place in (FRONT, reverse(LIST)):
        assert "Your tokens" not in text_of(browser, place)

"""The pages of tokens: the list and the form in the admin, and the page for a site's users."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from playwright.sync_api import Page

from mcp_bridge.models import Scope
from mcp_bridge.tokens.models import Token
from tests.browser.conftest import SCHEMES, check, missed_by_the_keyboard
from tests.browser.test_admin import Visit

LIST = "/admin/mcp_bridge_tokens/token/"
OWN = "/mcp/tokens/"
WIDTHS = (1440, 1024, 390)


def issue(number: int) -> None:
    """Issue tokens for several users, each limited in another way."""
    Token.objects.all().delete()
    Scope.objects.update_or_create(name="articles:read", description="Read articles")
    users, now = get_user_model().objects.order_by("username"), timezone.now()
    limits: list[dict[str, Any]] = [
        {},
        {"read_only": True, "expires_at": now + timedelta(days=90)},
        {"scopes": ["articles:read"], "tools": ["articles_get", "articles_list"]},
    ]
    for each in range(number):
        token, _ = Token.objects.issue(
            user=users[each % 3],
            name=("Laptop", "Nightly job of the archive", "W" * 100)[each % 3],
            **limits[each % 3],
        )
        token.created_at = now - timedelta(days=3 * each)
        token.last_used_at = now - timedelta(hours=5 * each) if each % 2 else None
        token.revoked_at = now if each == 5 else None
        token.save()


@pytest.mark.parametrize("width", WIDTHS)
def test_list_of_tokens_fits_the_window(visit: Visit, width: int) -> None:
    for number in (0, 1, 12):
        issue(number)
        for scheme, locale in zip(SCHEMES, ("en", "de"), strict=True):
            page = visit(LIST, width=width, scheme=scheme, locale=locale)
            check(page, f"admin-tokens-{number}")
            links = page.locator(".field-revocation a").all()
            assert len(links) == number - (number > 5)
            for link in links:
                box = link.bounding_box()
                assert box is not None
                assert 0 <= box["x"] <= box["x"] + box["width"] <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_own_tokens_page_is_legible_and_accessible(visit: Visit, width: int) -> None:
    for number in (0, 1, 12):
        issue(number)
        Token.objects.update(user=get_user_model().objects.get(username="author"))
        for scheme in SCHEMES:
            page = visit(OWN, "author", width=width, scheme=scheme)
            check(page, f"tokens-{number}")
    page.get_by_role("button", name="Revoke").first.click()
    check(page, "tokens-ask")
    page.reload()
    # The arrow keys move through tabs.
    assert all('role="tab"' in each for each in missed_by_the_keyboard(page))


def asked(page: Page) -> Any:
    page.get_by_role("button", name="Revoke Laptop").click()
    question = page.get_by_role("dialog", name="Revoke “Laptop")
    question.wait_for()
    return question


def test_revoking_own_token_is_confirmed(visit: Visit) -> None:
    issue(1)
    Token.objects.update(user=get_user_model().objects.get(username="author"))
    page = visit(OWN, "author")
    asked(page).get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").wait_for(state="hidden")
    asked(page)
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    assert Token.objects.get().is_valid
    asked(page).get_by_role("button", name="Revoke").click()
    page.get_by_text("was revoked").wait_for()
    assert not Token.objects.get().is_valid


@pytest.mark.parametrize("width", [1280, 390])
def test_tools_of_a_token_are_searched(visit: Visit, width: int) -> None:
    page = visit(f"{LIST}add/", width=width, scheme=SCHEMES[width < 400])
    check(page, "admin-token-add")
    boxes, find = (
        page.locator("input[name=tools]"),
        page.get_by_role("searchbox", name="Filter", exact=True),
    )
    assert boxes.count() > 10
    page.locator("[value=comments_list]").check()
    find.fill("articles get")
    assert boxes.locator("visible=true").evaluate_all("all => all.map(each => each.value)") == [
        "articles_get",
        "comments_list",
    ]
    page.keyboard.press("Enter")
    page.locator("[value=articles_get]").check()
    check(page, "admin-token-search")
    find.fill("")
    assert boxes.locator("visible=true").count() == boxes.count()
    page.get_by_label("Name:").fill("Laptop")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Copy it now").wait_for()
    assert set(Token.objects.get().tools.split()) == {"articles_get", "comments_list"}  # type: ignore[union-attr]

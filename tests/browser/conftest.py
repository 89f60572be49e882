"""A real browser (Debian's Chromium, driven by Playwright) on a served newsroom."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.test.utils import override_settings
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

# Playwright's loop runs in the thread of the tests, where Django would refuse the database.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

PICTURES = Path(os.environ.get("SCREENSHOTS", ".screenshots"))
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
# Pages being photographed or measured: both inject style sheets, which the policy rightly
# refuses.
INSPECTED: set[Page | None] = set()
WIDTHS, SCHEMES = (1280, 400), ("light", "dark")


@pytest.fixture(autouse=True, scope="module")
def test_site() -> None:
    """Override of the fixture: the settings already have the site, the newsroom."""


class StrictPolicy:
    """Middleware whose pages load and run only content from their own origin."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", "default-src 'self'")
        return response


@pytest.fixture(scope="session")
def strict_policy() -> Iterator[None]:
    """A newsroom that sends a strict policy and uses the browser's language."""
    with override_settings(
        MIDDLEWARE=[
            f"{__name__}.StrictPolicy",
            *settings.MIDDLEWARE,
            "django.middleware.locale.LocaleMiddleware",
        ]
    ):
        yield


@pytest.fixture(scope="session")
def live_server(strict_policy: None, live_server: Any) -> Any:
    """The server of all tests, started with the strict policy."""
    return live_server


@pytest.fixture(scope="session")
def chromium(live_server: Any) -> Iterator[Browser]:
    """Chromium, closed before the server, whose threads end with its connections."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "Chromium is not installed: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(5)


@pytest.fixture
def newsroom(transactional_db: None) -> None:
    call_command("seed_newsroom", verbosity=0)


@pytest.fixture
def visit(newsroom: None, chromium: Browser, live_server: Any) -> Iterator[Callable[..., Page]]:
    """
    A function that opens an address as a user of the newsroom, or anonymously.

    An error in the page fails the test.
    """
    faults: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        # Browsers request a favicon, which the newsroom does not have; and axe-core parses style
        # sheets as part of the page, so it resolves Django 5.2's imports relative to the page.
        address = message.location["url"]
        if message.page in INSPECTED:
            return
        if message.type == "error" and not re.search(r"favicon\.ico$|/widgets\.css/", address):
            faults.append(f"{message.text} {address}")

    def go(
        address: str,
        username: str = "admin",
        *,
        width: int = 1280,
        scheme: Any = "light",
        locale: str = "en",
    ) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, locale=locale
        )
        if username:
            session = Client()
            session.force_login(get_user_model().objects.get(username=username))
            cookie = session.cookies["sessionid"].value
            context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", hear)
        page.goto(live_server.url + address)
        return page

    yield go
    for context in chromium.contexts:
        context.close()
    assert not faults, "\n".join(faults)


@contextmanager
def inspecting(page: Page) -> Iterator[None]:
    """Ignore console messages that the test tools cause in a page."""
    # Receive the earlier messages of the page first.
    page.evaluate("0")
    INSPECTED.add(page)
    yield
    page.evaluate("0")
    INSPECTED.remove(page)


def check(page: Page, name: str) -> None:
    """Photograph the page and check WCAG levels A and AA and landmarks as far as axe-core can."""
    with inspecting(page):
        photograph(page, name)


def photograph(page: Page, name: str) -> None:
    size = page.viewport_size
    assert size is not None
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    PICTURES.mkdir(exist_ok=True)
    picture = PICTURES / f"{name}-{size['width']}-{'dark' if is_dark else 'light'}.png"
    page.screenshot(path=picture, full_page=True)
    wanted = {
        "runOnly": {"type": "tag", "values": LEVELS},
        "rules": {"landmark-unique": {"enabled": True}},
        "resultTypes": ["violations"],
    }
    found = Axe().run(page, options=wanted)
    violations = [
        (each["id"], node["html"])
        for each in found.response["violations"]
        for node in each["nodes"]
    ]
    assert violations == [], picture.name
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{picture.name}: the page is {wide} pixels wider than the window"
    hidden = page.locator(".mcp-cards, .mcp-cards .results").evaluate_all(
        "all => all.map(each => each.scrollWidth - each.clientWidth)"
    )
    assert max(hidden, default=0) <= 0, f"{picture.name}: the list is {hidden} pixels too wide"


# The admin hides the link that removes a column from the sorting until the pointer is over it.
FOCUSABLE = (
    "#content :is(a[href]:not(.sortremove), button, input:not([type=hidden]), select, "
    "textarea, summary)"
)


def missed_by_the_keyboard(page: Page) -> list[str]:
    """Return the controls of the page that do not get the focus by pressing Tab."""
    wanted = page.locator(FOCUSABLE).evaluate_all(
        "all => all.filter(each => each.checkVisibility() && !each.disabled)"
        ".map((each, number) => (each.dataset.n = number))"
    )
    assert wanted
    reached = set()
    for _ in range(3 * len(wanted) + 60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.n ?? null"))
    missed = {str(each) for each in wanted} - reached
    return [page.locator(f"[data-n='{each}']").evaluate("e => e.outerHTML") for each in missed]

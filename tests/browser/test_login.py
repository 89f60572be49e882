"""A client's user logs in to the newsroom in a real browser while the client waits."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from mcp.shared.auth import AuthorizationCodeResult
from playwright.sync_api import Page

from mcp_bridge.models import ToolCallRecord
from testproject.authorization import authorization
from testproject.demo.client import visit as connected
from testproject.demo.login import CALLBACK, login
from testproject.newsroom.models import Article
from testproject.newsroom.seeding.users import PASSWORD
from testproject.settings import MCP_BRIDGE
from tests.browser.conftest import SCHEMES, WIDTHS, check, missed_by_the_keyboard
from tests.browser.test_admin import Visit

SECONDS = 60


class Window:
    """A browser window in which a client in another thread opens an address."""

    def __init__(self) -> None:
        self.asked: Queue[str] = Queue()
        self.answers: Queue[str] = Queue()

    async def visit(self, url: str) -> None:
        self.asked.put(url)

    async def answer(self) -> AuthorizationCodeResult:
        url = await asyncio.to_thread(self.answers.get, timeout=SECONDS)
        told = {name: each for name, (each,) in parse_qs(urlsplit(url).query).items()}
        return AuthorizationCodeResult.model_validate(told)


@pytest.fixture(autouse=True)
def with_login(newsroom: None, live_server: Any, settings: Any) -> Any:
    for name, value in authorization(live_server.url, MCP_BRIDGE).items():
        setattr(settings, name, value)
    yield
    ToolCallRecord.objects.all().delete()


def allow(page: Page) -> str:
    """Press the button, and return the address that the browser is sent to."""
    page.route(f"{CALLBACK}*", lambda route: route.fulfill(body="You may close this page."))
    page.get_by_role("button", name="Allow", exact=True).click()
    page.get_by_text("You may close this page.").wait_for()
    return page.url


def test_client_is_authorized_and_later_gains_scopes(visit: Visit, live_server: Any) -> None:
    window, url = Window(), f"{live_server.url}/mcp"
    slug = Article.objects.filter(status=Article.Status.DRAFT).earliest("pk").slug

    async def act() -> list[Any]:
        auth = login(url, window, client_name="Fountain")  # type: ignore[arg-type]
        async with connected(url, "auto", auth, lambda _: None) as client:
            return [
                await client.call("desk_whoami"),
                await client.call("articles_submit", slug=slug),
            ]

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(asyncio.run, act())
        asked = window.asked.get(timeout=SECONDS)
        page = visit(asked.removeprefix(live_server.url), "")
        page.get_by_role("heading", name="Log in to the newsroom").wait_for()
        page.get_by_label("Username").fill("editor")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("Please enter a correct username and password").wait_for()
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Allow Fountain to use newsroom?").wait_for()
        assert page.get_by_text("Read articles, comments, pictures and statistics").count() == 1
        assert page.get_by_text("Write, publish and delete").count() == 0
        check(page, "login-consent")
        window.answers.put(allow(page))
        # The next call requires more scopes: the same user consents again without a login.
        page.goto(window.asked.get(timeout=SECONDS))
        page.get_by_text("Write, publish and delete articles").wait_for()
        check(page, "login-consent-more")
        window.answers.put(allow(page))
        me, submitted = done.result(SECONDS)
    assert me["username"] == "editor"
    assert submitted["status"] == "review"
    page.goto(f"{live_server.url}/mcp/connections/")
    page.get_by_role("heading", name="Fountain").wait_for()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_newsroom_login_is_legible_and_accessible(visit: Visit, width: int, scheme: Any) -> None:
    page = visit("/login/?next=/mcp/connections/", "", width=width, scheme=scheme)
    check(page, "login")
    assert missed_by_the_keyboard(page) == []

"""The pages in popular themes of the admin: all are legible and usable."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PICTURES, SCHEMES
from tests.browser.themes.serving import prepare, serving

THEMES = ("unfold", "jazzmin", "grappelli")
# Pages of Django: their text colours are those of the theme.
OF_DJANGO = ("/admin/", "/admin/auth/user/", "/admin/auth/user/1/change/", "/admin/auth/group/add/")
COLOURS = """() => [...document.querySelectorAll("body *")].map(
    (each) => getComputedStyle(each).color)"""

Visit = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def site(tmp_path_factory: Any) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("themes")
    return folder, prepare(folder)


@pytest.fixture(scope="module", params=THEMES)
def theme(request: Any, site: tuple[Path, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """A theme, and the address of the newsroom that has it."""
    with serving(site[0], request.param) as url:
        yield request.param, url


@pytest.fixture
def visit(
    theme: tuple[str, str], chromium: Browser, site: tuple[Path, dict[str, Any]]
) -> Iterator[Visit]:
    """A function that opens a window of the newsroom's owner; errors in its pages fail the test."""
    faults: list[str] = []
    _, url = theme

    def go(scheme: Any = "light") -> BrowserContext:
        size: Any = {"width": 1280, "height": 900}
        context = chromium.new_context(viewport=size, color_scheme=scheme, base_url=url)
        context.add_cookies([{"name": "sessionid", "value": site[1]["session"], "url": url}])
        context.on("weberror", lambda error: faults.append(str(error.error)))
        context.on("console", hear)
        return context

    def hear(message: Any) -> None:
        address = message.location["url"]
        if message.type == "error" and not re.search(r"favicon\.ico$|/widgets\.css/", address):
            faults.append(f"{message.text} {address}")

    yield go
    for context in chromium.contexts:
        context.close()
    assert faults == []


def faint(page: Page, colours: set[str]) -> list[tuple[str, str]]:
    """Return texts of too little contrast, by axe-core, in colours that the theme does not use."""
    found = Axe().run(page, options={"runOnly": {"type": "rule", "values": ["color-contrast"]}})
    nodes = [node for each in found.response["violations"] for node in each["nodes"]]
    return [
        (node["html"], check["message"])
        for node in nodes
        for check in node["any"]
        if rgb(check["data"]["fgColor"]) not in colours
    ]


def rgb(colour: str) -> str:
    parts = (str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    return f"rgb({', '.join(parts)})"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_is_legible(
    theme: tuple[str, str], visit: Visit, scheme: str, site: tuple[Path, dict[str, Any]]
) -> None:
    PICTURES.mkdir(exist_ok=True)
    page = visit(scheme).new_page()
    colours: set[str] = set()
    for address in OF_DJANGO:
        page.goto(address)
        colours.update(page.evaluate(COLOURS))
    for name, address in site[1]["pages"].items():
        response = page.goto(address)
        assert response is not None
        assert response.status == 200, address
        # Some themes fade parts of the page in.
        page.wait_for_timeout(150)
        picture = PICTURES / f"{theme[0]}-{name}-{scheme}.png"
        page.screenshot(path=picture, full_page=True)
        assert faint(page, colours) == [], picture.name
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{picture.name}: the page is {wide} pixels wider than the window"


def test_tools_are_switched_and_calls_are_decided(
    visit: Visit, site: tuple[Path, dict[str, Any]]
) -> None:
    pages = site[1]["pages"]
    page = visit().new_page()
    page.goto(pages["tools"])
    page.get_by_role("switch", name="comments_add is enabled").uncheck()
    page.get_by_text("“comments_add” is disabled").first.wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("“comments_add” is enabled").first.wait_for()

    page.goto(pages["tool"])
    page.locator("#id_rate").fill("5/min")
    page.get_by_role("button", name="Save", exact=True).or_(
        page.locator("input[name=_save]")
    ).first.click()
    page.wait_for_url(re.compile(re.escape(pages["tools"])))
    page.goto(pages["tool"])
    expect(page.locator("#id_rate")).to_have_value("5/min")

    page.goto(pages["front"])
    page.locator(".mcp-held").first.get_by_role("button", name="Approve").click()
    page.get_by_text(re.compile("approved")).first.wait_for()

    page.goto(pages["token-connect"])
    page.get_by_role("tab", name="Cursor").click()
    assert page.locator("section[role=tabpanel]:visible").count() == 1
    assert "mcpServers" in page.locator("section[role=tabpanel]:visible pre").first.inner_text()


def test_calls_are_filtered(visit: Visit, site: tuple[Path, dict[str, Any]]) -> None:
    page = visit().new_page()
    page.goto(site[1]["pages"]["calls"])
    field = page.locator("#mcp-by-tool")
    if not field.is_visible():
        page.get_by_text("Filter", exact=False).locator("visible=true").first.click()
    field.fill("articles_revise")
    field.locator("xpath=ancestor::details").get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("tool=articles_revise"))
    assert page.locator("#result_list tbody tr, table.result-list tbody tr").count() == 1

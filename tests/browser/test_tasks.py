"""Common tasks of administrators take few clicks, on a site of any size."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from mcp_bridge.models import ToolSetting
from tests.browser.conftest import WIDTHS, check
from tests.browser.test_admin import LIST, Visit, tool
from tests.support.administrator import serve_tools
from tests.support.many_tools import serve_many

WAITING = 271


class Clicks:
    """A page that counts the clicks made on it; checkboxes and choices are clicks too."""

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    def click(self, role: Any, name: Any) -> Locator:
        """Click the first element of a role with that name."""
        found = self.page.get_by_role(role, name=name).first
        self.count += 1
        found.click()
        return found


@pytest.fixture
def waiting(visit: Visit, settings: Any) -> Clicks:
    serve_many(settings, WAITING)
    return Clicks(visit(LIST, width=1440))


def test_271_tools_are_approved_in_three_clicks(waiting: Clicks) -> None:
    waiting.click("link", "Review them on one page.")
    waiting.click("button", f"Select all {WAITING}")
    waiting.page.get_by_text(f"Selected: {WAITING}").wait_for()
    check(waiting.page, "admin-approve-many")
    waiting.click("button", "Approve selected")
    waiting.page.get_by_text(f"{WAITING} tools were approved.").wait_for()
    assert waiting.count <= 6
    assert not ToolSetting.objects.filter(fingerprint="").exists()


def test_some_tools_are_approved_and_others_kept_disabled(waiting: Clicks) -> None:
    waiting.click("link", "Review them on one page.")
    waiting.click("button", "Select 91 that only read")
    waiting.page.get_by_text("Selected: 91").wait_for()
    waiting.click("button", "Approve selected")
    waiting.page.get_by_text("91 tools were approved.").wait_for()
    waiting.click("button", "Select all 180")
    waiting.click("button", "Approve, keep disabled")
    waiting.page.get_by_text("180 tools were reviewed and are disabled.").wait_for()
    assert waiting.count <= 6
    assert ToolSetting.objects.filter(enabled=True).count() == 91


def test_selected_pending_tools_are_reviewed_from_the_list(waiting: Clicks) -> None:
    page = waiting.page
    assert not page.get_by_role("switch").first.is_enabled()
    for number in range(2):
        page.locator("input.action-select").nth(number).check()
    page.get_by_label("Action:").select_option(label="Enable selected tools")
    page.locator("button[name=index]").click()
    waiting.click("button", "Select all 2")
    page.get_by_text("tool_000", exact=True).click()
    page.get_by_text("It says nothing more.").first.wait_for()
    check(page, "admin-review")
    waiting.click("button", "Approve selected")
    page.get_by_text("2 tools were approved.").wait_for()


def find_people(name: str, count: int = 3) -> list[dict[str, Any]]:
    """Find people by their names."""
    return [{"name": name, "number": number, "active": True} for number in range(count)]


@pytest.mark.parametrize("width", WIDTHS)
def test_error_of_a_value_is_focused_and_then_mended(
    visit: Visit, settings: Any, width: int
) -> None:
    serve_tools(settings, find_people)
    visit(LIST).wait_for_load_state()
    page = visit(tool("find_people") + "try/", width=width)
    page.get_by_role("button", name="Run the call").click()
    name = page.get_by_label("name")
    page.locator("[name='arguments-name']:focus").wait_for()
    page.get_by_text("is required and was not sent").wait_for()
    check(page, "admin-try-error")
    name.fill("Ada")
    page.get_by_role("button", name="Run the call").click()
    page.get_by_role("cell", name="Ada").first.wait_for()
    assert page.get_by_role("row").filter(has_text="Ada").count() == 3
    check(page, "admin-try-table")
    assert not page.get_by_text('"number": 0').is_visible()


def test_destructive_tool_has_a_red_button(visit: Visit) -> None:
    page = visit(tool("articles_delete") + "try/", scheme="dark")
    page.get_by_label("slug").fill("no-such-article")
    page.get_by_role("button", name="Continue").click()
    run = page.get_by_role("button", name="Run")
    assert run.evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(186, 33, 33)"
    check(page, "admin-try-confirm")

"""The lists of the admin show on the first screen what people come for."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from tests.browser.conftest import check
from tests.browser.test_admin import LIST, Visit
from tests.browser.test_queue import two_weeks_of_calls

CALLS = "/admin/mcp_bridge/toolcallrecord/"
HEIGHT = 900


def top(place: Locator) -> float:
    """Return how many pixels an element is below the top of its page."""
    found = place.first.bounding_box()
    assert found is not None
    return found["y"]


def test_first_screen_has_12_tools(visit: Visit) -> None:
    rows = visit(LIST, width=1440).locator("#result_list tbody tr:not(.mcp-group)")
    boxes = [row.bounding_box() for row in rows.all()[:20]]
    assert sum(box["y"] + box["height"] <= HEIGHT for box in boxes if box) >= 12


@pytest.mark.parametrize("width", [1440, 1024])
def test_description_has_two_lines_after_its_badges(visit: Visit, width: int) -> None:
    texts = visit(LIST, width=width).locator(".field-what_it_does div")
    assert texts.count() > 12
    heights = [box["height"] for each in texts.all() if (box := each.bounding_box())]
    assert max(heights) < 45
    # A long one can be read by pointing at it.
    assert all(each.get_attribute("title") in each.inner_text() for each in texts.all())


def test_description_is_whole_on_a_phone(visit: Visit) -> None:
    cells = visit(LIST, width=390).locator(".field-what_it_does")
    hidden = cells.evaluate_all(
        "all => all.map(e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight])"
    )
    assert max(max(each) for each in hidden) <= 1


def test_switch_shows_a_message_in_view_with_undo(visit: Visit) -> None:
    page = visit(LIST, width=1440)
    switch = page.get_by_role("switch").last
    switch.uncheck()
    toast = page.get_by_role("status").filter(has_text="is disabled")
    toast.wait_for()
    box = toast.bounding_box()
    assert box is not None
    assert 0 <= box["y"] <= HEIGHT - box["height"]
    check(page, "admin-toast")
    toast.get_by_role("button", name="Undo").click()
    page.get_by_role("status").filter(has_text="is enabled").wait_for()
    assert switch.is_checked()


@pytest.mark.parametrize(("width", "most"), [(1440, 420), (390, 600)])
def test_first_call_is_on_the_first_screen(visit: Visit, width: int, most: int) -> None:
    two_weeks_of_calls()
    page = visit(CALLS, width=width)
    assert top(page.locator("#result_list tbody tr")) <= most


def test_durations_do_not_wrap_on_a_phone(visit: Visit) -> None:
    two_weeks_of_calls()
    cells = visit(CALLS, width=390).locator(".field-shown_duration")
    heights = [box["height"] for cell in cells.all()[:10] if (box := cell.bounding_box())]
    assert max(heights) < 40


def test_filter_opens_above_the_list(visit: Visit) -> None:
    page = visit(LIST, width=1440)
    assert not page.locator("#changelist-filter").is_visible()
    page.locator(".mcp-fold > summary").click()
    assert top(page.locator("#changelist-filter")) < top(page.locator("#result_list"))
    check(page, "admin-filter")

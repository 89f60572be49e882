"""The pages of calls that run as tasks, in the browser: the list, one task, and cancelling."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from playwright.sync_api import Page

from mcp_bridge.tasks.models import McpTask
from tests.browser.conftest import SCHEMES, WIDTHS, check, missed_by_the_keyboard
from tests.browser.test_admin import Visit
from tests.tasks.world import begun, ended, follower, state

TASKS = "/admin/mcp_bridge_tasks/mcptask/"


@pytest.fixture
def client(newsroom: None) -> Any:
    return follower(get_user_model().objects.get(username="editor"))


def at(key: str) -> str:
    return f"{TASKS}{quote(key)}/change/"


def is_usable(page: Page, name: str) -> None:
    check(page, name)
    assert missed_by_the_keyboard(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_list_says_how_far_tasks_are(visit: Visit, client: Any, width: int, scheme: str) -> None:
    ended(client, "wire_import", copies=2)
    begun(client, "wire_import", copies=3)
    failed = begun(client, "wire_import", copies=4)
    McpTask.rows().get(pk=failed).become(McpTask.Status.FAILED, error={"code": -1, "message": ""})
    page = visit(TASKS, width=width, scheme=scheme)
    statuses = page.locator(".field-shown_status").all_inner_texts()
    for each, text in zip(statuses, ("✗ failed", "▸ working\nqueued", "✓ completed"), strict=True):
        assert text in each
    is_usable(page, "tasks")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_task_is_cancelled_on_its_page(visit: Visit, client: Any, width: int, scheme: str) -> None:
    key = begun(client, "wire_import", copies=3)
    page = visit(at(key), width=width, scheme=scheme)
    assert "copies\n3" in page.locator("#content-main").inner_text()
    is_usable(page, "task")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("1 task was cancelled.").wait_for()
    assert state(client, key)["status"] == "cancelled"
    assert page.get_by_role("button", name="Cancel").count() == 0
    is_usable(page, "task-cancelled")


def test_selected_tasks_are_cancelled_by_the_keyboard(visit: Visit, client: Any) -> None:
    over = ended(client, "wire_import", copies=2)["taskId"]
    keys = [begun(client, "wire_import", copies=2) for _ in range(2)]
    page = visit(TASKS)
    page.locator("#action-toggle").press("Space")
    page.get_by_role("combobox", name="Action").select_option(label="Cancel selected tasks")
    page.locator("button[name=index]").press("Enter")
    page.get_by_text("2 tasks were cancelled.").wait_for()
    assert {state(client, key)["status"] for key in keys} == {"cancelled"}
    assert state(client, over)["status"] == "completed"


def test_who_may_only_look_cannot_cancel(visit: Visit, client: Any) -> None:
    key = begun(client, "wire_import", copies=2)
    viewer = get_user_model().objects.create(username="viewer", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename="view_mcptask"))
    page = visit(at(key), "viewer")
    page.get_by_text("You can view tasks but not cancel them").wait_for()
    assert page.get_by_role("button", name="Cancel").count() == 0
    page = visit(TASKS, "viewer")
    assert page.locator(".field-shown_status").count() == 1
    assert page.locator("#action-toggle").count() == 0

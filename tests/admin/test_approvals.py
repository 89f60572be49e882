"""The page on which all pending tools are reviewed and approved."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlencode

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pydantic import Field

from mcp_bridge.admin.tool_settings import PER_PAGE
from mcp_bridge.models import ToolSetting
from mcp_bridge.testing import MCPClient
from tests.support.administrator import (
    CHANGE,
    VIEW,
    Administrator,
    address,
    row,
    serve_tools,
)
from tests.support.many_tools import serve_many

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"


def file_note(text: Annotated[str, Field(max_length=20, description="Its <b>text</b>.")]) -> str:
    """
    File a note <script>alert(1)</script>.

    No one reads it.
    """
    return text


def file_plan(pages: int, signed: bool = False) -> str:
    """File a plan."""
    return str(pages)


def file_plan_again(pages: int, signed: bool = True, sealed: bool = False) -> str:
    """File a plan."""
    return str(pages)


@pytest.fixture
def administrator(settings: Any) -> Administrator:
    ToolSetting.objects.all().delete()
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled"}
    serve_tools(settings, file_note, file_plan, title="Put away")
    administrator = Administrator()
    administrator.get("changelist")
    return administrator


def offered(page: str) -> list[str]:
    """Return the fingerprints and names that the page would approve."""
    return re.findall(r'name="tool" value="(\w+ \w+)">', page)


def names(posted: list[str]) -> list[str]:
    return [each.split()[1] for each in posted]


def listed(administrator: Administrator) -> list[str]:
    return [each["name"] for each in MCPClient(user=administrator.user).list_tools()]


def test_new_tools_are_approved_on_one_page(administrator: Administrator) -> None:
    assert "Review them on one page." in administrator.get("changelist")
    page = administrator.get("waiting")
    assert names(offered(page)) == ["file_note", "file_plan"]
    assert MARKER not in page
    assert page.count('">Put away</h2>') == 2
    text = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page))
    assert "No one reads it." in text
    assert "text required string, maximum length 20 Its &lt;b&gt;text&lt;/b&gt;." in text
    assert "signed boolean default: false" in text
    assert "Who can use it every user (1 person)" in text
    # An approval covers the whole definition.
    assert "&quot;confirm&quot;: false" in page
    assert listed(administrator) == []
    page = administrator.post("waiting", tool=offered(page)[:1])
    assert "1 tool was approved." in page
    assert names(offered(page)) == ["file_plan"]
    assert listed(administrator) == ["file_note"]
    assert row("file_note").approved_by == administrator.user
    (entry,) = LogEntry.objects.all()
    assert entry.get_change_message().startswith("Approved the definition ")
    assert "0 tools were approved." in administrator.post("waiting")


def test_changed_tool_shows_its_changes(administrator: Administrator, settings: Any) -> None:
    administrator.post("waiting", tool=offered(administrator.get("waiting")))
    ToolSetting.objects.update(guarded=True)
    serve_tools(settings, file_plan_again, name="file_plan", title="Put away")
    page = administrator.get("waiting")
    assert names(offered(page)) == ["file_plan"]
    assert "parameter sealed<br>(added)" in page
    assert "parameter signed: default<br>(changed)" in page
    assert "File a plan." in page


def test_unshown_definitions_are_not_approved(administrator: Administrator, settings: Any) -> None:
    note, plan = offered(administrator.get("waiting"))
    serve_tools(settings, file_note, title="Put away")
    serve_tools(settings, file_plan_again, name="file_plan", title="Put away")
    page = administrator.post("waiting", tool=[plan, f"0{note[1:]}", "0 gone", "nonsense", " "])
    assert "0 tools were approved." in page
    assert "since you opened the page: file_note, file_plan, gone." in re.sub(r"\s+", " ", page)
    assert listed(administrator) == []
    assert not LogEntry.objects.exists()


def test_approving_requires_permission_and_csrf_token(
    administrator: Administrator,
) -> None:
    posted = offered(administrator.get("waiting"))
    reader = Administrator(VIEW, username="reader")
    page = reader.get("waiting")
    assert "No one reads it." in page
    assert offered(page) == []
    assert "You cannot approve them" in page
    reader.post("waiting", tool=posted, expected=403)
    outsider = Administrator("view_group", username="outsider")
    outsider.get("waiting", expected=403)
    outsider.post("waiting", tool=posted, expected=403)
    administrator.browser.handler.enforce_csrf_checks = True
    administrator.post("waiting", tool=posted, expected=403)
    assert not ToolSetting.objects.exclude(fingerprint="").exists()
    chief = Administrator(CHANGE, username="chief")
    assert "2 tools were approved." in chief.post("waiting", tool=posted)
    assert "No tools are pending approval." in chief.get("waiting")


def test_many_pending_tools_are_paginated_in_few_queries(settings: Any) -> None:
    known = serve_many(settings, PER_PAGE + 2)
    administrator = Administrator()
    administrator.get("changelist")
    administrator.get("waiting")
    with CaptureQueriesContext(connection) as queries:
        page = administrator.get("waiting")
    assert len(offered(page)) == PER_PAGE
    assert len(queries) <= 12, queries.captured_queries
    assert names(offered(administrator.get("waiting", p=2))) == known[-2:]


def test_reviewed_tools_can_be_kept_disabled(administrator: Administrator) -> None:
    note, plan = offered(administrator.get("waiting"))
    page = administrator.post("waiting", tool=[note], _keep="x")
    assert "1 tool was reviewed and is disabled." in page
    assert names(offered(page)) == ["file_plan"]
    assert listed(administrator) == []
    (entry,) = LogEntry.objects.all()
    assert entry.get_change_message().startswith("Disabled after a review of the definition ")
    kept = row("file_note")
    assert (kept.enabled, kept.approved_by) == (False, administrator.user)
    # Its definition was shown, so it can be enabled in the list.
    administrator.act("switch_on", "file_note")
    assert listed(administrator) == ["file_note"]
    # A definition that was not shown is not decided on either.
    administrator.post("waiting", tool=[f"0{plan[1:]}"], _keep="x")
    assert row("file_plan").fingerprint == ""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"q": "WORD tool_002"}, [2]),
        ({"hint": "read-only"}, [0, 3]),
        ({"hint": "deletes"}, [1, 4]),
        ({"app": "tests", "hint": "does not delete"}, [2, 5]),
        ({"app": "shop"}, []),
    ],
)
def test_pending_tools_are_filtered_by_url(
    settings: Any, query: dict[str, str], expected: list[int]
) -> None:
    known = serve_many(settings, 6)
    administrator = Administrator()
    administrator.get("changelist")
    page = administrator.get("waiting", **query)
    assert names(offered(page)) == [known[number] for number in expected]
    assert ("No matching tools." in page) == (not expected)
    assert "All 6 pending tools</a>" in page
    # After a decision the filter remains, also if nothing matches it any more.
    path = f"{address('waiting')}?{urlencode(query)}"
    response: Any = administrator.browser.post(path, {"tool": offered(page)}, follow=True)
    assert response.redirect_chain[-1][0] == path
    assert "No matching tools." in response.content.decode()


@pytest.mark.parametrize(("select", "expected"), [("all", 6), ("reads", 2), ("", 0)])
def test_pending_tools_are_selected_without_javascript(
    settings: Any, select: str, expected: int
) -> None:
    serve_many(settings, 6)
    administrator = Administrator()
    administrator.get("changelist")
    page = administrator.get("waiting", select=select)
    ticked = re.findall(r'name="tool" value="(\w+ \w+)" checked>', page)
    assert len(ticked) == expected
    assert "Select all 6</button>" in page
    assert "Select 2 that only read</button>" in page
    # The selected tools alone are approved, and the rest is shown without a selection.
    path = f"{address('waiting')}?select={select}"
    response: Any = administrator.browser.post(path, {"tool": ticked}, follow=True)
    assert response.redirect_chain[-1][0] == address("waiting")
    assert len(listed(administrator)) == expected


def test_selecting_stays_on_the_page(settings: Any) -> None:
    serve_many(settings, 302)
    administrator = Administrator()
    administrator.get("changelist")
    assert 'name="p"' not in administrator.get("waiting")
    page = administrator.get("waiting", p=2, select="all")
    assert '<input type="hidden" name="p" form="mcp-filters" value="2">' in page
    assert len(re.findall(r'name="tool" value="\w+ \w+" checked>', page)) == 2


def test_enabling_pending_tools_leads_to_their_review(settings: Any) -> None:
    first, second, third, *_ = serve_many(settings, 4)
    administrator = Administrator()
    administrator.get("changelist")
    ToolSetting.objects.filter(name=second).update(enabled=False)
    page = administrator.act("switch_on", first, second)
    assert names(offered(page)) == [first, second]
    assert "enabled." not in page
    assert "All 4 pending tools</a>" in page
    administrator.post("waiting", tool=offered(page))
    assert listed(administrator) == [first, second]
    administrator.act("switch_off", first)
    page = administrator.act("switch_on", first, second, third)
    assert "1 tool was enabled. 1 was unchanged." in page
    assert names(offered(page)) == [third]
    assert "1 tool was disabled." in administrator.act("switch_off", third)


def test_switch_of_a_pending_tool_is_off(settings: Any) -> None:
    (name,) = serve_many(settings, 1)
    administrator = Administrator()
    page = administrator.get("changelist")
    (switch,) = re.findall(r"<input[^>]*data-mcp-switch[^>]*>", page)
    assert " disabled" in switch
    assert " checked" not in switch
    assert f'<a href="waiting/?only={row(name).pk}">new, pending approval</a>' in page
    # Saving the list, as an older page may send it, neither changes it nor logs a change.
    administrator.tick(**{name: False})
    assert row(name).enabled
    assert not LogEntry.objects.exists()
    administrator.post("waiting", tool=offered(administrator.get("waiting")))
    (switch,) = re.findall(r"<input[^>]*data-mcp-switch[^>]*>", administrator.get("changelist"))
    assert " checked" in switch

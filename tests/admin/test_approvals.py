"""The page on which all pending tools are reviewed and approved."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pydantic import Field

from mcp_bridge.admin.tool_settings import PER_PAGE
from mcp_bridge.models import ToolSetting
from mcp_bridge.testing import MCPClient
from tests.support.administrator import CHANGE, VIEW, Administrator, row, serve_tools

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
    ToolSetting.objects.all().delete()
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled", "STATE_MAX_AGE": 600}
    functions = []
    for number in range(PER_PAGE + 2):

        def function() -> str:
            """Do one of many."""
            return ""

        function.__name__ = f"tool_{number:02}"
        functions.append(function)
    serve_tools(settings, *functions)
    administrator = Administrator()
    administrator.get("changelist")
    with CaptureQueriesContext(connection) as queries:
        page = administrator.get("waiting")
    assert len(offered(page)) == PER_PAGE
    assert len(queries) <= 12, queries.captured_queries
    assert names(offered(administrator.get("waiting", p=2))) == ["tool_20", "tool_21"]

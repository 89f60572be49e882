"""The page of a record: why a call was refused, and what the model read of an error."""

from __future__ import annotations

import re
from contextlib import suppress
from html import unescape
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.urls import reverse

from mcp_bridge import mcp_resource
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient, MCPError
from tests.admin.test_call_log import RECORDS, archive, listed, make, rows_of
from tests.admin.test_call_log import administrator as administrator
from tests.support.administrator import Administrator, row, serve_tools

pytestmark = pytest.mark.django_db


def read_at(administrator: Administrator, record: ToolCallRecord) -> str:
    """Return the content of a record's page as plain text."""
    page = administrator.browser.get(reverse(f"{RECORDS}change", args=[record.pk]))
    text = page.content.decode().split('id="content-main"')[1]
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", text).split()))


def refused(user: Any, tool: str = "archive") -> ToolCallRecord:
    """Call a tool that is refused; return the record."""
    with suppress(MCPError):
        MCPClient(user=user).call_tool(tool, {"slug": "mars"})
    record = ToolCallRecord.objects.latest("pk")
    assert record.outcome == "refused"
    return record


def test_refused_call_names_the_missing_permissions(
    settings: Any, administrator: Administrator
) -> None:
    serve_tools(settings, archive, permissions=["auth.add_user"])
    eva = get_user_model().objects.create_user("eva")
    record = refused(eva)
    text = read_at(administrator, record)
    assert "eva did not have access. Now: eva lacks “Can add user”. Preview as eva" in text
    assert "What the model read: Unknown tool: archive" in text
    page = administrator.browser.get(reverse(f"{RECORDS}change", args=[record.pk]))
    (address,) = re.findall(r'<a href="([^"]+)">Preview as eva', page.content.decode())
    assert "eva sees 0 tools of 1" in administrator.browser.get(address).content.decode()
    row("archive").groups.set([Group.objects.create(name="desk")])
    ToolSetting.objects.update(restricted=True)
    assert "Now: eva is not in desk. eva lacks “Can add user”." in read_at(administrator, record)
    ToolSetting.objects.update(enabled=False)
    assert "Now: It is disabled." in read_at(administrator, record)
    get_user_model().objects.filter(pk=eva.pk).update(is_superuser=True)
    ToolSetting.objects.update(enabled=True, restricted=False)
    assert "Now eva can use it. Either this has changed" in read_at(administrator, record)


def test_reason_of_a_refusal_requires_both_permissions(
    settings: Any, administrator: Administrator
) -> None:
    serve_tools(settings, archive, permissions=["auth.add_user"])
    record = refused(get_user_model().objects.create_user("eva"))
    log, tools, users = "view_toolcallrecord", "view_toolsetting", "view_user"
    for number, codenames in enumerate([(log,), (log, tools), (log, users), (log, tools, users)]):
        text = read_at(Administrator(*codenames, username=f"viewer{number}"), record)
        assert "eva did not have access." in text
        is_told = number == 3
        assert ("Can add user" in text, "Preview as eva" in text) == (is_told, is_told)


def test_reason_is_not_guessed_for_deleted_users(
    settings: Any, administrator: Administrator
) -> None:
    serve_tools(settings, archive, permissions=["auth.add_user"])
    eva = get_user_model().objects.create_user("eva")
    record = refused(eva)
    eva.delete()
    text = read_at(administrator, record)
    assert "eva did not have access." in text
    assert ("Now" in text, "Preview as eva" in text) == (False, False)
    text = read_at(administrator, make(outcome="refused", error_code="forbidden"))
    assert "Now: Requires login. Preview as Anonymous caller" in text


def test_each_code_of_a_refusal_has_a_sentence(administrator: Administrator) -> None:
    user = administrator.user
    sentences = set()
    for code in ErrorCode:
        record = make(outcome="refused", error_code=code, user=user, user_name=user.get_username())
        (sentence,) = re.findall(
            r"Why it (?:was refused|did not run) (.*?\.)(?: |$)", read_at(administrator, record)
        ) or [""]
        sentences.add(sentence)
    # A refusal is never "unsendable", "answered", "timed out" or a "protocol error".
    assert len(sentences) == len(ErrorCode) - 3
    assert "Why it was refused" not in read_at(administrator, make(outcome="failed"))


def test_refusals_show_current_rates_and_scopes(
    settings: Any, administrator: Administrator
) -> None:
    serve_tools(settings, archive, scopes=["articles:write"], throttle="1/hour")
    cache.clear()
    user = administrator.user
    MCPClient(user=user).call_tool("archive", {"slug": "mars"})
    text = read_at(administrator, refused(user))
    assert "administrator made more calls than the rate allows. Now its rate is 1/hour." in text
    record = make(outcome="refused", error_code="insufficient_scope", user=user)
    record.user_name = user.get_username()
    record.save()
    assert "Now required: articles:write." in read_at(administrator, record)


def test_exception_is_shown_beside_the_model_text(
    settings: Any, administrator: Administrator
) -> None:
    def divide(by: int) -> float:
        """Divide one."""
        return 1 / by

    serve_tools(settings, divide)
    sent = MCPClient(user=administrator.user).call_tool("divide", {"by": 0})
    text = read_at(administrator, ToolCallRecord.objects.get())
    assert f"What the model read: {sent['content'][0]['text']} Exception, not sent:" in text
    assert "ZeroDivisionError: division by zero" in text
    (line,) = rows_of(listed(administrator))
    assert "ZeroDivisionError: division by zero" in line
    MCPClient(user=administrator.user).call_tool("divide", {"by": 1})
    text = read_at(administrator, ToolCallRecord.objects.latest("pk"))
    assert "What the model read: the result, which is not kept" in text
    assert "Exception" not in text


def test_record_without_a_tool_has_no_reason_of_now(
    settings: Any, administrator: Administrator
) -> None:
    serve_tools(settings, archive, permissions=["auth.add_user"])
    eva = get_user_model().objects.create_user("eva")
    record = refused(eva)
    ToolCallRecord.objects.update(tool="")
    text = read_at(administrator, record)
    assert "Why it was refused" in text
    assert "Now" not in text


def test_records_of_resources_name_their_kind(settings: Any, administrator: Administrator) -> None:
    @mcp_resource("archive://{slug}", name="archive", permissions="auth.add_user")
    def articles(slug: str) -> str:
        """Return an article."""
        return slug

    # A tool has the same name, and is open to all.
    serve_tools(settings, archive, articles)
    registry.write_rows(using="default")
    eva = get_user_model().objects.create_user("eva")
    with pytest.raises(MCPError, match="Resource not found"):
        MCPClient(user=eva).read_resource("archive://mars")
    record = ToolCallRecord.objects.get()
    page = listed(administrator).content.decode()
    assert '<td class="field-called">resource:archive</td>' in page
    text = read_at(administrator, record)
    assert "eva did not have access. Now: eva lacks “Can add user”." in text
    assert "Tool: resource:archive" in text
    assert "Resource Try it again" in text
    page = administrator.browser.get(reverse(f"{RECORDS}change", args=[record.pk])).content.decode()
    key = ToolSetting.objects.get(kind="resource").pk
    assert f'/toolsetting/{key}/change/">Resource</a>' in page
    own = administrator.get("change", key)
    assert "<title>resource:archive | Resource" in own

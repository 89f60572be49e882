"""The administrator's view of calls: the queue, the records and the rates."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.utils import timezone
from playwright.sync_api import Page

from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.tokens.models import Token
from testproject.newsroom.models import Article
from testproject.newsroom.seeding.users import PASSWORD
from tests.browser.conftest import SCHEMES, WIDTHS, check, missed_by_the_keyboard
from tests.browser.test_admin import Visit, tool
from tests.support.revisions import ERAS

QUEUE, RECORDS = "/admin/mcp_bridge/pendingcall/", "/admin/mcp_bridge/toolcallrecord/"


class Editor(CheckedClient):
    """An editor's model in a client without elicitation."""

    def __init__(self, live_server: Any, revision: str = ERAS[0]) -> None:
        user = get_user_model().objects.get(username="editor")
        _, secret = Token.objects.issue(user=user, name="test")
        super().__init__(token=secret, revision=revision)
        self.site = live_server.url
        self.headers["Host"] = self.site.removeprefix("http://")

    def delete(self, article: Article) -> dict[str, Any]:
        return self.call_tool("articles_delete", {"slug": article.slug})

    def waits(self, article: Article) -> str:
        """Return the path of the page in the answer to a pending call."""
        result = self.delete(article)
        assert result["isError"], result
        found = re.search(rf" at {re.escape(self.site)}(/\S+)\. Ask the user", text_of(result))
        assert found, text_of(result)
        return found[1]


def draft() -> Article:
    return Article.objects.filter(status="draft").latest("pk")


def is_there(article: Article) -> bool:
    return Article.objects.filter(pk=article.pk).exists()


def two_weeks_of_calls() -> None:
    """Create the records of a small site after two weeks."""
    users = list(get_user_model().objects.filter(username__in=["author", "editor", "reader"]))
    tools = ("articles_search", "articles_get", "comments_list", "statistics_table", "wire_import")
    came = {0: (Outcome.FAILED, ErrorCode.TOOL_ERROR), 5: (Outcome.REFUSED, ErrorCode.INVALID)}
    records = []
    for days, count in enumerate((11, 22, 4, 3, 16, 15, 19, 21, 17, 2, 5, 12, 14, 9)):
        for number in range(count):
            outcome, error_code = came.get(number % 9, (Outcome.SUCCEEDED, ""))
            user = users[number % len(users)]
            record = ToolCallRecord(
                started_at=timezone.now() - timedelta(days=days, minutes=number * 7),
                tool=tools[number % len(tools)],
                user=user,
                user_name=user.username,
                outcome=outcome,
                error_code=error_code,
                duration_ms=None if outcome == Outcome.REFUSED else 3 + number * 37 % 29,
                revision=ERAS[number % 2],
            )
            records.append(record)
    ToolCallRecord.objects.bulk_create(records)


def log_in(page: Page, username: str) -> None:
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.parametrize("revision", ERAS)
def test_approved_call_runs_once(visit: Visit, live_server: Any, revision: str) -> None:
    article, editor = draft(), Editor(live_server, revision)
    address = editor.waits(article)
    page = visit(address, "")
    log_in(page, "admin")
    assert page.url == live_server.url + address
    page.get_by_role("heading", name="Run articles_delete once?").wait_for()
    text = page.locator("#content-main").inner_text()
    for part in ("Called by editor", f"slug\n{article.slug}", "there is no way back"):
        assert part in text
    assert editor.waits(article) == address
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("It runs now if it is a task").wait_for()
    assert is_there(article)
    assert editor.delete(article)["structuredContent"] == {"slug": article.slug, "comments": 0}
    assert not is_there(article)
    page.reload()
    page.get_by_role("heading", name="articles_delete: has been run").wait_for()
    assert editor.waits(article) != address


def test_refusal_by_keyboard_reaches_the_caller(visit: Visit, live_server: Any) -> None:
    article, editor = draft(), Editor(live_server)
    address = editor.waits(article)
    page = visit(address)
    page.get_by_label("Reason").focus()
    keys = page.keyboard
    keys.press("Tab")
    keys.press("Enter")
    page.get_by_text("Enter a reason for the refusal").wait_for()
    assert editor.waits(article) == address
    page.get_by_label("Reason").focus()
    keys.type("It is to be printed on Sunday.")
    keys.press("Tab")
    keys.press("Enter")
    page.get_by_text("The call was refused").wait_for()
    assert "Decided by admin" in page.locator("#content-main").inner_text()
    for _ in range(2):
        text = text_of(editor.delete(article))
        assert "a person refused this call" in text
        assert "Reason: It is to be printed on Sunday." in text
    assert is_there(article)


def test_queue_lists_calls_until_they_are_decided(visit: Visit, live_server: Any) -> None:
    first, second = Article.objects.filter(status="draft")[:2]
    editor = Editor(live_server)
    addresses = [editor.waits(article) for article in (first, second)]
    page = visit(QUEUE)
    rows = page.locator("#result_list tbody tr")
    assert rows.count() == 2
    assert missed_by_the_keyboard(page) == []
    rows.filter(has_text=first.slug).get_by_role("link").click()
    page.get_by_role("heading", name="Run articles_delete once?").wait_for()
    assert page.url.endswith(addresses[0])
    assert missed_by_the_keyboard(page) == []
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("It runs now if it is a task").wait_for()
    assert page.url.endswith(addresses[1])
    page.goto(live_server.url + QUEUE)
    assert second.slug in rows.inner_text()
    page.get_by_role("link", name="approved, not run yet").click()
    rows.filter(has_text=first.slug).wait_for()
    assert rows.count() == 1
    PendingCall.objects.update(decided_at=timezone.now() - timedelta(minutes=11))
    rows.get_by_role("link").click()
    page.get_by_text(
        "The decision has expired. If the call is repeated, it becomes pending again"
    ).wait_for()
    assert editor.waits(first) != addresses[0]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_are_legible_and_accessible(
    visit: Visit, live_server: Any, width: int, scheme: Any
) -> None:
    two_weeks_of_calls()
    editor, reason = Editor(live_server), "It is to be printed on Sunday. " * 20
    admin = get_user_model().objects.get(username="admin")
    editor.waits(draft())
    pages = {"record": RECORDS, "queue-list": f"{QUEUE}?status=all"}
    pages["queue-several"] = f"{QUEUE}decide/"
    for status, article in zip(
        ("waiting", "approved", "refused"), Article.objects.all(), strict=False
    ):
        pages[f"queue-{status}"] = address = editor.waits(article)
        if status != "waiting":
            pending = PendingCall.objects.get(pk=address.split("/")[-3])
            pending.decide(using="default", status=status, reason=reason, decided_by=admin)
    pages["record-one"] = f"{RECORDS}{ToolCallRecord.objects.latest('pk').pk}/change/"
    for name, address in pages.items():
        check(visit(address, width=width, scheme=scheme), name)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1440, 390])
def test_names_reasons_and_values_are_legible(
    visit: Visit, live_server: Any, width: int, scheme: Any
) -> None:
    """A refused call, an internal error, a held call with nested values, and an approval."""
    editor, reader = (
        Editor(live_server),
        CheckedClient(user=get_user_model().objects.get(username="reader")),
    )
    address = editor.waits(draft())
    body = "A first paragraph of the text.\nA second one, which is longer. " * 5
    values = {"slug": "island-ferry", "body": body, "number": "7", "tags": {"a": [1, {"b": "c"}]}}
    PendingCall.objects.update(arguments=json.dumps(values))
    with pytest.raises(MCPError):
        reader.call_tool("articles_delete", {"slug": "island-ferry"})
    pages = {"call-of-nested": address, "front-of-names": "/admin/mcp_bridge/"}
    pages["record-of-refusal"] = f"{RECORDS}{ToolCallRecord.objects.latest('pk').pk}/change/"
    text = "The tool wire_import failed: the site's log says why under the reference 12ab."
    text += "\ndjango.db.utils.IntegrityError: UNIQUE constraint failed: newsroom_article.slug"
    failed = ToolCallRecord.objects.create(
        tool="wire_import", outcome="failed", error_code="internal_error", error_text=text
    )
    pages["record-of-exception"] = f"{RECORDS}{failed.pk}/change/"
    for name, address in pages.items():
        check(visit(address, width=width, scheme=scheme), name)
    ToolSetting.objects.filter(name="articles_delete").update(approved="{}", fingerprint="older")
    PendingCall.objects.update(fingerprint="older")
    page = visit(tool("articles_delete"), width=width, scheme=scheme)
    page.get_by_text("1 pending call ends with the approval").wait_for()
    check(page, "approval-ends")


def test_calls_of_the_day_are_a_chart(visit: Visit, live_server: Any) -> None:
    editor = Editor(live_server)
    for _ in range(4):
        editor.call_tool("articles_headlines")
    assert editor.call_tool("articles_publish", {"slug": draft().slug})["isError"]
    for _ in range(2):
        with pytest.raises(MCPError):
            editor.call_tool("articles_burn")
    page = visit(RECORDS)
    values = {
        kind: page.locator(f".mcp-chart .mcp-bar-{kind}").get_attribute("value")
        for kind in ("calls", "failures", "refusals")
    }
    assert values == {"calls": "5", "failures": "1", "refusals": "2"}
    row = page.locator(".mcp-chart tbody tr").last
    assert row.inner_text().split()[-4:] == list("5102")
    page.locator("#mcp-tools-used").click()
    page.get_by_role("link", name="articles_publish").last.wait_for()
    assert missed_by_the_keyboard(page) == []


def test_rate_is_set_on_the_tools_page(visit: Visit, live_server: Any) -> None:
    cache.clear()
    editor = Editor(live_server)
    page = visit(tool("articles_search"))
    page.get_by_label("Rate").fill("two a day")
    page.get_by_role("button", name="Save and continue editing").click()
    page.get_by_text("Enter a number, a slash and s, min, hour or day, such as 20/min.").wait_for()
    page.get_by_label("Rate").fill("2/day")
    page.get_by_role("button", name="Save and continue editing").click()
    page.get_by_text("“articles_search” is enabled").wait_for()
    check(page, "admin-rate")
    assert ToolSetting.objects.get(name="articles_search").rate == "2/day"
    results = [editor.call_tool("articles_search", {"query": "harbour"}) for _ in range(3)]
    assert [each["isError"] for each in results] == [False, False, True]
    assert "articles_search may be called 2 times a day. Retry after" in text_of(results[2])
    page.goto(live_server.url + RECORDS)
    assert "may be called 2 times a day" in page.locator("#result_list tbody tr").first.inner_text()

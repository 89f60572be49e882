"""The call log: its rows, filters, chart and links, and forged URLs."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import clear_url_caches, path, reverse
from django.utils import timezone, translation

from mcp_bridge import ToolError
from mcp_bridge.admin import call_records
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.models.keys import uuid7
from mcp_bridge.testing import MCPClient
from mcp_bridge.tokens.models import Token
from tests.support.administrator import Administrator, row, serve_tools

pytestmark = pytest.mark.django_db
RECORDS = "admin:mcp_bridge_toolcallrecord_"
NOVEMBER = {"since": "2026-11-01", "until": "2026-11-30"}
HOSTILE = "<script>alert(1)</script>\u202e\x07"


def archive(slug: str) -> str:
    """Archive an article."""
    raise ToolError(f"There is no article “{slug}”.")


def wipe() -> str:
    """Wipe everything."""
    return "wiped"


def listed(administrator: Administrator, **query: Any) -> Any:
    response = administrator.browser.get(reverse(f"{RECORDS}changelist"), query)
    assert response.status_code == 200
    return response


def rows_of(response: Any) -> list[str]:
    """Return each row of the list as plain text."""
    table = response.content.decode().split('id="result_list"')[1].split("</table>")[0]
    body = table.split("<tbody>")[1]
    return [" ".join(re.sub(r"<[^>]+>", " ", each).split()) for each in body.split("</tr>")[:-1]]


def make(**values: Any) -> ToolCallRecord:
    return ToolCallRecord.objects.create(**{"tool": "archive", "outcome": "succeeded", **values})


@pytest.fixture
def administrator(settings: Any) -> Administrator:
    ToolSetting.objects.all().delete()
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    serve_tools(settings, archive)
    administrator = Administrator()
    administrator.get("changelist")
    return administrator


def test_row_shows_tool_arguments_and_error(
    administrator: Administrator,
) -> None:
    caller = MCPClient(user=administrator.user)
    caller.call_tool("archive", {"slug": "mars"})
    (line,) = rows_of(listed(administrator))
    record = ToolCallRecord.objects.get()
    assert f"{timezone.localtime(record.started_at):%H:%M:%S}" in line
    for part in ("archive administrator mcp_bridge.testing 1", "✗ failed", "There is no article"):
        assert part in line
    assert "{&quot;slug&quot;: &quot;mars&quot;}" in line
    assert line.endswith(" ms")


def test_setting_that_drops_arguments_is_named(settings: Any, administrator: Administrator) -> None:
    settings.MCP_BRIDGE = {}
    MCPClient(user=administrator.user).call_tool("archive", {"slug": "mars"})
    page = listed(administrator)
    (line,) = rows_of(page)
    assert " not kept " in line
    text = page.content.decode()
    assert '(setting MCP_BRIDGE["AUDIT"]["ARGUMENTS"])' in text
    change = reverse(f"{RECORDS}change", args=[ToolCallRecord.objects.get().pk])
    assert "not kept (setting MCP_BRIDGE" in administrator.browser.get(change).content.decode()
    # Arguments that were dropped then are still missing after the setting changes.
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    assert " not kept " in rows_of(listed(administrator))[0]
    text = administrator.browser.get(change).content.decode()
    assert ("not kept" in text, "the setting MCP_BRIDGE" in text) == (True, False)


def test_pending_call_is_not_labelled_refused(settings: Any, administrator: Administrator) -> None:
    serve_tools(settings, wipe, confirm=True)
    ToolSetting.objects.update(enabled=True)
    legacy = MCPClient(user=administrator.user, revision="2025-06-18")
    legacy.http.defaults["HTTP_USER_AGENT"] = "codex/0.5"
    legacy.call_tool("wipe")
    (line,) = rows_of(listed(administrator, outcome="waits"))
    assert "… pending" in line
    assert "refused" not in line
    assert "codex/0.5" in line
    assert listed(administrator, outcome="refused").context["cl"].result_count == 0
    assert listed(administrator).context["usage"].times[-1].counts["waits"] == 1
    PendingCall.objects.update(status="refused")
    assert "⊘ refused by a person" in rows_of(listed(administrator))[0]
    PendingCall.objects.all().delete()
    assert "… was pending" in rows_of(listed(administrator))[0]


@pytest.mark.parametrize(
    "query",
    [
        {"when": "never"},
        {"since": "yesterday"},
        {"since": "2026-02-30"},
        {"until": "9999-12-31"},
        {"until": "0001-01-01"},
        {"since": "2026-01-01T00:00+14:00"},
        {"since": "2026-02-01", "until": "2026-01-01"},
        {"outcome": "' OR 1=1"},
        {"version": "1999"},
        {"era": "modern"},
        {"started_at__year": "99999999"},
        {"tool__regex": "("},
        {"user__password__startswith": "a"},
        {"user__id__exact": "x"},
        {"started_at__gte": "x"},
        {"q": "x" * 10_000},
        {"q": "a " * 5_000},
        {"q": "a " * 13},
    ],
)
def test_forged_filter_has_a_clear_answer(
    query: dict[str, str], administrator: Administrator
) -> None:
    make()
    page = reverse(f"{RECORDS}changelist")
    for extra in ({}, {"e": "1"}):
        response = administrator.browser.get(page, query | extra, follow=True)
        assert response.status_code == 200
        assert response.context["cl"].result_count == 1
        text = response.content.decode()
        assert re.search(r"Showing (?:all calls|the first page)\.</li>", text)
        assert "Database error" not in text
    for kind in ("csv", "json"):
        refused = administrator.browser.get(reverse(f"{RECORDS}{kind}"), query)
        assert refused.status_code == 400
        assert refused["Content-Type"].startswith("text/plain")


def test_invalid_page_number_shows_the_first_page(administrator: Administrator) -> None:
    for _ in range(60):
        make()
    page = reverse(f"{RECORDS}changelist")
    response = administrator.browser.get(page, {"p": "999"}, follow=True)
    assert "Invalid page. Showing the first page" in response.content.decode()


def test_later_pages_continue_the_order(administrator: Administrator) -> None:
    now = timezone.now()
    for number in range(120):
        # Ten a second: the order among them has to be the same on every page.
        make(user_name=f"user-{number:03}.", started_at=now - timedelta(seconds=number // 10))
    pages = [listed(administrator, p=str(page)) for page in (1, 2, 3)]
    rows = [re.findall(r"user-\d+\.", "".join(rows_of(page))) for page in pages]
    assert [len(each) for each in rows] == [50, 50, 20]
    assert len(set(sum(rows, []))) == 120
    assert (min(rows[0]), max(rows[2])) == ("user-000.", "user-119.")
    found = [listed(administrator, p=page, q="user-", o="2").context["cl"] for page in ("1", "3")]
    names = [[each.user_name for each in cl.result_list] for cl in found]
    assert names[0] == [f"user-{number:03}." for number in range(50)]
    assert names[1] == [f"user-{number:03}." for number in range(100, 120)]


def test_search_looks_in_every_field_separately(administrator: Administrator) -> None:
    fields = call_records.ToolCallRecordAdmin.search_fields
    assert len(fields) == 9
    records = [make(**{field: f"The needle-{field}."}) for field in fields]
    for field, record in zip(fields, records, strict=True):
        page = listed(administrator, q=f"NEEDLE-{field}.")
        assert list(page.context["cl"].result_list) == [record]
    record = make(tool="first", user_name="second")
    assert list(listed(administrator, q="second first").context["cl"].result_list) == [record]
    # A match must not span the end of one field and the beginning of the next.
    assert listed(administrator, q="firstsecond").context["cl"].result_count == 0


def test_search_shows_latest_matches_and_exports_all(
    administrator: Administrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_records, "MOST_FOUND", 29)
    now = timezone.now()
    for number in range(30):
        make(user_name="ada", reference=f"{number}", started_at=now - timedelta(hours=30 - number))
    make(user_name="bob")
    page = listed(administrator, q="ADA")
    assert page.context["cl"].result_count == len(rows_of(page)) == 29
    assert sorted(int(each.reference) for each in page.context["cl"].result_list)[0] == 1
    said = "A search shows the latest 29 matches"
    assert said in page.content.decode()
    sent = administrator.browser.get(reverse(f"{RECORDS}json"), {"q": "ADA"}).streaming_content
    assert len(json.loads(b"".join(sent))) == 30
    narrower = listed(administrator, q="ADA", since="2020-01-01", until=f"{now:%Y-%m-%dT%H:%M}")
    assert narrower.context["cl"].result_count == 29
    monkeypatch.setattr(call_records, "MOST_FOUND", 31)
    page = listed(administrator, q="ADA")
    assert page.context["cl"].result_count == 30
    assert said[:30] not in page.content.decode()


@pytest.mark.parametrize("query", [{"tool": HOSTILE}, {"user_name": HOSTILE}, {"q": HOSTILE}])
def test_unknown_user_name_finds_nothing(
    query: dict[str, str], administrator: Administrator
) -> None:
    make()
    page = listed(administrator, **query)
    assert page.context["cl"].result_count == 0
    assert "<script>alert" not in page.content.decode()


def test_hostile_values_are_escaped(administrator: Administrator) -> None:
    values = dict.fromkeys(["user_name", "client_name", "error_text", "reference"], HOSTILE[:30])
    record = make(
        outcome="failed",
        arguments='{"a": "<script>alert(1)</script>\u202e"}',
        invalid_arguments="/<script>alert(1)</script>\n/b",
        **values,
    )
    change = reverse(f"{RECORDS}change", args=[record.pk])
    for text in (
        listed(administrator).content.decode(),
        administrator.browser.get(change).content.decode(),
    ):
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)" in text
    (line,) = rows_of(listed(administrator))
    assert "\u202e" not in line.split("ms")[0].replace(HOSTILE[:30], "")


def test_bars_link_to_the_calls_they_count(administrator: Administrator) -> None:
    now = timezone.now()
    for days in (0, 0, 3, 5):
        make(outcome="failed", started_at=now - timedelta(days=days), user_name="ada")
    make(tool="other", user_name="ada")
    make(started_at=now - timedelta(days=3), outcome="refused", error_code="throttled", times=7)
    page = listed(administrator, tool="archive", user_name="ada")
    counted = 0
    chart = page.content.decode().split('<table class="mcp-chart')[1].split("</table>")[0]
    for link, number in re.findall(r'<td><a href="([^"]+)">(\d+)</a>', chart):
        found = administrator.browser.get(f"{reverse(f'{RECORDS}changelist')}{unescape(link)}")
        assert found.context["cl"].result_count == int(number), link
        counted += int(number)
    assert counted == 4 * 2
    assert listed(administrator).context["usage"].most == 7


@pytest.mark.parametrize(
    ("query", "times"),
    [
        ({}, 7),
        ({"when": "yesterday"}, 12),
        ({"when": "week"}, 7),
        ({"since": "2026-01-01", "until": "2026-01-01"}, 12),
        ({"since": "2026-01-01", "until": "2026-01-14"}, 14),
        ({"since": "2026-01-01", "until": "2026-01-31"}, 11),
        ({"since": "2026-03-29", "until": "2026-03-29"}, 12),
        ({"since": "2026-10-25", "until": "2026-10-25"}, 12),
        ({"since": "2026-01-01T10:00", "until": "2026-01-01T11:00"}, 12),
        ({"since": "2026-01-01 10:00", "until": "2026-01-01 11:00"}, 12),
        ({"until": "2026-01-31"}, 7),
        ({"since": "1970-01-01", "until": "2026-01-31"}, 14),
    ],
)
def test_usage_has_the_range_of_the_list(
    query: dict[str, str], times: int, administrator: Administrator, settings: Any
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    assert len(listed(administrator, **query).context["usage"].times) == times


@pytest.mark.parametrize("day", [datetime(2026, 3, 29), datetime(2026, 10, 25)])
def test_days_of_clock_changes_are_counted_whole(
    day: datetime, administrator: Administrator, settings: Any
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    begin = timezone.make_aware(day)
    for hour in range(26):
        make(started_at=begin + timedelta(hours=hour))
        make(started_at=(begin.astimezone(UTC) + timedelta(hours=hour)))
    page = listed(administrator, since=f"{day:%Y-%m-%d}", until=f"{day:%Y-%m-%d}")
    counted = sum(each.counts["calls"] for each in page.context["usage"].times)
    assert counted == page.context["cl"].result_count
    assert counted > 40


@pytest.mark.parametrize(
    ("language", "day", "moment"),
    [("en", "03/02/2026", "03/02/2026 1:30 p.m."), ("de", "02.03.2026", "02.03.2026 13:30")],
)
def test_dates_and_times_have_the_sites_formats(
    administrator: Administrator, language: str, day: str, moment: str
) -> None:
    make(started_at=timezone.make_aware(datetime(2026, 3, 2, 13, 45)))
    with translation.override(language):
        days = listed(administrator, since="2026-02-25", until="2026-03-05").content.decode()
        hours = listed(administrator, since="2026-03-02T13:30", until="2026-03-02T15:00")
    assert f">{day}" in days
    assert moment in hours.content.decode()


def test_date_range_is_kept_and_names_the_export(administrator: Administrator) -> None:
    for day in (1, 2, 3):
        make(started_at=timezone.make_aware(datetime(2026, 3, day, 23, 59, 59)))
    page = listed(administrator, since="2026-03-02", until="2026-03-03", tool="archive")
    assert page.context["cl"].result_count == 2
    text = page.content.decode()
    assert 'name="since" value="2026-03-02"' in text
    assert 'name="until" value="2026-03-03"' in text
    # The search and the form of every other filter keep the tool.
    assert text.count('<input type="hidden" name="tool" value="archive">') == 3
    response = administrator.browser.get(
        reverse(f"{RECORDS}csv"), {"since": "2026-03-02", "until": "2026-03-03"}
    )
    assert "calls-2026-03-02-to-2026-03-03.csv" in response["Content-Disposition"]
    sent = b"".join(response.streaming_content)
    assert sent.startswith(b"\xef\xbb\xbf")
    assert len(list(csv.DictReader(io.StringIO(sent.decode("utf-8-sig"))))) == 2


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"outcome": "refused"}, "calls-refused-all-TODAY"),
        ({"outcome": "refused", **NOVEMBER}, "calls-refused-2026-11"),
        (
            {"tool": "articles_get", "q": "Eis & Öl", **NOVEMBER},
            "calls-articles_get-eis-ol-2026-11",
        ),
        ({"error_code__exact": "invalid", **NOVEMBER}, "calls-invalid-2026-11"),
        ({"user_name": "海", "when": "today", "p": "0", "o": "1"}, "calls-filtered-TODAY"),
        (
            {"tool": "", "since": "2026-10-01", "until": "2026-11-30"},
            "calls-2026-10-01-to-2026-11-30",
        ),
        ({"since": "2026-11-01", "until": "2026-11-01"}, "calls-2026-11-01"),
        ({"until": "2026-11-30"}, "calls-first-to-2026-11-30"),
        (
            {"q": 'a"\r\nSet-Cookie: b=/../' + "x" * 99},
            "calls-a-set-cookie-bxxxxxxxx-all-TODAY",
        ),
    ],
)
def test_exports_are_named_by_their_filters(
    query: dict[str, str], name: str, administrator: Administrator
) -> None:
    wanted = name.replace("TODAY", str(timezone.localdate()))
    for kind in ("csv", "json"):
        response = administrator.browser.get(reverse(f"{RECORDS}{kind}"), query)
        assert response["Content-Disposition"] == f'attachment; filename="{wanted}.{kind}"'


def test_failing_tools_are_first_then_slow_ones(administrator: Administrator) -> None:
    for number in range(1, 101):
        make(tool="slow", duration_ms=number * 10)
        make(tool="quick", duration_ms=1)
    make(tool="broken", outcome="failed", duration_ms=2)
    make(tool="lost", outcome="cancelled", duration_ms=None)
    tools = listed(administrator).context["usage"].tools
    assert [each.tool for each in tools] == ["broken", "slow", "quick", "lost"]
    assert (tools[1].average, tools[1].longest) == (505, 1000)
    assert (tools[3].average, tools[3].longest) == (None, None)
    assert (tools[0].failures, tools[0].percent) == (1, 100)
    tools = listed(administrator, tool="quick").context["usage"].tools
    assert [each.tool for each in tools] == ["quick"]


def links(administrator: Administrator, record: ToolCallRecord) -> dict[str, str]:
    response = administrator.browser.get(reverse(f"{RECORDS}change", args=[record.pk]))
    assert response.status_code == 200
    return links_of(response.content.decode())


def links_of(page: str) -> dict[str, str]:
    (found,) = re.findall(r'<ul class="mcp-links">(.*?)</ul>', page, re.S)
    links = re.findall(r'<a href="([^"]+)">([^<]+)</a>', found)
    return {unescape(text): unescape(address) for address, text in links}


def test_record_links_to_its_related_pages(administrator: Administrator) -> None:
    token, _ = Token.objects.issue(user=administrator.user, name="Laptop")
    pending = PendingCall.objects.create(tool="archive", arguments="{}", user=administrator.user)
    record = make(
        user=administrator.user,
        user_name="administrator",
        credential="Laptop",
        pending_call_id=pending.pk,
    )
    found = links(administrator, record)
    assert found["Tool"].endswith(f"/toolsetting/{row('archive').pk}/change/")
    again = f"/toolsetting/{row('archive').pk}/try/?record={record.pk}"
    assert found["Try it again"].endswith(again)
    assert found["The token"].endswith(f"/token/{token.pk}/change/")
    assert found["The pending call"].endswith(f"/pendingcall/{pending.pk}/change/")
    for address in found.values():
        assert administrator.browser.get(address).status_code == 200
    mine = administrator.browser.get(found["This user's calls"])
    assert mine.context["cl"].result_count == 1
    pending.delete()
    token.delete()
    row("archive").delete()
    assert links(administrator, record).keys() == {
        *("The user", "This user's calls", "Calls of archive", "This user's calls of archive")
    }


def test_record_links_to_all_tokens_of_the_name(
    administrator: Administrator,
) -> None:
    name = 'Laptop & "desk", ada'
    same = [Token.objects.issue(user=administrator.user, name=name)[0] for _ in range(2)]
    reader = Administrator("view_toolcallrecord", "add_token", username="reader")
    for user, other in ((administrator.user, "Other"), (reader.user, name)):
        Token.objects.issue(user=user, name=other)
    record = make(user=administrator.user, user_name="administrator", credential=name)
    found = links(administrator, record)
    assert "The token" not in found
    page = administrator.browser.get(found["The user's tokens with this name"])
    assert set(page.context["cl"].queryset) == set(same)
    # The search says why these tokens are shown.
    assert page.context["cl"].query == name
    # A user who sees only their own tokens does not learn of those of others.
    assert not [text for text in links(reader, record) if "token" in text]


def test_call_is_tried_again_with_the_same_arguments(
    settings: Any, administrator: Administrator
) -> None:
    def order(
        dish: str,
        count: int,
        spicy: bool,
        toppings: list[str],
        door: dict[str, int],
        note: str = "",
    ) -> None:
        """Order something."""

    serve_tools(settings, order)
    administrator.get("changelist")
    sent = {
        "dish": 'Soup "of" <b>',
        "count": 3,
        "spicy": True,
        "toppings": ["a", "b"],
        "door": {"a": 1},
        "note": "Bearer hunter2-hunter2-hunter2",
    }
    MCPClient(user=administrator.user).call_tool("order", sent)
    record = ToolCallRecord.objects.get()
    address = links(administrator, record)["Try it again"]
    page = administrator.browser.get(address)
    assert "the arguments of the earlier call" in page.content.decode()
    assert ToolCallRecord.objects.count() == 1
    fields = page.context["form"]
    shown = {each.html_name: each.value() for each in fields if each.value() is not None}
    assert administrator.browser.post(address, shown).status_code == 200
    # A redacted argument is not sent as if the placeholder were its value.
    del sent["note"]
    assert json.loads(ToolCallRecord.objects.latest("pk").arguments) == sent
    for forged in ("x", "9" * 40, "-1", str(uuid7())):
        page = administrator.get("try", row("order").pk, record=forged)
        assert "the arguments of the earlier call" not in page
    # Nor are they shown to a user who may not view records.
    other = Administrator("view_toolsetting", "change_toolsetting", username="other")
    assert "Soup" not in other.get("try", row("order").pk, record=record.pk)


def test_viewer_has_no_links_to_forbidden_pages(administrator: Administrator) -> None:
    Token.objects.issue(user=administrator.user, name="Laptop")
    pending = PendingCall.objects.create(tool="archive", arguments="{}", user=administrator.user)
    record = make(user=administrator.user, credential="Laptop", pending_call_id=pending.pk)
    viewer = Administrator("view_toolcallrecord", username="viewer")
    assert links(viewer, record) == {
        "Calls of archive": f"{reverse(f'{RECORDS}changelist')}?tool=archive"
    }


def test_disabled_log_is_stated(settings: Any, administrator: Administrator) -> None:
    make()
    settings.MCP_BRIDGE = {"AUDIT": None}
    text = listed(administrator).content.decode()
    assert 'Calls are not recorded: MCP_BRIDGE["AUDIT"] is None.' in text
    page = administrator.get("change", row("archive").pk)
    assert "Calls are not recorded" in page


def test_list_takes_few_queries_and_avoids_internal_terms(
    administrator: Administrator,
) -> None:
    for number in range(60):
        user = get_user_model().objects.create_user(f"user{number}")
        make(tool=f"tool{number}", user=user, user_name=user.username, outcome="failed")
    with CaptureQueriesContext(connection) as queries:
        page = listed(administrator, when="today", q="user")
    assert len(queries) <= 12
    text = page.content.decode()
    assert text.count("/toolcallrecord/") < 250
    words = re.sub(r"<[^>]+>", " ", text.split('id="content"')[1]).lower()
    for word in ("era", "revision", "credential", "idempotent"):
        assert not re.search(rf"\b{word}s?\b", words)


@pytest.mark.parametrize("uses", [True, False])
def test_list_works_without_time_zones(
    uses: bool, settings: Any, administrator: Administrator
) -> None:
    settings.USE_TZ = uses
    make(started_at=timezone.now())
    for when in ("hour", "today", "week"):
        assert listed(administrator, when=when).context["cl"].result_count == 1
    assert listed(administrator).context["usage"].times[-1].counts["calls"] == 1


def test_pages_of_another_site_link_within_it(settings: Any, administrator: Administrator) -> None:
    from mcp_bridge.admin import ToolCallRecordAdmin

    site = admin.AdminSite(name="staff")
    site.register(ToolCallRecord, ToolCallRecordAdmin)
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("own/", site.urls))
    clear_url_caches()
    record = make(user=administrator.user, user_name="administrator")
    page = reverse("staff:mcp_bridge_toolcallrecord_change", args=[record.pk])
    found = links_of(administrator.browser.get(page).content.decode()).items()
    assert found
    assert all(address.startswith("/own/") for _, address in found)

"""The call records in the admin: read-only, filtered, charted and exported."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from oauth2_provider.models import get_application_model

from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.testing import MCPClient
from tests.records.test_redaction import MARKER as SECRET
from tests.records.test_redaction import SENT, with_secrets
from tests.support.administrator import VIEW, Administrator, row, serve_tools

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"
FORMULA = '=HYPERLINK("http://x","y")'


def alpha(word: str) -> str:
    """Say a word."""
    if word == "fail":
        raise RuntimeError(word)
    return word


def take(value: Any) -> str:
    """Take anything, and fail."""
    raise RuntimeError("whatever it was")


def keep(password: Any) -> str:
    """Keep anything, and fail."""
    raise RuntimeError("whatever it was")


def at(page: str, *args: Any) -> str:
    return reverse(f"admin:mcp_bridge_toolcallrecord_{page}", args=args)


def read(response: Any) -> str:
    return b"".join(response.streaming_content).decode("utf-8-sig")


@pytest.fixture
def administrator(settings: Any) -> Administrator:
    ToolSetting.objects.all().delete()
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}}
    serve_tools(settings, alpha)
    administrator = Administrator()
    administrator.get("changelist")
    modern = MCPClient(user=administrator.user)
    for word in (MARKER, FORMULA, "fail"):
        modern.call_tool("alpha", {"word": word})
    legacy = MCPClient(user=administrator.user, revision="2025-06-18")
    legacy.call_tool("alpha", {"word": 1})
    ToolCallRecord.objects.filter(outcome="failed").update(user_name=FORMULA, client_name=MARKER)
    return administrator


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({}, 4),
        ({"outcome__exact": "failed"}, 1),
        ({"error_code__exact": "invalid"}, 1),
        ({"outcome": "failed"}, 1),
        ({"outcome": "refused"}, 1),
        ({"outcome": "ran"}, 3),
        ({"outcome": "waits"}, 0),
        ({"user_name": "administrator"}, 3),
        ({"user_name": "admin"}, 0),
        ({"when": "hour"}, 4),
        ({"when": "today"}, 4),
        ({"when": "yesterday"}, 0),
        ({"when": "week", "tool": "alpha"}, 4),
        ({"since": "1999-01-01", "until": "1999-12-31"}, 0),
        ({"since": "1999-01-01", "until": ""}, 4),
        ({"since": "", "until": "1999-12-31T10:00"}, 0),
        ({"version": "2025-06-18"}, 1),
        ({"tool": "alpha"}, 4),
        ({"tool": "beta"}, 0),
        ({"q": "HYPERLINK"}, 2),
        ({"q": "reference"}, 1),
        ({"q": "/word"}, 1),
    ],
)
def test_list_and_exports_have_the_same_filters(
    query: dict[str, str], count: int, administrator: Administrator
) -> None:
    page = administrator.browser.get(at("changelist"), query)
    assert page.status_code == 200
    assert page.context["cl"].result_count == count
    assert MARKER not in page.content.decode()
    text = read(administrator.browser.get(at("csv"), query))
    assert len(list(csv.DictReader(io.StringIO(text)))) == count
    assert len(json.loads(read(administrator.browser.get(at("json"), query)))) == count


def test_exports_are_complete_and_escape_formulas(administrator: Administrator) -> None:
    response = administrator.browser.get(at("csv"))
    today = timezone.localdate()
    assert response["Content-Disposition"] == f'attachment; filename="calls-all-{today}.csv"'
    rows = list(csv.reader(io.StringIO(read(response))))
    assert [len(each) for each in rows] == [24] * 5
    cells = [cell for each in rows for cell in each]
    assert f"'{FORMULA}" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    records = json.loads(read(administrator.browser.get(at("json"))))
    assert [each["arguments"]["word"] for each in records] == [1, "fail", FORMULA, MARKER]
    assert records[1]["user_name"] == FORMULA


def test_formula_after_a_cell_separator_is_escaped(administrator: Administrator) -> None:
    # Separators after which some spreadsheet begins a cell, and characters that begin a formula.
    dividers = ["", ";", "\t", ",", "|", "\n", "\r\n", "; ", ';"', '\t""', " "]
    signs = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
    texts = [f"said{each}{sign}1+1" for each in dividers[1:-1] for sign in signs]
    texts += [f"{each}{sign}1+1" for each in dividers for sign in signs]
    ToolCallRecord.objects.all().delete()
    ToolCallRecord.objects.bulk_create(
        ToolCallRecord(user_name=text, credential="a;b, c|d\te-f", client_name="\ta")
        for text in texts
    )
    rows = read(administrator.browser.get(at("csv")))
    found = list(csv.DictReader(io.StringIO(rows)))
    assert sorted(each["user_name"].replace("'", "") for each in found) == sorted(texts)
    assert {each["signed_in_with"] for each in found} == {"a;b, c|d\te-f"}
    assert {each["client_name"] for each in found} == {"'\ta"}
    for lines in (rows, *(each["user_name"] for each in found)):
        for cell in re.split(r"[;,|\t\r\n]", lines):
            assert not cell.strip('" ').startswith(signs)


def test_nul_in_a_url_is_refused_on_every_page(administrator: Administrator) -> None:
    pending = PendingCall.objects.create(tool="alpha", arguments="{}", user=administrator.user)
    ours = [each for each in admin.site._registry if "mcp_bridge" in each.__module__]
    models = [*ours, get_application_model()]
    assert len(models) >= 6
    addresses = [
        at("csv"),
        at("json"),
        reverse("admin:mcp_bridge_pendingcall_change", args=[pending.pk]),
    ]
    for model in models:
        model_admin = admin.site._registry[model]
        names = {str(each.name): str(each.pattern) for each in model_admin.get_urls()}
        addresses += [
            reverse(f"admin:{name}", args=["1"] if "<" in route else [])
            for name, route in names.items()
            if name.endswith(("_changelist", "_change", *getattr(model_admin, "pages", {})))
        ]
    administrator.browser.raise_request_exception = False
    names = ["q", "p", "o", "tool", "outcome__exact", "error_code", "user__id__exact", "_to_field"]
    names += ["started_at__gte", "client_type__exact", "status", "revision", "user", "x%00"]
    for page in addresses:
        for name in names:
            assert administrator.browser.get(f"{page}?{name}=a%00b").status_code == 400, (
                page,
                name,
            )
        kept = administrator.browser.get(f"{page.replace('/1/', '/%00/')}")
        assert kept.status_code < 500


def test_record_is_shown_read_only(administrator: Administrator) -> None:
    record = ToolCallRecord.objects.earliest("pk")
    page = administrator.browser.get(at("change", record.pk)).content.decode()
    assert MARKER not in page
    assert "&lt;script&gt;" in page
    assert 'name="_save"' not in page
    assert administrator.browser.get(at("add")).status_code == 403
    assert administrator.browser.post(at("change", record.pk), {"tool": "x"}).status_code == 403
    assert administrator.browser.post(at("delete", record.pk), {"post": "yes"}).status_code == 403
    assert administrator.browser.post(at("csv")).status_code == 405
    assert administrator.browser.get(at("csv"), {"no_such": "1"}).status_code == 400
    assert ToolCallRecord.objects.count() == 4


@pytest.mark.parametrize(("codenames", "status"), [((VIEW,), 403), (("view_toolcallrecord",), 200)])
def test_records_require_the_view_permission(
    codenames: tuple[str, ...], status: int, administrator: Administrator
) -> None:
    other = Administrator(*codenames, username="other")
    record = ToolCallRecord.objects.earliest("pk")
    for page in (at("changelist"), at("change", record.pk), at("csv"), at("json")):
        assert other.browser.get(page).status_code == status
    if status == 403:
        assert "Latest calls" not in other.get("change", row("alpha").pk)


def test_row_of_many_refusals_shows_their_count(administrator: Administrator) -> None:
    ToolCallRecord.objects.create(tool="guessed", outcome="refused", times=1234)
    page = administrator.browser.get(at("changelist"))
    assert "refused × 1234</span>" in page.content.decode()
    assert page.context["usage"].times[-1].counts["refusals"] == 1235
    (newest, *_) = csv.DictReader(io.StringIO(read(administrator.browser.get(at("csv")))))
    assert newest["times"] == "1234"
    assert json.loads(read(administrator.browser.get(at("json"))))[0]["times"] == 1234


def test_usage_counts_calls_failures_and_refusals(administrator: Administrator) -> None:
    for days in (5, 6, 20):
        moment = timezone.now() - timedelta(days=days)
        ToolCallRecord.objects.create(tool="old", outcome="unknown", started_at=moment)
    page = administrator.browser.get(at("changelist"))
    usage = page.context["usage"]
    assert len(usage.times) == 7
    today = usage.times[-1]
    assert today.counts == {"calls": 3, "failures": 1, "waits": 0, "refusals": 1}
    assert sum(each.counts["calls"] for each in usage.times) == 5
    assert [(each.tool, each.calls, each.failures) for each in usage.tools] == [
        ("old", 2, 2),
        ("alpha", 3, 1),
    ]


def test_tool_pages_show_latest_calls(administrator: Administrator) -> None:
    old = timezone.now() - timedelta(days=8)
    ToolCallRecord.objects.create(tool="alpha", outcome="failed", started_at=old)
    with CaptureQueriesContext(connection) as queries:
        page = administrator.get("changelist")
    assert '3 calls, <span class="mcp-warning">1 failed</span>' in page
    assert len([each for each in queries if '"mcp_bridge_toolcallrecord"' in each["sql"]]) == 1
    page = administrator.get("change", row("alpha").pk)
    assert "Latest calls" in page
    assert page.count("/toolcallrecord/") >= 5


def everywhere(administrator: Administrator, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return everything stored of calls: the database, log, exports and admin pages."""
    text = io.StringIO()
    call_command("dumpdata", stdout=text)
    addresses = [at("csv"), at("json"), at("changelist"), reverse("admin:index")]
    addresses += [reverse("admin:mcp_bridge_pendingcall_changelist") + "?status=all"]
    addresses += [at("change", each.pk) for each in ToolCallRecord.objects.all()[:6]]
    for pending in PendingCall.objects.all():
        addresses += [
            reverse(f"admin:mcp_bridge_pendingcall_{page}", args=[pending.pk]) for page in PAGES
        ]
    pages = []
    for address in addresses:
        response = administrator.browser.get(address)
        assert response.status_code == 200, address
        pages.append(read(response) if response.streaming else response.content.decode())
    return [text.getvalue(), caplog.text, *pages]


PAGES = ("change", "history")
# "make fuzz" tries more.
EXAMPLES = min(max(3, int(os.environ.get("FUZZ_EXAMPLES", "0")) // 50), 50)
few = examples(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@few
@given(st.lists(with_secrets(SENT), min_size=8, max_size=8))
def test_secret_argument_is_not_stored_or_shown(
    settings: Any, caplog: pytest.LogCaptureFixture, values: list[Any]
) -> None:
    caplog.set_level("DEBUG")
    caplog.clear()
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    serve_tools(settings, take)
    ToolCallRecord.objects.all().delete()
    administrator = Administrator(username=f"administrator-{timezone.now().timestamp()}")
    client = MCPClient(user=administrator.user)
    for number, value in enumerate(values):
        # One call is accepted, one is refused for its arguments, and one for its unknown tool.
        unknown = (f"no{number}", value)
        for name, arguments in [("take", {"value": value}), ("take", {"x": value}), unknown]:
            message = client.message("tools/call", name=name, arguments=arguments)
            client.send(json.dumps(message).encode(), client.mirrored(message))
    assert ToolCallRecord.objects.count() == 3 * len(values)
    pages = everywhere(administrator, caplog)
    assert [page for page in pages if SECRET in page] == []
    assert any("redacted" in page for page in pages)


@few
@given(st.lists(with_secrets(SENT), min_size=3, max_size=3))
def test_secret_is_not_in_confirmations_or_pending_calls(
    settings: Any, caplog: pytest.LogCaptureFixture, values: list[Any]
) -> None:
    caplog.set_level("DEBUG")
    caplog.clear()
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    serve_tools(settings, keep, confirm=True)
    for model in (ToolCallRecord, PendingCall, LogEntry):
        model.objects.all().delete()
    administrator = Administrator(username=f"administrator-{timezone.now().timestamp()}")
    asked = MCPClient(user=administrator.user, capabilities={"elicitation": {}})
    waiting = MCPClient(user=administrator.user, revision="2025-11-25")
    for number, value in enumerate(values):
        arguments = {"password": [number, value]}
        assert asked.call_tool("keep", arguments)["resultType"] == "input_required"
        assert SECRET not in asked.response.content.decode()
        assert (
            "requires a person's approval"
            in waiting.call_tool("keep", arguments)["content"][0]["text"]
        )
        pending = PendingCall.objects.latest("pk")
        decision = {"_refuse": "1", "reason": "No."} if number else {"_approve": "1"}
        administrator.browser.post(
            reverse("admin:mcp_bridge_pendingcall_change", args=[pending.pk]), decision
        )
        assert waiting.call_tool("keep", arguments)["isError"]
    assert (PendingCall.objects.count(), LogEntry.objects.count()) == (len(values), len(values))
    assert ToolCallRecord.objects.filter(outcome="failed").count() == 1
    assert [page for page in everywhere(administrator, caplog) if SECRET in page] == []

"""The front page of the admin, and the pending counts on all pages."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection
from django.http import HttpRequest
from django.test import override_settings
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import escape

from mcp_bridge.admin import PendingCallAdmin, ToolCallRecordAdmin, ToolSettingAdmin
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.oauth.models import ClientUse
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.tokens.models import Token
from tests.support.administrator import CHANGE, VIEW, Administrator, row, serve_tools

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"
SEE, DECIDE, RECORDS = "view_pendingcall", "change_pendingcall", "view_toolcallrecord"


def shout(word: str) -> str:
    """Shout a word, as loudly as can be."""
    return word


def look(word: str) -> str:
    """Look at a word."""
    return word


@pytest.fixture
def caller(settings: Any) -> CheckedClient:
    serve_tools(settings, shout, confirm=True)
    return CheckedClient(user=get_user_model().objects.create_user(f"ada{MARKER}"))


def front(administrator: Administrator, expected: int = 200, address: str = "") -> str:
    """Return the front page; check that hostile values are escaped."""
    address = address or reverse("admin:app_list", args=["mcp_bridge"])
    response = administrator.browser.get(address)
    assert response.status_code == expected, response.status_code
    text = response.content.decode()
    assert MARKER not in text
    return text


def index(administrator: Administrator) -> str:
    return str(administrator.browser.get(reverse("admin:index")).content.decode())


def record(
    tool: str, outcome: str = "succeeded", ago: timedelta | None = None, **values: Any
) -> Any:
    at = timezone.now() - (ago or timedelta())
    return ToolCallRecord.objects.create(tool=tool, outcome=outcome, started_at=at, **values)


def section(text: str, name: str) -> str:
    """Return a section of the page without its tags."""
    found = re.search(
        rf'<section[^>]*>(?:(?!</?section).)*?"mcp-{name}">(.*?)</section>', text, re.S
    )
    return " ".join(re.sub(r"<[^>]*>", " ", found[1]).split()) if found else ""


def test_admin_index_links_to_the_front_page(caller: CheckedClient) -> None:
    address = reverse("admin:app_list", args=["mcp_bridge"])
    assert re.search(rf'<a href="{address}"[^>]*>MCP</a>', index(Administrator()))


def test_pending_calls_are_decided_on_the_front_page(caller: CheckedClient) -> None:
    administrator = Administrator()
    assert "No calls are pending approval" in front(administrator)
    assert caller.call_tool("shout", {"word": MARKER})["isError"]
    pending = PendingCall.objects.get()
    text = front(administrator)
    assert section(text, "held").startswith("1 call is pending approval shout")
    for part in ("as loudly as can be", "ada&lt;script&gt;", "&quot;&lt;script", "mcp_bridge.test"):
        assert part in text
    (address,) = set(re.findall(r'<form method="post" action="([^"]*pendingcall[^"]*)"', text))
    assert address == reverse("admin:mcp_bridge_pendingcall_change", args=[pending.pk])
    administrator.browser.post(address, {"_approve": "Approve"})
    pending.refresh_from_db()
    assert (pending.status, pending.decided_by) == ("approved", administrator.user)
    assert "No calls are pending approval" in front(administrator)


def test_front_page_refuses_a_call_with_a_reason(caller: CheckedClient) -> None:
    administrator = Administrator()
    caller.call_tool("shout", {"word": "a"})
    pending = PendingCall.objects.get()
    assert 'name="reason"' in front(administrator)
    address = reverse("admin:mcp_bridge_pendingcall_change", args=[pending.pk])
    administrator.browser.post(address, {"_refuse": "1", "reason": "No."})
    pending.refresh_from_db()
    assert (pending.status, pending.reason) == ("refused", "No.")


def test_truncated_call_cannot_be_approved_on_the_front_page(caller: CheckedClient) -> None:
    caller.call_tool("shout", {"word": "x" * 3_000})
    text = section(page := front(Administrator()), "held")
    assert "xxx" not in text
    assert "Review it on its page" in text
    assert "_approve" not in page


def test_unapprovable_call_can_only_be_refused(caller: CheckedClient) -> None:
    caller.call_tool("shout", {"word": "a"})
    administrator = Administrator()
    administrator.tick(shout=False)
    text = section(page := front(administrator), "held")
    assert text.startswith("No calls are pending approval 1 call can no longer be approved.")
    assert ("_approve" in page, "_refuse" in page) == (False, False)
    address = reverse("admin:mcp_bridge_pendingcall_changelist")
    assert f'<a href="{address}?status=aside">1 call can no longer' in page
    listed = administrator.browser.get(address, {"status": "aside"}).content.decode()
    assert "This call cannot be approved: it is not available now" in listed
    address = reverse("admin:mcp_bridge_pendingcall_change", args=[PendingCall.objects.get().pk])
    assert address in listed
    text = administrator.browser.get(address).content.decode()
    assert ("_approve" in text, "_refuse" in text) == (False, True)


def test_unapprovable_calls_are_not_counted_as_pending(caller: CheckedClient) -> None:
    caller.call_tool("shout", {"word": "a"})
    administrator = Administrator()
    queue = reverse("admin:mcp_bridge_pendingcall_changelist")
    tools = reverse("admin:mcp_bridge_toolsetting_changelist")

    def said() -> list[bool]:
        badge = "call pending" in administrator.browser.get(queue).content.decode()
        in_list = "call is pending approval" in administrator.browser.get(tools).content.decode()
        in_queue = (
            "No calls are pending approval" not in administrator.browser.get(queue).content.decode()
        )
        return [
            badge,
            in_list,
            in_queue,
            "No calls are pending approval" not in front(administrator),
        ]

    assert said() == [True] * 4
    administrator.tick(shout=False)
    assert said() == [False] * 4
    administrator.tick(shout=True)
    assert said() == [True] * 4
    PendingCall.objects.update(fingerprint="another")
    assert said() == [False] * 4


def test_calls_set_aside_do_not_displace_pending_calls(caller: CheckedClient) -> None:
    for number in range(6):
        caller.call_tool("shout", {"word": f"word {number}"})
    oldest = PendingCall.objects.earliest("asked_at", "pk")
    PendingCall.objects.exclude(pk=oldest.pk).update(fingerprint="another")
    text = section(page := front(Administrator()), "held")
    assert text.startswith("1 call is pending approval shout")
    assert [n for n in range(6) if f"word {n}" in text] == [0]
    assert "5 calls can no longer be approved." in text
    assert page.count('name="_approve"') == 1


def test_newest_calls_are_shown_and_all_are_counted(caller: CheckedClient) -> None:
    for number in range(8):
        caller.call_tool("shout", {"word": f"word {number}"})
    text = section(front(Administrator()), "held")
    assert text.startswith("8 calls are pending approval")
    assert [n for n in range(8) if f"word {n}" in text] == [3, 4, 5, 6, 7]


def test_own_calls_are_not_pending_under_four_eyes(caller: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"FOUR_EYES": True}
    administrator = Administrator()
    CheckedClient(user=administrator.user).call_tool("shout", {"word": "a"})
    assert "No calls are pending approval" in front(administrator)
    other = Administrator(SEE, DECIDE, username="other")
    assert "1 call is pending approval" in front(other)


def test_tools_are_counted_and_pending_tools_are_named(caller: CheckedClient) -> None:
    administrator = Administrator()
    text = section(front(administrator), "tools")
    assert "1 enabled 0 disabled 0 pending approval" in text
    ToolSetting.objects.update(fingerprint="another")
    text = section(page := front(administrator), "tools")
    assert "0 enabled 0 disabled 1 pending approval" in text
    assert "shout : changed, pending approval" in text
    assert reverse("admin:mcp_bridge_toolsetting_change", args=[row("shout").pk]) in page


def test_approval_page_is_linked_for_users_who_may_approve(
    caller: CheckedClient,
) -> None:
    address = reverse("admin:mcp_bridge_toolsetting_waiting")
    administrator, viewer = Administrator(VIEW, CHANGE), Administrator(VIEW, username="viewer")
    assert address not in front(administrator)
    ToolSetting.objects.update(fingerprint="another")
    assert f'<a href="{address}">Review them on one page.</a>' in front(administrator)
    assert address not in front(viewer)
    page = administrator.browser.get(address).content.decode()
    (shown,) = re.findall(r'name="tool" value="([^"]+)"', page)
    administrator.browser.post(address, {"tool": unescape(shown)})
    text = section(page := front(administrator), "tools")
    assert ("1 enabled 0 disabled 0 pending approval" in text, address in page) == (True, False)


def test_failing_tools_are_sorted_by_failure_rate(caller: CheckedClient) -> None:
    for tool, failures, successes in (("often", 2, 1), ("seldom", 3, 97), ("never", 0, 2)):
        for outcome, count in (("failed", failures), ("succeeded", successes)):
            for _ in range(count):
                record(tool, outcome, error_code="tool_error" if outcome == "failed" else "")
    record("old", "failed", ago=timedelta(hours=25))
    said = "The shelf <b>9</b> is empty."
    last = record("often", "unknown", error_code="internal_error", error_text=said)
    record("often", "refused", error_code="invalid")
    text = section(page := front(Administrator()), "failing")
    assert re.search(r"often 75 % \(3 of 4\).*seldom 3 % \(3 of 100\)", text)
    assert (escape(said) in text, "reported as an error" in text) == (True, True)
    assert reverse("admin:mcp_bridge_toolcallrecord_change", args=[last.pk]) in page
    assert ("never" in text, "old" in text) == (False, False)


def test_last_day_is_a_table_with_bars(caller: CheckedClient) -> None:
    now = timezone.localtime()
    # Within the same row, which covers two hours.
    then = timedelta(hours=2 + now.hour % 2)
    record("a")
    record("a", "failed", ago=then)
    record("a", "refused", times=4, ago=then)
    record("a", "refused", error_code="unconfirmed", ago=then)
    record("a", ago=timedelta(hours=30))
    page = front(Administrator())
    (chart,) = re.findall(r'<table class="mcp-chart.*?</table>', page, re.S)
    kinds = ("calls", "failures", "waits", "refusals")
    assert [chart.count(f'"mcp-bar-{kind}"') for kind in kinds] == [2, 1, 1, 1]
    assert 'max="4" value="1"' in chart
    rows = re.findall(r'<tr><th scope="row">[^<]+</th>(.*?)</tr>', chart)
    assert 12 <= len(rows) <= 13
    counts = [re.findall(r">(\d+)<", row) for row in rows]
    assert [each for each in counts if any(map(int, each))] == [list("1114"), list("1000")]


def test_numbers_of_the_last_day_link_to_their_calls(caller: CheckedClient) -> None:
    record("a", "refused", error_code="unconfirmed", ago=timedelta(hours=2))
    record("a", "refused", error_code="forbidden", ago=timedelta(hours=2))
    administrator = Administrator()
    (address,) = re.findall(r'<td><a href="([^"]*outcome=waits)">1</a>', front(administrator))
    found = administrator.browser.get(unescape(address)).context["cl"].result_list
    assert [each.error_code for each in found] == ["unconfirmed"]


def test_clients_and_rate_limited_users_are_listed(caller: CheckedClient) -> None:
    record("a", client_name=f"Cursor{MARKER}", client_version="1.2")
    record("a", client_name="")
    record("a", "refused", error_code="throttled", times=40, user_name=f"eva{MARKER}")
    text = front(Administrator())
    assert "Cursor&lt;script&gt;alert(1)&lt;/script&gt; 1.2" in text
    assert "unnamed" in section(text, "clients")
    assert re.search(r"eva&lt;script.* a 40 times", section(text, "throttled"))


def test_site_without_calls_shows_first_steps(caller: CheckedClient, settings: Any) -> None:
    text = front(Administrator())
    assert "No calls yet. Connect a client to begin" in text
    settings.MCP_BRIDGE = {"AUDIT": None}
    assert "Calls are not recorded" in front(Administrator(username="other"))


def test_front_page_shows_how_to_connect_a_client(caller: CheckedClient) -> None:
    text = front(Administrator())
    assert '<pre tabindex="0">http://testserver/mcp</pre>' in text
    assert re.search(r"claude mcp add --transport http \S+ http://testserver/mcp", text)
    assert "Replace TOKEN with your token" in text
    assert f'<a href="{reverse("admin:mcp_bridge_tokens_token_add")}">Issue a token</a>' in text


def test_oauth_site_shows_login_and_not_tokens(caller: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUTHORIZATION_SERVERS": ["https://example.com"]}
    text = front(Administrator(VIEW))
    assert "claude mcp login" in text
    assert ("TOKEN" in text, "Issue a token" in text) == (False, False)


def test_front_page_lists_the_models_of_all_apps(caller: CheckedClient) -> None:
    text = front(Administrator())
    for name in ("Tools", "Calls", "Pending calls", "Scopes", "Tokens"):
        assert re.search(rf"<th scope=\"row\"[^>]*>\s*<a href=\"[^\"]*\">{name}</a>", text), name


def test_app_page_of_the_tokens_is_the_front_page(caller: CheckedClient) -> None:
    address = reverse("admin:app_list", args=["mcp_bridge_tokens"])
    text = front(Administrator("view_token"), address=address)
    assert "claude mcp add" in text
    assert [section(text, each) for each in ("held", "tools", "day")] == ["", "", ""]
    assert "Failures in 24 hours" in front(Administrator(username="other"), address=address)


PARTS = {
    SEE: "held",
    VIEW: "tools",
    RECORDS: "day",
}


@pytest.mark.parametrize("codename", PARTS)
def test_sections_depend_on_the_users_permissions(codename: str, caller: CheckedClient) -> None:
    caller.call_tool("shout", {"word": "a"})
    record("a", "failed", user_name="eva")
    text = front(Administrator(codename))
    assert [each for each in PARTS.values() if section(text, each)] == [PARTS[codename]]
    assert ("_approve" in text, "_refuse" in text) == (False, False)
    assert ("view them but not decide" in text) is (codename == SEE)
    assert "Issue a token" not in text


def test_tool_is_found_from_the_front_page(caller: CheckedClient) -> None:
    administrator = Administrator(VIEW)
    form = re.search(
        r'<form[^>]*action="([^"#]*)#result_list"[^>]*>(.*?)</form>', front(administrator), re.S
    )
    assert form is not None
    name = re.search(r'<input type="search" name="(\w+)"', form[2])
    assert name is not None
    for word, is_found in (("shout", True), ("whisper", False)):
        found = administrator.browser.get(form[1], {name[1]: word}).content.decode()
        assert ('id="result_list"' in found) == is_found
    assert 'type="search"' not in front(Administrator(RECORDS, username="other"))


def test_front_page_is_404_without_permissions(caller: CheckedClient) -> None:
    front(Administrator("view_group"), expected=404)
    front(Administrator("change_group", username="other"), expected=404)


def test_anonymous_user_is_redirected_to_the_login(caller: CheckedClient) -> None:
    administrator = Administrator()
    administrator.browser.logout()
    front(administrator, expected=302)


def test_opening_the_page_changes_nothing(caller: CheckedClient) -> None:
    caller.call_tool("shout", {"word": "a"})
    administrator = Administrator()
    address = reverse("admin:app_list", args=["mcp_bridge"])
    front(administrator, address=f"{address}?_approve=1&_refuse=1&reason=x")
    administrator.browser.post(address, {"_approve": "1", "_refuse": "1", "reason": "x"})
    assert PendingCall.objects.get().status == "waiting"


def test_front_page_takes_few_queries(
    caller: CheckedClient, django_assert_max_num_queries: Any
) -> None:
    administrator = Administrator(SEE, DECIDE, VIEW, CHANGE, RECORDS, "add_token", "view_scope")
    for number in range(8):
        caller.call_tool("shout", {"word": f"word {number}"})
        record(f"tool {number}", "failed", client_name=f"client {number}")
        record(f"tool {number}", "refused", error_code="throttled", user_name=f"user {number}")
    front(administrator)
    with django_assert_max_num_queries(15):
        front(administrator)


def test_page_has_no_inline_scripts_or_styles(caller: CheckedClient) -> None:
    caller.call_tool("shout", {"word": "a"})
    record("a", "failed")
    text = front(Administrator())
    content = text[text.index('<div id="content-main"') :]
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", content)
    assert "<script" not in content.partition("<!-- END Content -->")[0]


@pytest.mark.parametrize(
    "page",
    [
        "mcp_bridge_toolcallrecord_changelist",
        "mcp_bridge_pendingcall_changelist",
        "mcp_bridge_scope_changelist",
        "mcp_bridge_scope_add",
        "mcp_bridge_toolsetting_sees",
        "mcp_bridge_tokens_token_changelist",
        "mcp_bridge_tokens_token_add",
    ],
)
def test_every_page_counts_pending_calls(page: str, caller: CheckedClient) -> None:
    administrator = Administrator()
    caller.call_tool("shout", {"word": "a"})
    text = administrator.browser.get(reverse(f"admin:{page}")).content.decode()
    address = reverse("admin:mcp_bridge_pendingcall_changelist")
    assert f'<a href="{address}">1 call pending</a>' in text
    text = Administrator(
        *(SEE, VIEW, RECORDS, "view_scope", "add_scope", "view_token", "add_token", "view_user"),
        username="viewer",
    ).browser.get(reverse(f"admin:{page}"))
    assert (text.status_code, b" pending</a>" in text.content) == (200, False)


@pytest.mark.parametrize("models", [[], [PendingCall], [ToolCallRecord]])
def test_custom_site_shows_only_its_registered_models(
    models: list[Any], caller: CheckedClient, settings: Any
) -> None:
    own = {PendingCall: PendingCallAdmin, ToolCallRecord: ToolCallRecordAdmin}
    site = admin.AdminSite(name="staff")
    site.register(ToolSetting, ToolSettingAdmin)
    for model in models:
        site.register(model, own[model])
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("prefix/own/", site.urls))
    caller.call_tool("shout", {"word": "a"})
    record("a", "failed")
    text = front(Administrator(), address="/prefix/own/mcp_bridge/")
    assert not re.search(r'"/admin/', text)
    assert bool(section(text, "held")) is (PendingCall in models)
    assert bool(section(text, "day")) is (ToolCallRecord in models)
    assert "Issue a token" not in text
    for page in (
        "",
        "mcp_bridge/toolsetting/",
        f"mcp_bridge/toolsetting/{row('shout').pk}/change/",
    ):
        response = Administrator(username=f"other{page}").browser.get(f"/prefix/own/{page}")
        assert response.status_code == 200
        assert (b" pending</a>" in response.content) is (bool(page) and PendingCall in models)


@pytest.mark.parametrize(
    ("codenames", "names"),
    [
        ([], ["Calls", "Connected applications", "Pending calls", "Tokens", "Tools"]),
        (["view_token", "view_group"], ["Tokens"]),
        (["view_group"], []),
    ],
)
def test_all_models_are_in_one_section(
    codenames: list[str], names: list[str], caller: CheckedClient, settings: Any
) -> None:
    site = admin.AdminSite(name="staff")
    for model in (ToolSetting, PendingCall, ToolCallRecord, Token, ClientUse, Group):
        site.register(model, type(admin.site.get_model_admin(model)))
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("own/", site.urls))
    response = Administrator(*codenames).browser.get("/own/")
    sections = {each["name"]: each["models"] for each in response.context["app_list"]}
    groups = sections.pop("Authentication and Authorization")
    assert [each["name"] for each in groups] == ["Groups"]
    assert [[each["name"] for each in rows] for rows in sections.values()] == [names][: len(names)]
    assert list(sections) == ["MCP"][: len(names)]


class Numbered(admin.AdminSite):
    """An admin site of a project, with its own order and names."""

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        menu = super().get_app_list(request, app_label)[::-1]
        return [{**each, "name": f"{n}. {each['name']}"} for n, each in enumerate(menu)]


def test_section_keeps_the_order_of_the_site(caller: CheckedClient, settings: Any) -> None:
    site = Numbered(name="staff")
    for model in (Token, ToolSetting, Group):
        site.register(model, type(admin.site.get_model_admin(model)))
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("own/", site.urls))
    response = Administrator().browser.get("/own/")
    sections = [(each["name"][3:], len(each["models"])) for each in response.context["app_list"]]
    assert sections == [("MCP", 2), ("Authentication and Authorization", 1)]


def test_menu_replaced_later_is_the_one_that_is_joined(
    caller: CheckedClient, monkeypatch: Any
) -> None:
    administrator, original = Administrator(), admin.AdminSite.get_app_list

    def reversed_menu(self: Any, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        return original(self, request, app_label)[::-1]

    monkeypatch.setattr(admin.AdminSite, "get_app_list", reversed_menu)
    found = administrator.browser.get(reverse("admin:index")).context["app_list"]
    names = [each["name"] for each in found]
    assert names.count("MCP") == 1
    assert names == sorted(names, reverse=True)


@pytest.mark.parametrize(
    "page", ["mcp_bridge_scope_changelist", "mcp_bridge_tokens_token_changelist"]
)
def test_pages_of_all_apps_have_the_same_breadcrumb(page: str, caller: CheckedClient) -> None:
    text = Administrator().browser.get(reverse(f"admin:{page}")).content.decode()
    crumbs = re.search(r'class="breadcrumbs">(.*?)</(?:ol|div)>', text, re.S)
    assert crumbs is not None
    names = re.sub(r"<[^>]*>|&rsaquo;|›", " ", crumbs[1]).split()
    assert names[:2] == ["Home", "MCP"]
    (front_page,) = re.findall(r'href="([^"]*)">MCP<', crumbs[1])
    assert "<h1>MCP</h1>" in front(Administrator(username="other"), address=front_page)


@pytest.mark.django_db(transaction=True)
def test_admin_opens_before_migrate(caller: CheckedClient) -> None:
    administrator = Administrator()
    with connection.schema_editor() as editor:
        editor.alter_db_table(PendingCall, PendingCall._meta.db_table, "elsewhere")
    try:
        assert "Pending calls" in index(administrator)
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(PendingCall, "elsewhere", PendingCall._meta.db_table)


@pytest.mark.parametrize("uses", [True, False])
def test_linked_pages_open_with_and_without_time_zones(
    uses: bool, caller: CheckedClient, settings: Any
) -> None:
    settings.USE_TZ = uses
    for word in "ab":
        caller.call_tool("shout", {"word": word})
    record("shout", "failed", client_name="Cursor")
    record("shout", "refused", error_code="throttled", user_name="eva")
    administrator = Administrator()
    Token.objects.issue(user=administrator.user, name="laptop")
    # One of the two is approved and so has an expiry.
    first = PendingCall.objects.earliest("pk").pk
    address = reverse("admin:mcp_bridge_pendingcall_change", args=[first])
    administrator.browser.post(address, {"_approve": "1"})
    text = front(administrator)
    assert text.count('name="_approve"') == 1
    assert "Cursor" in section(text, "clients")
    assert "shout 1 time" in section(text, "throttled")
    links = {*map(unescape, re.findall(r'href="(/admin/mcp_bridge[^"#]*)', text)), address}
    pages = {link.partition("?")[0] for link in links}
    for name in ("toolcallrecord", "pendingcall", "toolsetting", "scope", "tokens_token"):
        assert reverse(f"admin:mcp_bridge_{name}_changelist") in pages
    for link in links:
        assert administrator.browser.get(link).status_code == 200, link


@pytest.mark.parametrize("language", ["de", "ar"])
def test_front_page_is_translated(language: str, caller: CheckedClient) -> None:
    caller.call_tool("shout", {"word": "a"})
    record("a", "failed")
    with override_settings(LANGUAGE_CODE=language):
        assert "mcp-chart" in front(Administrator())

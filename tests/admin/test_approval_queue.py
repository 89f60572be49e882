"""The approval queue in the admin: calls are decided one after the other, or several at once."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from mcp_bridge.admin.entries import Entry
from mcp_bridge.models import PendingCall, ToolSetting
from mcp_bridge.testing.checked import CheckedClient
from tests.support.administrator import Administrator, serve_tools
from tests.support.serving import set_tool

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"
SEE, DECIDE = "view_pendingcall", "change_pendingcall"


def shout(word: str) -> str:
    """Shout a word."""
    return word


def wipe() -> str:
    """Wipe everything."""
    return "wiped"


@pytest.fixture
def caller(settings: Any) -> CheckedClient:
    ToolSetting.objects.all().delete()
    serve_tools(settings, shout, wipe, confirm=True, title=MARKER)
    return CheckedClient(user=get_user_model().objects.create_user("ada"))


def waiting(caller: CheckedClient, *words: str) -> list[PendingCall]:
    """Create a pending call for each word."""
    for word in words:
        assert caller.call_tool("shout", {"word": word})["isError"]
    return list(PendingCall.objects.order_by("asked_at", "pk"))


def address(page: str, *args: Any) -> str:
    return reverse(f"admin:mcp_bridge_pendingcall_{page}", args=args)


def text_at(administrator: Administrator, path: str, expected: int = 200, **data: Any) -> str:
    """Return the page at a path, after a POST there if there is data."""
    browser = administrator.browser
    response: Any = browser.post(path, data, follow=True) if data else browser.get(path)
    assert response.status_code == expected, response.status_code
    return str(response.content.decode())


def proofs(page: str) -> list[str]:
    return re.findall(r'name="call" value="([^"]+)"', page)


def statuses() -> list[str]:
    return list(PendingCall.objects.order_by("asked_at", "pk").values_list("status", flat=True))


def test_next_pending_call_follows_after_a_decision(caller: CheckedClient) -> None:
    first, second, third = waiting(caller, "a", "b", "c")
    administrator = Administrator(SEE, DECIDE)
    data = {"_approve": "1"}
    response = administrator.browser.post(address("change", second.pk), data)
    assert response.headers["Location"] == address("change", third.pk)
    page = text_at(administrator, response.headers["Location"])
    assert f"“{escape(MARKER)}: b”: The call was approved" in page
    data = {"_refuse": "1", "reason": "No."}
    response = administrator.browser.post(address("change", third.pk), data)
    assert response.headers["Location"] == address("change", first.pk)
    response = administrator.browser.post(address("change", first.pk), {"_approve": "1"})
    assert response.headers["Location"] == address("change", first.pk)
    assert statuses() == ["approved", "approved", "refused"]


def test_call_can_be_skipped(caller: CheckedClient) -> None:
    first, second = waiting(caller, "a", "b")
    administrator = Administrator(SEE, DECIDE)
    for here, there in ((first, second), (second, first)):
        page = text_at(administrator, address("change", here.pk))
        assert f'<a href="{address("change", there.pk)}">Next pending call' in page
    assert statuses() == ["waiting", "waiting"]


def test_next_call_is_one_the_user_may_decide(caller: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"FOUR_EYES": True}
    administrator = Administrator(SEE, DECIDE)
    (first,) = waiting(caller, "a")
    waiting(CheckedClient(user=administrator.user), "b")
    gone = waiting(caller, "c")[-1]
    PendingCall.objects.filter(pk=gone.pk).update(fingerprint="another")
    response = administrator.browser.post(address("change", first.pk), {"_approve": "1"})
    assert response.headers["Location"] == address("change", first.pk)
    page = text_at(administrator, address("changelist"))
    assert "You cannot approve any of them." in page
    assert "No calls are pending that you can decide on." in text_at(
        administrator, address("decide")
    )


def test_expiry_of_an_approval_is_shown(caller: CheckedClient) -> None:
    (pending,) = waiting(caller, "a")
    administrator = Administrator(SEE, DECIDE)
    page = text_at(administrator, address("change", pending.pk), _approve="1")
    assert re.search(r"when its caller repeats it, by \w.* at the latest", page)
    assert "It must run by" in page
    listed = text_at(administrator, address("changelist") + "?status=approved")
    assert "Must run by" in listed
    past = timezone.now() - timedelta(days=1)
    PendingCall.objects.update(decided_at=past)
    assert "must run by" not in text_at(administrator, address("change", pending.pk))
    for status, is_there in {"approved": False, "aside": True}.items():
        listed = text_at(administrator, address("changelist") + f"?status={status}")
        assert (
            "The approval expired. If the call is repeated, it becomes pending again" in listed
        ) is is_there


def test_unapprovable_calls_are_set_aside_with_the_reason(
    caller: CheckedClient,
) -> None:
    waiting(caller, "a")
    caller.call_tool("wipe")
    PendingCall.objects.create(tool="was_here", arguments="{}", fingerprint="0", key="0")
    administrator = Administrator(SEE, DECIDE)
    assert "1 call can no longer be approved." in text_at(administrator, address("changelist"))
    set_tool("wipe", enabled=False)
    set_tool("shout", description="Louder.")
    page = text_at(administrator, address("changelist"))
    assert "No calls are pending approval." in page
    assert '<a href="?status=aside">3 calls can no longer be approved.</a>' in page
    assert "0 pending calls" in page
    listed = text_at(administrator, address("changelist") + "?status=aside")
    for reason in (
        "not available now (disabled)",
        "not available now (no longer exists)",
        "definition has changed",
    ):
        assert reason in listed
    keys = [str(each.pk) for each in PendingCall.objects.all()]
    page = text_at(administrator, address("decide") + "?call=" + "&call=".join(keys))
    assert proofs(page) == []
    assert page.count("This call cannot be approved") == 3


def test_several_calls_are_decided_on_one_page(caller: CheckedClient) -> None:
    waiting(caller, "a", MARKER, "c")
    administrator = Administrator(SEE, DECIDE)
    page = text_at(administrator, address("decide"))
    assert MARKER not in page
    assert page.count("Called by ada") == page.count("Shout a word.") == 3
    assert "&quot;word&quot;: &quot;&lt;script&gt;" in page
    assert "checked" not in page
    given = proofs(page)
    page = text_at(administrator, address("decide"), call=given[:2], _approve="1")
    assert statuses() == ["approved", "approved", "waiting"]
    names = [f"“{escape(f'{MARKER}: {word}')}”" for word in ("a", MARKER)]
    assert f"{', '.join(names)}: The call was approved" in page
    # The rest follows.
    assert proofs(page) == given[2:]
    assert "Enter a reason for the refusal" in text_at(
        administrator, address("decide"), call=given[2:], _refuse="1"
    )
    assert statuses() == ["approved", "approved", "waiting"]
    text_at(administrator, address("decide"), call=given[2:], _refuse="1", reason="No.")
    assert statuses() == ["approved", "approved", "refused"]
    assert LogEntry.objects.count() == 3
    assert caller.call_tool("shout", {"word": "a"})["isError"] is False


def test_selected_calls_are_shown_before_they_are_decided(caller: CheckedClient) -> None:
    rows = waiting(caller, "a", "b", "c")
    administrator = Administrator(SEE, DECIDE)
    chosen = [rows[0].pk, rows[2].pk]
    data = {"action": "decide_on", "_selected_action": chosen}
    page = text_at(administrator, address("changelist"), **data)
    assert [each.partition("-")[0] for each in proofs(page)] == [str(key) for key in chosen]
    assert statuses() == ["waiting"] * 3
    assert "1 more call is pending." in page


def test_unshown_calls_are_not_decided(caller: CheckedClient) -> None:
    first, second = waiting(caller, "a", "b")
    administrator, other = Administrator(SEE, DECIDE), Administrator(SEE, DECIDE, username="other")
    shown = proofs(text_at(administrator, address("decide")))
    of_other = proofs(text_at(other, address("decide")))
    changed = shown[1].replace(f"{second.pk}-", f"{first.pk}-")
    forged = [str(second.pk), f"{second.pk}-", "999999-x", "x", "9" * 40, of_other[1], changed]
    for each in forged:
        data = {"call": [shown[0], each], "_approve": "1"}
        assert "were not shown to you, or no longer exist" in text_at(
            administrator, address("decide"), **data
        )
    assert "select the calls" in text_at(administrator, address("decide"), _approve="1")
    assert "approve or refuse the call" in text_at(administrator, address("decide"), call=shown)
    # The arguments of the row must still be those that were shown.
    PendingCall.objects.filter(pk=first.pk).update(arguments="{}")
    text_at(administrator, address("decide"), call=shown, _approve="1")
    PendingCall.objects.filter(pk=first.pk).delete()
    text_at(administrator, address("decide"), call=shown, _approve="1")
    assert statuses() == ["waiting"]
    assert not LogEntry.objects.exists()


def test_call_decided_by_another_user_is_not_changed(caller: CheckedClient) -> None:
    first, second = waiting(caller, "a", "b")
    administrator, other = Administrator(SEE, DECIDE), Administrator(SEE, DECIDE, username="other")
    shown = proofs(text_at(administrator, address("decide")))
    text_at(other, address("change", first.pk), _refuse="1", reason="Never.")
    page = text_at(administrator, address("decide"), call=shown, _approve="1")
    assert ": a”: Nothing was changed: other has already decided (refused)." in page
    assert statuses() == ["refused", "approved"]
    page = text_at(administrator, address("change", first.pk), _approve="1")
    assert "other has already decided (refused)" in page
    first.refresh_from_db()
    assert (first.decided_by, first.reason) == (other.user, "Never.")
    assert LogEntry.objects.filter(object_id=first.pk).count() == 1


def test_page_shows_a_limited_number_of_calls(caller: CheckedClient) -> None:
    waiting(caller, *(letter * 40_000 for letter in "abc"))
    administrator = Administrator(SEE, DECIDE)
    page = text_at(administrator, address("decide"))
    assert len(proofs(page)) == 2
    assert "Its arguments are long; review it on its own page" in page
    assert "1 more call is pending." in page


def text_of_page(page: str) -> str:
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", page).split())).replace(" ,", ",")


def test_calls_are_named_by_what_they_do(settings: Any) -> None:
    def delete(slug: str, force: bool = False, why: str = "", number: int = 0) -> None:
        """Delete an article."""

    serve_tools(settings, delete, confirm=True, title="Delete an article")
    grace = CheckedClient(user=get_user_model().objects.create_user("grace"))
    slug, why = "island-ferry\u200b", "It is wrong. " * 9
    grace.call_tool("delete", {"slug": slug, "force": True, "why": why, "number": 7})
    grace.call_tool("delete", {"slug": "x" * 70, "why": "y" * 90})
    PendingCall.objects.update(asked_at=timezone.now() - timedelta(minutes=7, seconds=9))
    named, cut = PendingCall.objects.order_by("pk")
    name = "Delete an article: island-ferry\\u200b, 7"
    administrator = Administrator()
    for path in (address("change", named.pk), reverse("admin:app_list", args=["mcp_bridge"])):
        assert f"{name}, grace, 7 minutes" in text_of_page(text_at(administrator, path))
    page = text_at(administrator, address("change", named.pk))
    assert f"<title>{name}, grace, 7\xa0minutes |" in page
    assert f'<li aria-current="page">{name}, grace, 7\xa0minutes</li>' in page
    assert f"Decide on {name}" in text_at(administrator, address("decide"))
    assert f"{name} delete grace 7 minutes" in text_of_page(
        text_at(administrator, address("changelist"))
    )
    assert f"Next pending call: Delete an article: {'x' * 61}…" in page
    page = text_at(administrator, address("change", named.pk), _approve="1")
    assert f"“{name}”: The call was approved" in page
    assert f"{name}, grace |" in text_at(administrator, address("change", named.pk))
    # The name of a tool that is gone is all that is known.
    set_tool("delete", enabled=False)
    assert "delete: xxx" in text_at(administrator, address("change", cut.pk))


def test_arguments_are_shown_by_name_and_value(settings: Any) -> None:
    def keep(
        body: str,
        year: int,
        number: str,
        is_new: bool,
        odd: str,
        tags: dict[str, Any],
        no: list[int],
    ) -> None:
        """Keep an article."""

    serve_tools(settings, keep, confirm=True)
    sent = {
        "body": "One line <b>\nand another.",
        "year": 2026,
        "number": "2026",
        "is_new": True,
        "odd": "a\u202eb",
        "tags": {"a": ["b", {"c": None}]},
        "no": [],
    }
    CheckedClient(user=get_user_model().objects.create_user("grace")).call_tool("keep", sent)
    (pending,) = PendingCall.objects.all()
    administrator = Administrator()
    paths = [address("change", pending.pk), address("decide")]
    for path in (*paths, reverse("admin:app_list", args=["mcp_bridge"])):
        page = text_at(administrator, path).split('<dl class="mcp-values">')[1].split("</dl>")[0]
        cells = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page, re.S)
        shown = {unescape(name): unescape(value) for name, value in cells}
        assert shown.pop("tags").startswith(
            '<details open><summary>{ "a": [ "b", { "c": null } ] }'
        )
        assert shown == {
            "body": "One line <b>\nand another.",
            "year": "2026",
            "number": '"2026"',
            "is_new": "true",
            "odd": '"a\\u202eb"',
            "no": "[]",
        }


def test_approval_says_how_many_calls_end(caller: CheckedClient, settings: Any) -> None:
    rows = waiting(caller, "a", "b", "c", "d")
    caller.call_tool("wipe")
    rows[0].decide(using="default", status="refused")
    rows[1].decide(using="default", status="approved")
    administrator = Administrator()
    tool = ToolSetting.objects.get(name="shout")
    pages = [("change", [tool.pk]), ("waiting", [])]
    paths = [reverse(f"admin:mcp_bridge_toolsetting_{name}", args=args) for name, args in pages]
    assert not [path for path in paths if "the approval: " in text_at(administrator, path)]
    serve_tools(settings, shout, wipe, confirm=True, title="Shout louder")
    assert "3 pending calls end with the approval: " in text_at(administrator, paths[0])
    page = text_at(administrator, paths[1])
    assert page.index("1 pending call ends with") > page.index("3 pending calls end with")
    viewer = Administrator("view_toolsetting", username="viewer")
    assert "the approval: " not in text_at(viewer, paths[0])
    PendingCall.objects.filter(status="approved").update(
        decided_at=timezone.now() - timedelta(hours=1)
    )
    assert "2 pending calls end with the approval: " in text_at(administrator, paths[0])
    administrator.post("waiting", tool=f"{Entry.of(tool).fingerprint} shout")
    page = text_at(administrator, address("change", rows[2].pk))
    assert "the definition has changed since" in unescape(page)
    assert "the approval: " not in text_at(administrator, paths[0])


def test_missing_permission_to_decide_is_named(caller: CheckedClient) -> None:
    (pending,) = waiting(caller, "a")
    viewer = Administrator(SEE, username="viewer")
    for path in (address("changelist"), address("decide"), address("change", pending.pk)):
        page = text_at(viewer, path)
        assert "requires “Can change pending call”" in page
        assert "_approve" not in page
        assert "decide_on" not in page
    decider = Administrator(SEE, DECIDE, username="decider")
    proof = proofs(text_at(decider, address("decide")))
    for data in ({"call": proof, "_approve": "1"}, {"_approve": "1"}):
        text_at(viewer, address("decide"), expected=403, **data)
    stranger = Administrator("view_toolsetting", username="stranger")
    text_at(stranger, address("decide"), expected=403)
    text_at(stranger, address("decide"), expected=403, call=proof, _approve="1")
    decider.browser.handler.enforce_csrf_checks = True
    text_at(decider, address("decide"), expected=403, call=proof, _approve="1")
    decider.browser.get(address("decide"), {"call": proof, "_approve": "1"})
    assert statuses() == ["waiting"]


def test_approve_and_refuse_differ_without_colours(caller: CheckedClient) -> None:
    (pending,) = waiting(caller, "a")
    page = text_at(Administrator(SEE, DECIDE), address("change", pending.pk))
    approve, refuse = re.findall(r"<button.*?</button>", page[page.index("mcp-decide") :])
    assert ("✓" in approve, "Approve" in approve) == (True, True)
    assert ("✕" in refuse, "Refuse" in refuse) == (True, True)
    assert page.index("mcp-yes") < page.index("mcp-no") < page.index("id_reason")


def test_many_pending_calls_of_many_tools_take_few_queries(settings: Any) -> None:
    ToolSetting.objects.all().delete()
    functions = []
    for number in range(300):

        def tool() -> str:
            """Act."""
            raise AssertionError

        tool.__name__ = f"tool_{number:03}"
        functions.append(tool)
    serve_tools(settings, *functions, confirm=True)
    callers = [get_user_model().objects.create_user(f"user{number}") for number in range(4)]
    for number in range(300):
        CheckedClient(user=callers[number // 90]).call_tool(f"tool_{number:03}")
    administrator = Administrator(SEE, DECIDE)
    key = PendingCall.objects.earliest("pk").pk
    for path in (
        address("changelist"),
        address("changelist") + "?status=aside",
        address("decide"),
        address("change", key),
        reverse("admin:app_list", args=["mcp_bridge"]),
        reverse("admin:index"),
    ):
        with CaptureQueriesContext(connection) as queries:
            text_at(administrator, path)
        assert len(queries) <= 15, [each["sql"] for each in queries]

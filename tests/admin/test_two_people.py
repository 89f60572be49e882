"""Two people at one form: what one has decided, the other does not undo without having seen it."""

from __future__ import annotations

import html
import re
import threading
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from mcp_bridge.models import ToolSetting
from mcp_bridge.tokens.models import Token
from tests.support.administrator import Administrator, row, serve_tools, shown_by

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"


def alpha() -> str:
    """Say alpha."""
    raise AssertionError


def beta() -> str:
    """Say beta."""
    raise AssertionError


@pytest.fixture
def ada(settings: Any) -> Administrator:
    ToolSetting.objects.all().delete()
    serve_tools(settings, alpha, beta)
    ada = Administrator(username="ada")
    ada.get("changelist")
    return ada


@pytest.fixture
def bob(ada: Administrator) -> Administrator:
    return Administrator(username="bob")


def errors(page: str) -> list[str]:
    found = re.findall(r'<ul class="errorlist nonfield"[^>]*>(.*?)</ul>', page, re.DOTALL)
    return [html.unescape(each) for each in re.findall(r"<li>(.*?)</li>", "".join(found))]


def box(page: str, name: str) -> str:
    (found,) = re.findall(rf'<input [^>]*name="{name}"[^>]*>', page)
    return str(found)


def text_in(page: str, name: str) -> str:
    (found,) = re.findall(rf'<textarea name="{name}"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    return html.unescape(found)


def test_who_saves_a_note_does_not_switch_on_what_a_colleague_has_switched_off(
    ada: Administrator, bob: Administrator
) -> None:
    shown = ada.shown("change", row("alpha").pk)
    bob.save("alpha", rate="5/min")
    page = ada.save("alpha", enabled="on", note="Looked at.", _shown=shown)
    now = row("alpha")
    assert (now.enabled, now.rate, now.note) == (False, "5/min", "")
    what, who, written = errors(page)
    changes = "Enabled: on → off; Rate: none → “5/min”"
    assert what == (
        f"Nothing was saved, since this has changed after the page was opened: {changes}. "
        "Decide again, on the values as they are now."
    )
    assert who.startswith("bob, ")
    assert who.endswith(f": {changes}")
    assert written == "What you have written still stands here, and is not saved: Note."
    assert "checked" not in box(page, "enabled")
    assert 'value="5/min"' in box(page, "rate")
    assert text_in(page, "note") == "Looked at."
    assert [each.user for each in LogEntry.objects.all()] == [bob.user]
    # Who has read that saves the page that says it.
    (shown,) = re.findall(r'name="_shown" value="([^"]*)"', page)
    ada.save("alpha", rate="5/min", note="Looked at.", _shown=shown)
    now = row("alpha")
    assert (now.enabled, now.rate, now.note) == (False, "5/min", "Looked at.")


def test_groups_that_a_colleague_has_taken_away_stay_away(
    ada: Administrator, bob: Administrator
) -> None:
    press, desk = (Group.objects.create(name=name) for name in ("press", f"desk{MARKER}"))
    both: Any = {"enabled": "on", "restricted": "on", "groups": [press.pk, desk.pk]}
    ada.save("alpha", **both)
    shown = ada.shown("change", row("alpha").pk)
    bob.save("alpha", enabled="on", restricted="on", groups=[press.pk])
    page = ada.save("alpha", **both, rate="nonsense", _shown=shown)
    assert [each.name for each in row("alpha").groups.all()] == ["press"]
    assert f"Groups: “desk{MARKER}, press” → “press”." in errors(page)[0]
    assert MARKER not in page
    assert "Write a number" not in page
    ticks = re.findall(r'<input type="checkbox" name="groups"[^>]*>', page)
    assert ["checked" in tick for tick in sorted(ticks)] == [
        f'"{press.pk}"' in t for t in sorted(ticks)
    ]


def test_a_text_that_both_have_written_is_the_one_that_is_saved(
    ada: Administrator, bob: Administrator
) -> None:
    shown = ada.shown("change", row("alpha").pk)
    bob.save("alpha", enabled="on", note="Of bob.")
    page = ada.save("alpha", enabled="on", note="Of ada.", _shown=shown)
    assert "Note: none → “Of bob.”." in errors(page)[0]
    assert text_in(page, "note") == row("alpha").note == "Of bob."


@pytest.mark.parametrize("given", ["", "x", "none", "forged", "of another tool"])
def test_a_form_that_does_not_say_what_it_has_shown_saves_nothing(
    ada: Administrator, given: str
) -> None:
    shown = ada.shown("change", row("alpha").pk)
    forged = {
        "none": {"_shown": ["x", ""]},
        "forged": {"_shown": f"A{shown}"},
        "of another tool": {"_shown": ada.shown("change", row("beta").pk)},
    }
    data: dict[str, Any] = forged.get(given, {"_shown": given})
    page = ada.save("alpha", rate="5/min", **data)
    assert (row("alpha").enabled, row("alpha").rate) == (True, "")
    assert errors(page) == [
        "Nothing was saved: the form did not say which values it had shown. Decide again, on the "
        "values as they are now."
    ]
    assert "checked" in box(page, "enabled")
    assert not LogEntry.objects.exists()


def test_what_a_program_has_changed_is_said_without_a_name(ada: Administrator) -> None:
    shown = ada.shown("change", row("alpha").pk)
    ToolSetting.objects.update(enabled=False)
    (text,) = errors(ada.save("alpha", enabled="on", _shown=shown))
    assert "Enabled: on → off." in text
    assert not row("alpha").enabled


def test_an_approval_is_no_reason_to_refuse(ada: Administrator) -> None:
    shown = ada.shown("change", row("alpha").pk)
    at = timezone.now()
    ToolSetting.objects.update(approved_at=at)
    ada.save("alpha", enabled="on", note="x", _shown=shown)
    assert (row("alpha").note, row("alpha").approved_at) == ("x", at)


def test_what_was_locked_when_the_page_was_opened_is_not_cleared(
    ada: Administrator, settings: Any
) -> None:
    ToolSetting.objects.update(confirm=True)
    serve_tools(settings, alpha, beta, confirm=True)
    shown = ada.shown("change", row("alpha").pk)
    serve_tools(settings, alpha, beta)
    ada.save("alpha", enabled="on", note="x", _shown=shown)
    assert row("alpha").confirm


def listed(ada: Administrator) -> dict[str, Any]:
    """What a browser without JavaScript sends of the list, with nothing touched."""
    page = ada.get("changelist")
    found = re.findall(r"<input ([^>]*)>", page.partition('id="changelist-form"')[2])
    data: dict[str, Any] = {"_save": "Save"}
    for each in found:
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', each))
        name = attributes.get("name", "")
        if re.search("form-", name) and ("checkbox" not in each or "checked" in each):
            data[name] = attributes.get("value", "on")
    return data


def test_a_row_of_the_list_that_nobody_touched_stays_as_a_colleague_has_set_it(
    ada: Administrator, bob: Administrator
) -> None:
    data = listed(ada)
    assert data["initial-form-0-enabled"] == "True"
    bob.tick(alpha=False)
    del data["form-1-enabled"]
    page = ada.post("changelist", **data)
    assert [row(name).enabled for name in ("alpha", "beta")] == [False, False]
    assert "“beta” is off" in page
    assert "“alpha”" not in page
    by = {(each.user, each.object_repr) for each in LogEntry.objects.all()}
    assert by == {(bob.user, "alpha"), (ada.user, "beta")}


def test_what_is_off_in_the_list_stays_on_where_a_colleague_has_switched_it_on(
    ada: Administrator, bob: Administrator
) -> None:
    ToolSetting.objects.filter(name="alpha").update(enabled=False)
    data = listed(ada)
    bob.tick(alpha=True)
    ada.post("changelist", **data)
    assert row("alpha").enabled


def test_what_both_have_switched_in_the_list_is_said_and_is_the_first_ones_change(
    ada: Administrator, bob: Administrator
) -> None:
    data = listed(ada)
    bob.tick(alpha=False)
    del data["form-0-enabled"]
    page = ada.post("changelist", **data)
    assert "Somebody else has switched this since the list was opened: alpha." in page
    assert not row("alpha").enabled
    assert [each.user for each in LogEntry.objects.all()] == [bob.user]


@pytest.mark.parametrize("given", [None, "", "x", "on"])
def test_a_row_of_the_list_that_does_not_say_what_was_shown_changes_nothing(
    ada: Administrator, given: str | None
) -> None:
    data = listed(ada)
    ToolSetting.objects.filter(name="alpha").update(enabled=False)
    for number in range(2):
        del data[f"initial-form-{number}-enabled"]
        if given is not None:
            data[f"initial-form-{number}-enabled"] = given
    page = ada.post("changelist", **data)
    text = "Left as it is, since the form did not say what the list had shown: alpha."
    assert text in page
    assert [row(name).enabled for name in ("alpha", "beta")] == [False, True]
    assert not LogEntry.objects.exists()


def token_page(token: Token) -> str:
    return reverse("admin:mcp_bridge_tokens_token_change", args=[token.pk])


def test_who_renames_a_token_does_not_prolong_what_a_colleague_has_ended(
    ada: Administrator, bob: Administrator
) -> None:
    user = get_user_model().objects.create_user("caller")
    token, _ = Token.objects.issue(user=user, name="Laptop")
    path = token_page(token)
    data = {"name": "Desk", "expires_at_0": "", "expires_at_1": ""}
    shown = shown_by(ada.browser, path)
    ended = {"name": "Laptop", "expires_at_0": "2020-01-02", "expires_at_1": "03:04:05"}
    bob.browser.post(path, {**ended, "_shown": shown_by(bob.browser, path)})
    page = ada.browser.post(path, {**data, "_shown": shown}).content.decode()
    found = Token.objects.get()
    assert (found.name, found.is_valid) == ("Laptop", False)
    assert "none → “Jan. 2, 2020, 3:04 a.m.”." in errors(page)[0]
    assert 'value="2020-01-02"' in page
    assert errors(page)[1].startswith("bob, ")
    response = ada.browser.post(
        path, {**ended, "name": "Desk", "_shown": shown_by(ada.browser, path)}
    )
    assert response.status_code == 302
    found = Token.objects.get()
    assert (found.name, found.is_valid) == ("Desk", False)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite lets one write at a time")
@pytest.mark.django_db(transaction=True)
def test_of_two_who_save_a_token_at_the_same_moment_the_second_is_told(
    ada: Administrator, bob: Administrator
) -> None:
    user = get_user_model().objects.create_user("caller")
    token, _ = Token.objects.issue(user=user, name="Laptop")
    path = token_page(token)
    ended = {"name": "Laptop", "expires_at_0": "2020-01-02", "expires_at_1": "03:04:05"}
    ended["_shown"] = shown_by(bob.browser, path)
    renamed = {"name": "Desk", "expires_at_0": "", "expires_at_1": ""}
    renamed["_shown"] = shown_by(ada.browser, path)
    pages: list[str] = []

    def rename() -> None:
        pages.append(ada.browser.post(path, renamed).content.decode())
        connection.close()

    second = threading.Thread(target=rename)

    def meanwhile(execute: Any, sql: str, *args: Any) -> Any:
        """Have the other form sent after this one was checked, and before it is written."""
        if sql.startswith("UPDATE") and Token._meta.db_table in sql:
            second.start()
            second.join(0.5)
        return execute(sql, *args)

    with connection.execute_wrapper(meanwhile):
        assert bob.browser.post(path, ended).status_code == 302
    second.join()
    found = Token.objects.get()
    assert (found.name, found.is_valid) == ("Laptop", False)
    assert "Nothing was saved" in errors(pages[0])[0]

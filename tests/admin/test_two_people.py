"""Two people at one form: a stale form does not overwrite another user's changes."""

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
STALE = "Not saved: this was changed after you opened the page. These are the current values."


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


def test_stale_form_is_not_saved(ada: Administrator, bob: Administrator) -> None:
    shown = ada.shown("change", row("alpha").pk)
    bob.save("alpha", rate="5/min")
    page = ada.save("alpha", enabled="on", note="Looked at.", _revision=shown)
    now = row("alpha")
    assert (now.enabled, now.rate, now.note) == (False, "5/min", "")
    assert errors(page) == [STALE]
    assert "checked" not in box(page, "enabled")
    assert 'value="5/min"' in box(page, "rate")
    assert [each.user for each in LogEntry.objects.all()] == [bob.user]
    # The answer carries the revision of the values it shows.
    (shown,) = re.findall(r'name="_revision" value="([^"]*)"', page)
    ada.save("alpha", rate="5/min", note="Looked at.", _revision=shown)
    now = row("alpha")
    assert (now.enabled, now.rate, now.note) == (False, "5/min", "Looked at.")


def test_stale_form_does_not_restore_groups(ada: Administrator, bob: Administrator) -> None:
    press, desk = (Group.objects.create(name=name) for name in ("press", "desk"))
    both: Any = {"enabled": "on", "restricted": "on", "groups": [press.pk, desk.pk]}
    ada.save("alpha", **both)
    shown = ada.shown("change", row("alpha").pk)
    bob.save("alpha", enabled="on", restricted="on", groups=[press.pk])
    page = ada.save("alpha", **both, rate="nonsense", _revision=shown)
    assert [each.name for each in row("alpha").groups.all()] == ["press"]
    assert errors(page) == [STALE]
    assert "Enter a number" not in page
    ticks = re.findall(r'<input type="checkbox" name="groups"[^>]*>', page)
    assert {f'value="{press.pk}"' in tick: "checked" in tick for tick in ticks} == {
        True: True,
        False: False,
    }


@pytest.mark.parametrize("given", ["", "x", "none", "forged", "of another tool"])
def test_form_without_the_revision_is_not_saved(ada: Administrator, given: str) -> None:
    shown = ada.shown("change", row("alpha").pk)
    forged = {
        "none": {"_revision": ["x", ""]},
        "forged": {"_revision": f"A{shown}"},
        "of another tool": {"_revision": ada.shown("change", row("beta").pk)},
    }
    data: dict[str, Any] = forged.get(given, {"_revision": given})
    page = ada.save("alpha", rate="5/min", **data)
    assert (row("alpha").enabled, row("alpha").rate) == (True, "")
    assert errors(page) == [STALE]
    assert "checked" in box(page, "enabled")
    assert not LogEntry.objects.exists()


def test_programmatic_change_makes_a_form_stale(ada: Administrator) -> None:
    shown = ada.shown("change", row("alpha").pk)
    ToolSetting.objects.update(enabled=False)
    assert errors(ada.save("alpha", enabled="on", _revision=shown)) == [STALE]
    assert not row("alpha").enabled


def test_approval_does_not_make_a_form_stale(ada: Administrator) -> None:
    shown = ada.shown("change", row("alpha").pk)
    at = timezone.now()
    ToolSetting.objects.update(approved_at=at)
    ada.save("alpha", enabled="on", note="x", _revision=shown)
    assert (row("alpha").note, row("alpha").approved_at) == ("x", at)


def test_field_that_was_locked_is_not_cleared(ada: Administrator, settings: Any) -> None:
    ToolSetting.objects.update(confirm=True)
    serve_tools(settings, alpha, beta, confirm=True)
    shown = ada.shown("change", row("alpha").pk)
    serve_tools(settings, alpha, beta)
    ada.save("alpha", enabled="on", note="x", _revision=shown)
    assert row("alpha").confirm


def listed(ada: Administrator) -> dict[str, Any]:
    """Return the data of the untouched list that a browser without JavaScript sends."""
    page = ada.get("changelist")
    found = re.findall(r"<input ([^>]*)>", page.partition('id="changelist-form"')[2])
    data: dict[str, Any] = {"_save": "Save"}
    for each in found:
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', each))
        name = attributes.get("name", "")
        if re.search("form-", name) and ("checkbox" not in each or "checked" in each):
            data[name] = attributes.get("value", "on")
    return data


def test_untouched_row_of_the_list_is_not_written(ada: Administrator, bob: Administrator) -> None:
    data = listed(ada)
    assert data["initial-form-0-enabled"] == "True"
    bob.tick(alpha=False)
    del data["form-1-enabled"]
    page = ada.post("changelist", **data)
    assert [row(name).enabled for name in ("alpha", "beta")] == [False, False]
    assert "1 tool was changed successfully." in page
    by = {(each.user, each.object_repr) for each in LogEntry.objects.all()}
    assert by == {(bob.user, "alpha"), (ada.user, "beta")}


def test_untouched_row_of_the_list_stays_enabled(ada: Administrator, bob: Administrator) -> None:
    ToolSetting.objects.filter(name="alpha").update(enabled=False)
    data = listed(ada)
    bob.tick(alpha=True)
    ada.post("changelist", **data)
    assert row("alpha").enabled


def test_row_that_both_switch_is_logged_once(ada: Administrator, bob: Administrator) -> None:
    data = listed(ada)
    bob.tick(alpha=False)
    del data["form-0-enabled"]
    ada.post("changelist", **data)
    assert not row("alpha").enabled
    assert [each.user for each in LogEntry.objects.all()] == [bob.user]


@pytest.mark.parametrize("given", [None, "", "x", "on"])
def test_row_without_its_initial_value_is_not_written(
    ada: Administrator, given: str | None
) -> None:
    data = listed(ada)
    ToolSetting.objects.filter(name="alpha").update(enabled=False)
    for number in range(2):
        del data[f"initial-form-{number}-enabled"]
        if given is not None:
            data[f"initial-form-{number}-enabled"] = given
    ada.post("changelist", **data)
    assert [row(name).enabled for name in ("alpha", "beta")] == [False, True]
    assert not LogEntry.objects.exists()


def token_page(token: Token) -> str:
    return reverse("admin:mcp_bridge_tokens_token_change", args=[token.pk])


def test_stale_form_does_not_prolong_a_token(ada: Administrator, bob: Administrator) -> None:
    user = get_user_model().objects.create_user("caller")
    token, _ = Token.objects.issue(user=user, name="Laptop")
    path = token_page(token)
    data = {"name": "Desk", "expires_at_0": "", "expires_at_1": ""}
    shown = shown_by(ada.browser, path)
    ended = {"name": "Laptop", "expires_at_0": "2020-01-02", "expires_at_1": "03:04:05"}
    bob.browser.post(path, {**ended, "_revision": shown_by(bob.browser, path)})
    page = ada.browser.post(path, {**data, "_revision": shown}).content.decode()
    found = Token.objects.get()
    assert (found.name, found.is_valid) == ("Laptop", False)
    assert errors(page) == [STALE]
    assert 'value="2020-01-02"' in page
    response = ada.browser.post(
        path, {**ended, "name": "Desk", "_revision": shown_by(ada.browser, path)}
    )
    assert response.status_code == 302
    found = Token.objects.get()
    assert (found.name, found.is_valid) == ("Desk", False)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite lets one write at a time")
@pytest.mark.django_db(transaction=True)
def test_second_of_two_simultaneous_forms_is_stale(ada: Administrator, bob: Administrator) -> None:
    user = get_user_model().objects.create_user("caller")
    token, _ = Token.objects.issue(user=user, name="Laptop")
    path = token_page(token)
    ended = {"name": "Laptop", "expires_at_0": "2020-01-02", "expires_at_1": "03:04:05"}
    ended["_revision"] = shown_by(bob.browser, path)
    renamed = {"name": "Desk", "expires_at_0": "", "expires_at_1": ""}
    renamed["_revision"] = shown_by(ada.browser, path)
    pages: list[str] = []

    def rename() -> None:
        pages.append(ada.browser.post(path, renamed).content.decode())
        connection.close()

    second = threading.Thread(target=rename)

    def meanwhile(execute: Any, sql: str, *args: Any) -> Any:
        """Send the other form after this one was checked and before it is written."""
        if sql.startswith("UPDATE") and Token._meta.db_table in sql:
            second.start()
            second.join(0.5)
        return execute(sql, *args)

    with connection.execute_wrapper(meanwhile):
        assert bob.browser.post(path, ended).status_code == 302
    second.join()
    found = Token.objects.get()
    assert (found.name, found.is_valid) == ("Laptop", False)
    assert errors(pages[0]) == [STALE]

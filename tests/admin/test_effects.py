"""The messages and the history after a change of tools' settings."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.urls import reverse

from mcp_bridge.models import ToolSetting
from tests.support.administrator import Administrator, row, serve_tools

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"


def alpha() -> str:
    """Say alpha."""
    return "alpha"


def beta() -> str:
    """Say beta."""
    return "beta"


def site(settings: Any, people: int = 0, **options: Any) -> Administrator:
    """A site with two tools, an administrator, and a given number of other users."""
    ToolSetting.objects.all().delete()
    serve_tools(settings, alpha, beta, **options)
    users = get_user_model().objects
    users.bulk_create(users.model(username=f"user{number}") for number in range(people))
    administrator = Administrator()
    administrator.get("changelist")
    return administrator


def history() -> list[str]:
    return [each.get_change_message() for each in LogEntry.objects.order_by("pk")]


def messages(page: str) -> list[str]:
    """Return the messages of a page as plain text."""
    found = page.partition('<ul class="messagelist">')[2].partition("</ul>")[0]
    return [
        html.unescape(re.sub("<[^>]*>", "", each)).strip() for each in found.split("</li>")[:-1]
    ]


SAVED = "The tool “alpha” was changed successfully."
DELETES = "Every user of the site can use it, and it may delete or overwrite."


def test_effect_of_a_switch_names_the_users(settings: Any) -> None:
    administrator = site(settings, people=5)
    assert "“alpha” is disabled." in messages(administrator.tick(alpha=False))
    enabled = f"“alpha” is enabled for every user (6 people). {DELETES}"
    page = administrator.act("switch_on", "alpha", "beta")
    assert messages(page) == ["1 tool was enabled. 1 was unchanged.", enabled]
    assert messages(administrator.save("alpha")) == ["“alpha” is disabled.", SAVED]
    page = administrator.save("alpha", enabled="on", note="Again.")
    assert '<li class="warning">' in page
    assert messages(page) == [enabled, SAVED]
    assert history() == [
        "Enabled: on → off",
        "Enabled: off → on",
        "Enabled: on → off",
        "Enabled: off → on; Note: none → “Again.”",
    ]


@pytest.mark.parametrize(
    ("options", "effect"),
    [
        (
            {"public": True},
            "“alpha” is enabled for everyone, signed in or not. "
            "Everyone can use it, signed in or not, and it may change data.",
        ),
        ({"permissions": "auth.add_user"}, "“alpha” is enabled for 1 person."),
    ],
)
def test_effect_depends_on_the_access_rule(
    settings: Any, options: dict[str, Any], effect: str
) -> None:
    administrator = site(settings, people=2, **options)
    administrator.tick(alpha=False)
    page = administrator.tick(alpha=True)
    assert effect in messages(page)
    assert ('<li class="warning">' in page) is ("public" in options)


def test_effect_counts_at_most_with_an_access_policy(settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": "tests.contract.test_access.OfficeHours"}
    administrator = site(settings, people=2)
    administrator.tick(alpha=False)
    page = administrator.tick(alpha=True)
    assert "“alpha” is enabled for at most every user (3 people)." in messages(page)


def test_effect_names_the_groups(settings: Any) -> None:
    administrator = site(settings, people=3)
    press = Group.objects.create(name=f"press{MARKER}")
    press.user_set.add(administrator.user)
    data = {"enabled": "on", "restricted": "on"}
    page = administrator.save("alpha", **data, groups=[press.pk])
    assert MARKER not in page
    assert messages(page) == [f"“alpha” is enabled for {press.name}; 1 person.", SAVED]
    page = administrator.save("alpha", **data)
    assert 'class="warning"' in page
    assert messages(page)[0] == (
        "“alpha” is enabled for 0 people. "
        "No one can use it: it is restricted to groups, but none is selected."
    )
    assert f"Groups: “{press.name}” → none" in history()[-1]
    address = reverse("admin:mcp_bridge_toolsetting_history", args=[row("alpha").pk])
    assert MARKER not in administrator.browser.get(address).content.decode()


def test_unchanged_form_has_no_effect(settings: Any) -> None:
    administrator = site(settings)
    assert messages(administrator.save("alpha", enabled="on")) == [SAVED]
    assert history() == ["No fields changed."]


def test_effect_of_a_pending_approval_names_the_status(settings: Any) -> None:
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled"}
    administrator = site(settings)
    assert "“alpha” is disabled." in messages(administrator.save("alpha"))
    effect = "“alpha” is enabled, but not available: new, pending approval."
    assert effect in messages(administrator.save("alpha", enabled="on"))


def test_continue_keeps_the_filters_of_the_list(settings: Any) -> None:
    administrator = site(settings)
    path = reverse("admin:mcp_bridge_toolsetting_change", args=[row("alpha").pk])
    path += "?_changelist_filters=q%3Dal"
    shown = administrator.shown("change", row("alpha").pk)
    response = administrator.browser.post(path, {"_continue": "1", "_revision": shown})
    assert response.headers["Location"] == path
    assert not row("alpha").enabled


def test_effects_of_many_tools_are_cut(settings: Any) -> None:
    ToolSetting.objects.all().delete()
    functions = []
    for number in range(60):

        def tool() -> str:
            """Act."""
            raise AssertionError

        tool.__name__ = f"tool_{number:02}"
        functions.append(tool)
    serve_tools(settings, *functions)
    administrator = Administrator()
    administrator.get("changelist")
    names = [function.__name__ for function in functions]
    page = administrator.act("switch_off", *names)
    assert len(messages(page)) == 12
    assert messages(page)[-1] == "50 more tools were changed."


def test_bidirectional_text_is_escaped_in_the_history(settings: Any) -> None:
    administrator = site(settings)
    administrator.save("alpha", enabled="on", note=f"a\u202e{MARKER}" + "x" * 200)
    (text,) = history()
    assert text.startswith(f"Note: none → “a\\u202e{MARKER}x")
    assert len(text) < 120

"""What is said after a change of tools' settings, and what the history keeps of it."""

from __future__ import annotations

import html
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
    """A site with two tools, an administrator, and so many users besides."""
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
    """The messages of a page, as they are read."""
    found = page.partition('<ul class="messagelist">')[2].partition("</ul>")[0]
    return [html.unescape(each.rpartition(">")[2]) for each in found.split("</li>")[:-1]]


def test_switching_off_and_on_says_how_many_people_it_is_for(settings: Any) -> None:
    administrator = site(settings, people=5)
    page = administrator.tick(alpha=False)
    assert "“alpha” is off: 6 people can no longer use it." in messages(page)
    page = administrator.act("switch_on", "alpha", "beta")
    assert messages(page) == [
        "1 tool is switched on. 1 was so before.",
        "“alpha” is on: every user of the site (6 people) can use it, and it may delete or "
        "overwrite.",
    ]
    page = administrator.save("alpha")
    assert messages(page) == ["“alpha” is off: 6 people can no longer use it."]
    page = administrator.save("alpha", enabled="on", note="Again.")
    assert '<li class="warning">' in page
    assert messages(page) == [
        "“alpha” is on (Note: none → “Again.”): every user of the site (6 people) can use it, and "
        "it may delete or overwrite."
    ]
    assert history() == [
        "Enabled: on → off",
        "Enabled: off → on",
        "Enabled: on → off",
        "Enabled: off → on; Note: none → “Again.”",
    ]


@pytest.mark.parametrize(
    ("options", "off", "on"),
    [
        (
            {"public": True},
            "nobody can use it any more.",
            "everybody can use it, signed in or not.",
        ),
        (
            {"permissions": "auth.add_user"},
            "1 person can no longer use it.",
            "1 person can use it.",
        ),
    ],
)
def test_it_is_said_for_whom(settings: Any, options: Any, off: str, on: str) -> None:
    administrator = site(settings, people=2, **options)
    assert f"“alpha” is off: {off}" in messages(administrator.tick(alpha=False))
    page = administrator.tick(alpha=True)
    assert f"“alpha” is on: {on}" in messages(page)
    # What is open to everybody is a warning.
    assert ('<li class="warning">' in page) is ("public" in options)


def test_where_the_code_decides_further_it_is_at_most_so_many(settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": "tests.access.test_access.OfficeHours"}
    administrator = site(settings, people=2)
    page = administrator.tick(alpha=False)
    assert "“alpha” is off: at most 3 people can no longer use it." in messages(page)
    page = administrator.tick(alpha=True)
    assert "“alpha” is on: at most every user of the site (3 people) can use it." in messages(page)


def test_limiting_to_groups_says_who_is_left(settings: Any) -> None:
    administrator = site(settings, people=3)
    press = Group.objects.create(name=f"press{MARKER}")
    press.user_set.add(administrator.user)
    data = {"enabled": "on", "restricted": "on"}
    page = administrator.save("alpha", **data, groups=[press.pk])
    assert MARKER not in page
    assert messages(page) == [
        f"“alpha” was changed (Only for groups: off → on; Groups: none → “{press.name}”): "
        "1 person can use it. Before: every user (4 people)."
    ]
    page = administrator.save("alpha", **data)
    assert 'class="warning"' in page
    assert messages(page)[0].endswith(
        "Nobody can use it: it is only for groups, and no group is chosen. "
        "Before: press<script>alert(1)</script>; 1 person."
    )
    assert f"Groups: “{press.name}” → none" in history()[-1]
    address = reverse("admin:mcp_bridge_toolsetting_history", args=[row("alpha").pk])
    assert MARKER not in administrator.browser.get(address).content.decode()


def test_nothing_changed_is_said_so(settings: Any) -> None:
    administrator = site(settings)
    page = administrator.save("alpha", enabled="on")
    assert messages(page) == ["Nothing was changed in “alpha”."]
    assert history() == ["No fields changed."]


def test_a_tool_that_waits_is_on_for_nobody_yet(settings: Any) -> None:
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled"}
    administrator = site(settings)
    administrator.tick(alpha=False)
    page = administrator.tick(alpha=True)
    assert "“alpha” is on: nobody can use it yet (new, waits for approval)." in messages(page)
    assert "“alpha” is off." in messages(administrator.tick(alpha=False))


def test_saving_and_going_on_keeps_the_filters_of_the_list(settings: Any) -> None:
    administrator = site(settings)
    path = reverse("admin:mcp_bridge_toolsetting_change", args=[row("alpha").pk])
    path += "?_changelist_filters=q%3Dal"
    shown = administrator.shown("change", row("alpha").pk)
    response = administrator.browser.post(path, {"_continue": "1", "_revision": shown})
    assert response.headers["Location"] == path
    assert not row("alpha").enabled


def test_a_change_of_many_tools_is_told_in_few_queries(settings: Any) -> None:
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


def test_a_text_that_turns_its_direction_is_harmless_in_the_history(settings: Any) -> None:
    administrator = site(settings)
    administrator.save("alpha", enabled="on", note=f"a\u202e{MARKER}" + "x" * 200)
    (text,) = history()
    assert text.startswith(f"Note: none → “a\\u202e{MARKER}x")
    assert len(text) < 120

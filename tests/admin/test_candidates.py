"""The candidates in the admin: search, review, enable and disable."""

from __future__ import annotations

import re
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import path

from mcp_bridge.features import AccessRule, Tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.sources.base import Source
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import route
from tests.sources.offers.own import NUMBER, count, tool
from tests.support.administrator import CHANGE, VIEW, Administrator, row
from tests.support.marked import in_german

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"
HINTS: list[dict[str, bool]] = [{"readOnlyHint": True}, {"destructiveHint": True}, {}]


class ManySource(Source):
    """A source with as many candidates as its option says; BUILT collects those that were built."""

    built: list[str] = []
    raises: dict[str, Exception] = {}

    def tools(self) -> list[Tool]:
        return [
            Tool(
                name=f"{self.alias}_{number:04}",
                build=partial(self.build, f"{self.alias}_{number:04}", HINTS[number % 3]),
                description=f"Do number {number}. {MARKER}",
                function=f"{('shop', 'news')[number % 2]}.views.act",
                annotations=HINTS[number % 3],
                access=AccessRule.of(False, ("auth.view_user",)),
                source=f"{self.alias}/views.py:{number}",
                is_marked=False,
            )
            for number in range(self.options["many"])
        ]

    @classmethod
    def build(cls, name: str, annotations: dict[str, bool]) -> Tool:
        cls.built.append(name)
        if name in cls.raises:
            raise cls.raises[name]
        return tool(name, count, NUMBER, annotations, False, ("auth.view_user",))


class RuledSource(Source):
    """A source whose candidates each have a different rule."""

    rules = {
        "open": AccessRule(public=True),
        "signed": AccessRule(),
        "judged": AccessRule(predicate=bool),
        "one": AccessRule(permissions=("auth.delete_user",)),
        "two": AccessRule(permissions=("auth.view_user", "shop.sell"), predicate=bool),
    }

    def tools(self) -> list[Tool]:
        return [
            Tool(name=name, description="", build=self.build, access=rule, is_marked=False)
            for name, rule in self.rules.items()
        ]

    def build(self) -> Tool:
        raise AssertionError


def who_may(page: str) -> dict[str, str]:
    """Return the candidates on a page by name, each with its audience."""
    row = r"<label[^>]*>(\w+)</label></th>\s*<td>.*?</td>\s*<td><span[^>]*>[^<]*</span>(.*?)</td>"
    rows = re.findall(row, page)
    return {name: unescape(text) for name, text in rows}


@pytest.fixture
def ruled(settings: Any) -> Administrator:
    ToolSetting.objects.all().delete()
    route(settings, path("admin/", admin.site.urls))
    settings.MCP_BRIDGE = {"SOURCES": {"own": {"BACKEND": f"{__name__}.RuledSource"}}}
    return Administrator()


def test_audience_of_a_candidate_is_described_in_words(ruled: Administrator) -> None:
    page = ruled.get("candidates")
    assert who_may(page) == {
        "open": "everyone, signed in or not",
        "signed": "everyone who is signed in",
        "judged": "everyone who is signed in, if the tool's own access rule (code) allows",
        "one": "everyone with “Can delete user”",
        "two": (
            "everyone with “Can view user” and “shop.sell”, "
            "if the tool's own access rule (code) allows"
        ),
    }
    # The search finds both the label shown and the codename in the code.
    assert found(ruled.get("candidates", q="can delete")) == ["one"]
    assert found(ruled.get("candidates", q="auth.delete_user")) == ["one"]


def test_audience_of_a_candidate_is_translated(ruled: Administrator, tmp_path: Path) -> None:
    words = {
        "everyone who is signed in": "alle Angemeldeten",
        "everyone with %(permissions)s": "alle mit %(permissions)s",
        "%(who)s, if the tool's own access rule (code) allows": "%(who)s, soweit erlaubt",
        "Can delete %(model)s": "Darf %(model)s löschen",
    }
    with in_german(tmp_path, words):
        page = ruled.get("candidates")
        assert found(ruled.get("candidates", q="darf löschen")) == ["one"]
    told = who_may(page)
    assert told["judged"] == "alle Angemeldeten, soweit erlaubt"
    assert told["one"] == "alle mit „Darf Benutzer löschen“"


def test_page_of_rules_takes_one_extra_query(ruled: Administrator) -> None:
    ruled.get("candidates")
    with CaptureQueriesContext(connection) as queries:
        ruled.get("candidates", q="user")
    # The queries of any page of candidates, and one for the names of permissions.
    assert len(queries) <= 6, queries.captured_queries


@pytest.fixture
def many(settings: Any) -> Any:
    ManySource.built.clear()
    ManySource.raises.clear()
    ToolSetting.objects.all().delete()
    route(settings, path("admin/", admin.site.urls))

    def serve(**counts: int) -> type[ManySource]:
        backend = f"{__name__}.ManySource"
        settings.MCP_BRIDGE = {
            "NEW_TOOLS": "disabled",
            "SOURCES": {
                alias: {"BACKEND": backend, "OPTIONS": {"many": many}}
                for alias, many in counts.items()
            },
        }
        return ManySource

    return serve


def found(page: str) -> list[str]:
    return re.findall(r'name="name" value="(\w+)"', page)


def shown(page: str) -> list[str]:
    """Return the fingerprints and names that the confirmation page would enable."""
    return re.findall(r'name="tool" value="(\w+ \w+)" checked', page)


def listed() -> list[str]:
    client = MCPClient(user=get_user_model().objects.get(username="administrator"))
    return [each["name"] for each in client.list_tools()]


def test_listed_candidates_are_not_built(many: Any) -> None:
    built = many(api=1200, rpc=100).built
    administrator = Administrator()
    page = administrator.get("candidates")
    assert found(page) == [f"api_{number:04}" for number in range(100)]
    assert "1300 operations of the site can be enabled as tools" in page
    assert MARKER not in page
    assert "Do number 7." in page
    assert "everyone with “Can view user”" in page
    assert "api/views.py:7" in page
    assert 'href="?p=13"' in page
    assert found(administrator.get("candidates", p=13)) == [
        f"rpc_{number:04}" for number in range(100)
    ]
    assert found(administrator.get("candidates", p="x")) == found(page)
    assert built == []
    assert "1300 candidates</a>" in administrator.get("changelist")


def test_page_of_1300_candidates_takes_few_queries(many: Any) -> None:
    many(api=1300)
    administrator = Administrator()
    administrator.get("candidates")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        administrator.get("candidates", q="number", source="api")
    # The session, its user, the enabled candidates, and the pending counts for the menu.
    assert len(queries) <= 5, queries.captured_queries


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"q": "NUMBER 3"}, ["api_0003", "rpc_0003"]),
        ({"q": "rpc 3"}, ["rpc_0003"]),
        ({"q": "rpc_0003"}, ["rpc_0003"]),
        ({"source": "rpc", "hint": "read-only"}, ["rpc_0000", "rpc_0003"]),
        ({"source": "rpc", "hint": "unknown"}, ["rpc_0002"]),
        ({"source": "rpc", "app": "news"}, ["rpc_0001", "rpc_0003"]),
        ({"source": "rpc", "q": "views.py"}, []),
        ({"source": "other"}, []),
    ],
)
def test_candidates_are_found_by_text_source_app_and_hint(
    many: Any, query: dict[str, str], expected: list[str]
) -> None:
    many(api=4, rpc=4)
    page = Administrator().get("candidates", **query)
    assert found(page) == expected
    assert ("No matching candidates." in page) == (not expected)
    assert '<option value="news">news (4)</option>' in page.replace(" selected", "")


def test_selected_candidates_are_shown_before_they_are_enabled(many: Any) -> None:
    built = many(api=20).built
    administrator = Administrator()
    page = administrator.post("switch_on", name=["api_0001", "api_0003", "unknown"])
    assert built == ["api_0001", "api_0003"]
    text = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page))
    assert "Do what api_0001 does." in text
    assert "deletes : It may delete or overwrite." in text
    assert "Required permissions Can view user auth.view_user" in text
    assert "Who can use it 1 person" in text
    assert "number required integer, minimum 1, maximum 100" in text
    sizes = [int(size) for size in re.findall(r"about (\d+) tokens", text)]
    assert sizes[-1] == sum(sizes[:-1]) > 80
    assert not ToolSetting.objects.exists()
    page = administrator.post("switch_on", _confirmed="x", tool=shown(page))
    assert "2 candidates were enabled." in page
    assert found(page) == [f"api_{number:04}" for number in range(20) if number not in (1, 3)]
    assert listed() == ["api_0001", "api_0003"]
    assert [(each.user, each.object_repr) for each in LogEntry.objects.order_by("object_repr")] == [
        (administrator.user, "api_0001"),
        (administrator.user, "api_0003"),
    ]
    # It is approved and behaves like any other tool.
    setting = row("api_0001")
    assert (setting.approved_by, setting.chosen, setting.enabled) == (
        administrator.user,
        True,
        True,
    )
    assert "Try it" in administrator.get("change", setting.pk)
    assert built == ["api_0001", "api_0003"]


def test_whole_page_of_candidates_is_enabled(many: Any) -> None:
    many(api=110)
    administrator = Administrator()
    page = administrator.browser.post(
        "/admin/mcp_bridge/toolsetting/candidates/switch-on/?p=2&hint=&q=number", {"_all": "x"}
    ).content.decode()
    assert [each.split()[1] for each in shown(page)] == [f"api_{n:04}" for n in range(100, 110)]


def test_disabled_tool_becomes_a_candidate_again(many: Any) -> None:
    many(api=2)
    administrator = Administrator()
    shown_page = administrator.post("switch_on", name="api_0001")
    administrator.post("switch_on", _confirmed="x", tool=shown(shown_page))
    assert "1 tool was disabled." in administrator.act("switch_off", "api_0001")
    assert listed() == []
    assert found(administrator.get("candidates")) == ["api_0000", "api_0001"]
    page = administrator.get("changelist")
    assert '<span class="mcp-status-disabled">disabled</span>' in page
    assert "1 tool was enabled." in administrator.act("switch_on", "api_0001")
    assert listed() == ["api_0001"]
    administrator.act("switch_off", "api_0001")
    assert "was deleted successfully" in administrator.post(
        "delete", row("api_0001").pk, post="yes"
    )


def test_candidate_changed_since_shown_is_not_enabled(many: Any) -> None:
    many(api=2)
    administrator = Administrator()
    page = administrator.post("switch_on", name=["api_0000", "api_0001"])
    changed, same = shown(page)
    tools = ["0" + changed[1:], same, "0 gone", "nonsense"]
    page = administrator.post("switch_on", _confirmed="x", tool=tools)
    assert "1 candidate was enabled." in page
    assert "were changed or removed since you opened the page: api_0000, gone." in page
    assert listed() == ["api_0001"]


def test_unbuildable_candidate_shows_the_reason(many: Any) -> None:
    many(api=3).raises["api_0001"] = ValueError(f"Its table is missing. {MARKER}")
    administrator = Administrator()
    page = administrator.post("switch_on", name=["api_0000", "api_0001"])
    assert "These cannot be enabled" in page
    assert "Its table is missing." in page
    assert MARKER not in page
    assert [each.split()[1] for each in shown(page)] == ["api_0000"]
    assert "It cannot be built now:" in administrator.get("candidates")
    # An enabled candidate that fails later.
    ToolSetting.objects.create(name="api_0001", chosen=True)
    page = administrator.get("changelist")
    assert '<span class="mcp-status-unbuilt">cannot be built now</span>' in page
    page = administrator.get("change", row("api_0001").pk)
    assert "Reason: Its table is missing." in page
    assert found(administrator.get("candidates")) == ["api_0000", "api_0002"]


def test_enabling_candidates_requires_the_change_permission(many: Any) -> None:
    many(api=2)
    viewer = Administrator(VIEW, username="viewer")
    page = viewer.get("candidates")
    assert "Do number 1." in page
    assert found(page) == []
    viewer.post("switch_on", name="api_0000", expected=403)
    viewer.post("switch_on", _confirmed="x", tool="x api_0000", expected=403)
    Administrator(CHANGE, username="changer").post("switch_on", name="api_0000")
    nobody = Administrator(VIEW, username="nobody")
    nobody.user.user_permissions.set(Permission.objects.none())
    nobody.get("candidates", expected=403)
    administrator = Administrator()
    administrator.get("switch_on", expected=405)
    assert "Nothing was selected" in administrator.post("switch_on")
    assert not ToolSetting.objects.exists()


def test_site_without_candidates_does_not_link_to_them(many: Any) -> None:
    many(api=0)
    administrator = Administrator()
    assert "candidates" not in administrator.get("changelist")
    assert "No candidates" in administrator.get("candidates")
    assert not registry.discovered.candidates

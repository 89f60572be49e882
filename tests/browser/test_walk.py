"""The tasks of administrators, from the admin's index on, done by three users."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.cache import cache
from django.utils.text import capfirst
from django.utils.translation import gettext, override
from playwright.sync_api import Locator, Page

from mcp_bridge.models import PendingCall, Scope, ToolSetting
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.tokens.models import Token
from testproject.newsroom.models import Article
from tests.browser.conftest import check
from tests.browser.test_admin import LIST, Visit, change_the_definition_of
from tests.browser.test_queue import Editor, two_weeks_of_calls

DOCUMENT = Path(__file__).parents[2] / "docs/operate/administration.md"
TASK = re.compile(r"^\| (\d+)\. [^|]+ \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
TOLD = re.compile(r"^\| (\d+(?:, \d+)*) \| (You can[^|]+) \|$", re.MULTILINE)
MOST_CLICKS, MOST_KEYS = 3, 15
# Permissions of each user; None for a superuser.
PEOPLE = {
    "admin": None,
    "chief": (
        *("view_toolsetting", "change_toolsetting", "view_toolcallrecord"),
        *("view_pendingcall", "change_pendingcall"),
        *("view_token", "add_token", "change_token", "view_user"),
        *("view_scope", "add_scope", "change_scope"),
    ),
    "viewer": (
        *("view_toolsetting", "view_toolcallrecord", "view_pendingcall", "view_token"),
        *("view_scope", "view_user"),
    ),
}
WIDTHS = (1440, 1024, 390)
WALKS = [
    *((name, width, "en") for name in PEOPLE for width in WIDTHS),
    *(("admin", width, "de") for width in WIDTHS),
]


class Row(NamedTuple):
    """A documented task: clicks to its page, clicks there, and the text without permission."""

    way: list[str]
    there: list[str]
    told: str


def documented() -> list[Row]:
    text = DOCUMENT.read_text()
    told = {number: each[1] for each in TOLD.findall(text) for number in each[0].split(", ")}
    return [
        Row(*(re.findall(r"\*\*(.+?)\*\*", each) for each in clicks), told.get(number, ""))
        for number, *clicks in TASK.findall(text)
    ]


class Walk:
    """
    A user's way through one task, with the names of the elements clicked.

    Names are those of the code; the page has them in the language of the browser.
    """

    # Pages already checked: each is checked once, and once more when it answers.
    checked: ClassVar[set[tuple[str, bool]]]

    def __init__(self, page: Page, language: str, name: str, *, may_decide: bool) -> None:
        self.page, self.language, self.name = page, language, name
        self.may_decide = may_decide
        self.content = page.locator("#content")
        self.way: list[str] = []
        self.there: list[str] | None = None
        self.told = ""
        self.is_barred = False

    def text(self, text: str, **values: str) -> str:
        """Return a text of the code in the language of the page."""
        with override(self.language):
            return gettext(text) % {name: gettext(value) for name, value in values.items()}

    def arrive(self) -> None:
        """Mark this page as the task's: later clicks do not count as the way to it."""
        self.there = []

    def look(self) -> None:
        """Run the checks for all pages on the page that was reached."""
        self.page.wait_for_load_state()
        path = re.sub(r"\d+", "", urlsplit(self.page.url).path)
        if (seen := (path, bool(self.there))) not in self.checked:
            self.checked.add(seen)
            done = len(self.way) + len(self.there or ())
            check(self.page, f"walk-{self.name}-{done}-{self.language}")

    def _use(self, found: Locator, name: str) -> None:
        found.wait_for()
        (self.way if self.there is None else self.there).append(name)

    def named(self, role: Any, text: str, **values: str) -> Locator:
        """Return the element with that name, with a count or without."""
        name = re.escape(self.text(text, **values))
        wanted = re.compile(rf"^\W*{name}\W*(\(\d+\))?$", re.IGNORECASE)
        return self.content.get_by_role(role, name=wanted).first

    def follow(self, text: str, **values: str) -> None:
        """Click a link or button that leads to another page."""
        link = self.named("link", text, **values)
        self._use(link, capfirst(text % values))
        with self.page.expect_navigation():
            link.click()
        self.look()

    def send(self, text: str, **values: str) -> None:
        """Press a button that sends a form."""
        button = self.named("button", text, **values)
        self._use(button, text % values)
        with self.page.expect_navigation():
            button.click()
        self.look()

    def follow_tool(self, name: str) -> None:
        """Click the name of a tool; its title may be beside it."""
        link = self.content.get_by_role("link", name=name).first
        self._use(link, name)
        with self.page.expect_navigation():
            link.click()
        self.look()

    def tick(self, text: str, **values: str) -> None:
        label = capfirst(self.text(text, **values))
        box = self.content.get_by_label(label).first
        self._use(box, capfirst(text % values))
        box.check()

    def sees(self, text: str) -> None:
        self.content.get_by_text(self.text(text)).first.wait_for()

    def is_told(self, text: str, action: str = "", model: str = "") -> bool:
        """
        Return whether this user may not decide; only such a user sees the text.

        ``action`` and ``model`` name the permission in the text, if it has one.
        """
        permission = {"permission": self.text(action, model=model)} if action else {}
        told = self.content.get_by_text(self.text(text, **permission))
        if self.may_decide:
            assert told.count() == 0
            return False
        told.first.wait_for()
        self.told = text % {"permission": action % {"model": model}}
        return True

    def lacks(self, role: Any, text: str, **values: str) -> bool:
        """Return whether this user lacks an element, which only those who may decide have."""
        found = self.named(role, text, **values)
        self.is_barred = not self.may_decide
        assert (found.count() == 0) is self.is_barred
        return self.is_barred


CANNOT_CHANGE = (
    "You can view tools but not change them (requires “%(permission)s”).",
    "Can change %(model)s",
    "tool",
)


def see_the_tools(walk: Walk) -> None:
    walk.follow("tools")
    walk.follow_tool("articles_delete")
    walk.arrive()
    walk.sees("Behaviour and access")


def switch_a_tool(walk: Walk) -> None:
    walk.follow("tools")
    walk.arrive()
    if walk.is_told(*CANNOT_CHANGE):
        return
    tool = ToolSetting.objects.get(name="comments_list")
    switch = walk.named("switch", "%(name)s is enabled", name=tool.name)
    walk._use(switch, f"{tool.name} is enabled")
    switch.uncheck()
    undo = walk.page.get_by_role("button", name=walk.text("Undo"))
    undo.wait_for()
    tool.refresh_from_db()
    assert not tool.enabled
    walk.look()
    walk._use(undo, "Undo")
    with walk.page.expect_response(re.compile("/switch/")):
        undo.click()
    tool.refresh_from_db()
    assert tool.enabled


def limit_a_tool(walk: Walk) -> None:
    walk.follow("tools")
    walk.follow_tool("sections_list")
    walk.arrive()
    if walk.is_told(*CANNOT_CHANGE):
        return
    walk.tick("only for groups")
    walk.tick("editor")
    walk.send("Save")
    tool = ToolSetting.objects.get(name="sections_list")
    assert (tool.restricted, [each.name for each in tool.groups.all()]) == (True, ["editor"])


def approve_a_change(walk: Walk) -> None:
    walk.follow("tools")
    walk.follow_tool("articles_unpublish")
    walk.arrive()
    walk.sees("Changes since the last approval")
    if walk.is_told("You cannot approve it (requires permission to change tools)."):
        return
    walk.send("Approve %(original)s as it is now", original="articles_unpublish")
    assert ToolSetting.objects.get(name="articles_unpublish").approved_by is not None


def approve_new_tools(walk: Walk) -> None:
    walk.follow("tools")
    walk.follow("Review them on one page.")
    walk.arrive()
    if walk.is_told("You cannot approve them (requires permission to change tools)."):
        return
    walk.tick("Select %(name)s", name="comments_add")
    walk.tick("Select %(name)s", name="media_upload")
    walk.send("Approve selected")
    assert not ToolSetting.objects.filter(fingerprint="").exists()


def try_a_tool(walk: Walk) -> None:
    walk.follow("tools")
    walk.follow_tool("statistics_chart")
    walk.follow("Try it")
    walk.arrive()
    walk.send("Run the call")
    walk.content.locator(".mcp-result canvas").wait_for()


def decide_on_a_call(walk: Walk) -> None:
    walk.follow("pending calls")
    walk.follow_tool("articles_delete")
    walk.arrive()
    if walk.is_told(
        "You can view it but not decide on it (requires “%(permission)s”).",
        "Can change %(model)s",
        "pending call",
    ):
        return
    walk.send("Approve")
    assert PendingCall.objects.get().status == PendingCall.Status.APPROVED


def see_what_failed(walk: Walk) -> None:
    walk.follow("calls")
    walk.arrive()
    row = walk.content.locator("#result_list tbody tr").filter(has_text="no-such-article").first
    text = row.inner_text()
    assert re.search(r"\d:\d\d:\d\d", text)
    for part in ("articles_get", "author", "There is no article"):
        assert part in text


def see_why_a_call_was_refused(walk: Walk) -> None:
    walk.follow("calls")
    rows = walk.content.locator("#result_list tbody tr").filter(has_text="articles_delete")
    link = rows.filter(has_text="author").first.locator(".field-shown_time a")
    walk._use(link, "its time")
    with walk.page.expect_navigation():
        link.click()
    walk.arrive()
    walk.look()
    walk.sees("Why it was refused")


def connect_a_client(walk: Walk) -> None:
    walk.follow("tokens")
    if walk.is_told(
        "You cannot issue tokens here (requires “%(permission)s”).",
        "Can add %(model)s",
        "token",
    ):
        return
    walk.follow("Add %(name)s", name="token")
    walk.arrive()
    walk.content.get_by_label(capfirst(walk.text("name")), exact=False).first.fill("Laptop")
    walk.send("Save")
    walk.sees("Connect a client with it")
    tab = walk.content.get_by_role("tab", name="Claude Code")
    walk._use(tab, "Claude Code")
    tab.click()
    assert Token.objects.get(name="Laptop").is_valid


def set_a_rate(walk: Walk) -> None:
    walk.follow("tools")
    walk.follow_tool("articles_search")
    walk.arrive()
    if walk.is_told(*CANNOT_CHANGE):
        return
    walk.content.get_by_label(capfirst(walk.text("rate"))).fill("20/min")
    walk.send("Save")
    assert ToolSetting.objects.get(name="articles_search").rate == "20/min"


def export_the_calls(walk: Walk) -> None:
    walk.follow("calls")
    walk.arrive()
    link = walk.named("link", "Export as CSV")
    walk._use(link, "Export as CSV")
    with walk.page.expect_download() as download:
        link.click()
    lines = Path(download.value.path()).read_text("utf-8-sig").splitlines()
    assert any("no-such-article" in line for line in lines)


def see_what_a_user_sees(walk: Walk) -> None:
    walk.follow("tools")
    walk.follow("Preview as a user")
    walk.arrive()
    walk.content.get_by_role("searchbox").fill("author")
    walk.send("Find")
    walk.follow("author")
    row = walk.content.get_by_role("row").filter(has_text="articles_delete")
    assert walk.text("no") in row.inner_text()


def revoke_a_token(walk: Walk) -> None:
    walk.follow("tokens")
    walk.arrive()
    revoke = "Revoke %(token)s", str(Token.objects.get(name="Tablet"))
    if walk.lacks("link", revoke[0], token=revoke[1]):
        return
    link = walk.named("link", revoke[0], token=revoke[1])
    walk._use(link, "Revoke")
    with walk.page.expect_navigation():
        link.click()
    walk.look()
    walk.send("Revoke")
    assert not Token.objects.get(name="Tablet").is_valid


def describe_a_scope(walk: Walk) -> None:
    walk.follow("scopes")
    walk.arrive()
    if walk.lacks("link", "news:write"):
        return
    walk.follow("news:write")
    walk.content.get_by_label(capfirst(walk.text("description"))).fill("Write for the front page.")
    walk.send("Save")
    assert Scope.objects.get().description == "Write for the front page."


# In the order of the documentation.
TASKS: list[Callable[[Walk], None]] = [
    see_the_tools,
    switch_a_tool,
    limit_a_tool,
    approve_a_change,
    approve_new_tools,
    try_a_tool,
    decide_on_a_call,
    see_what_failed,
    see_why_a_call_was_refused,
    connect_a_client,
    set_a_rate,
    export_the_calls,
    see_what_a_user_sees,
    revoke_a_token,
    describe_a_scope,
]


@pytest.fixture
def busy_newsroom(newsroom: None, live_server: Any, settings: Any) -> None:
    """The newsroom with pending decisions and with records to read."""
    cache.clear()
    users = get_user_model().objects
    users.filter(username="admin").update(is_superuser=True)
    for name, codenames in PEOPLE.items():
        if codenames:
            user = users.create_user(name, is_staff=True)
            user.groups.set(users.get(username="reader").groups.all())
            user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    two_weeks_of_calls()
    author = MCPClient(user=users.get(username="author"))
    with suppress(MCPError):
        author.call_tool("articles_delete", {"slug": "harbour"})
    author.call_tool("articles_get", {"slug": "no-such-article"})
    Editor(live_server).waits(Article.objects.filter(status="draft").latest("pk"))
    change_the_definition_of("articles_unpublish", "Take an article off the page.")
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "NEW_TOOLS": "disabled"}
    new = ToolSetting.objects.filter(name__in=["comments_add", "media_upload"])
    new.update(fingerprint="", approved="")
    Token.objects.issue(user=users.get(username="author"), name="Tablet")


@pytest.mark.parametrize(("name", "width", "language"), WALKS)
def test_each_task_is_three_clicks_away(
    busy_newsroom: None, visit: Visit, name: str, width: int, language: str
) -> None:
    page = visit("/admin/", name, width=width, locale=language)
    check(page, f"walk-{name}-index-{language}")
    Walk.checked, rows = set(), documented()
    assert len(rows) == len(TASKS)
    for row, task in zip(rows, TASKS, strict=True):
        page.goto(page.url.split("/admin/")[0] + "/admin/")
        walk = Walk(page, language, f"{name}-{task.__name__}", may_decide=name != "viewer")
        task(walk)
        assert len(walk.way) <= MOST_CLICKS
        if name == "viewer":
            assert walk.told == row.told
        if walk.told or walk.is_barred:
            assert walk.way == row.way[: len(walk.way)]
        else:
            assert (walk.way, walk.there) == (row.way, row.there)


# Whether the focused element looks different from its state without focus.
IS_MARKED = """() => {
    const used = document.activeElement;
    const look = () => ["outline", "boxShadow", "borderColor", "backgroundColor",
        "textDecoration", "color"].map((name) => getComputedStyle(used)[name]).join();
    const focused = look();
    used.blur();
    const blurred = look();
    used.focus({ focusVisible: true });
    return focused !== blurred;
}"""
FOCUSED = "document.activeElement.textContent.trim() || document.activeElement.name"


class Keys:
    """A counter of pressed keys that checks that the focus is visible."""

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.count += 1

    def go_to(self, name: str) -> None:
        """Press Tab until an element with that name has the focus."""
        while True:
            self.press("Tab")
            assert self.page.evaluate(IS_MARKED), self.page.evaluate(FOCUSED)
            if name in self.page.evaluate(FOCUSED):
                return
            assert self.count < MOST_KEYS, self.page.evaluate(FOCUSED)

    def enter(self) -> None:
        with self.page.expect_navigation():
            self.press("Enter")


@pytest.mark.parametrize("first", ["/admin/mcp_bridge/", LIST])
def test_tool_is_fifteen_keys_away(busy_newsroom: None, visit: Visit, first: str) -> None:
    page = visit(first)
    keys = Keys(page)
    keys.go_to("Skip to main content")
    keys.press("Enter")
    keys.go_to("q")
    # The letters of the word are not counted.
    page.keyboard.type("headlines")
    keys.enter()
    keys.go_to("articles_headlines")
    keys.enter()
    page.get_by_role("heading", name="Behaviour and access").wait_for()
    assert keys.count <= MOST_KEYS

"""The pages in another language: all their texts are translated, and texts for models are not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.urls import include, path, reverse
from django.utils import timezone
from modernrpc.server import RpcServer
from pydantic import Field

from mcp_bridge import ToolError, mcp_tool
from mcp_bridge.confirmation.decisions import refuse
from mcp_bridge.models import PendingCall, Scope, ToolCallRecord, ToolSetting
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.records.rows import flush
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.serving import route
from mcp_bridge.tokens.models import Token
from tests.support.administrator import Administrator, shown_by
from tests.support.marked import bracketed, unmarked, write_catalogue

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the catalogue of the made-up language."""
    made = tmp_path_factory.mktemp("locale")
    write_catalogue(made)
    return made


@mcp_tool(title="Shout", destructive=True)
def shout(
    word: Annotated[str, Field(max_length=20, description="A word.")],
    times: Annotated[int, Field(ge=1, le=9)] = 1,
    kind: Literal["loud", "low"] | None = None,
    tags: list[str] | None = None,
    day: date | None = None,
    at: datetime | None = None,
    more: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Shout a word."""
    raise ToolError("No.")


@mcp_tool(read_only=True, idempotent=True, public=True, task=True)
def look(word: str, sizes: list[int] | None = None) -> Annotated[str, Field(min_length=1)]:
    """Look at a word."""
    return word


@mcp_tool(title="Wipe", confirm=True, permissions=["auth.delete_user"])
def wipe(word: str) -> str:
    """Wipe a word."""
    return word


# Names of the tools, people and clients below, of programs and formats.
DATA = (
    *("shout", "look", "wipe", "gone_tool", "Shout", "Look", "Wipe"),
    *("Shout a word.", "Look at a word.", "Wipe a word.", "A word."),
    *("ada", "bob", "administrator", "Editors", "Laptop", "Laptop (mcp_", "No.", "articles:write"),
    *("MCP", "OAuth", "CSV", "JSON", "ms", "UTC", "en", "20/min", "curl"),
    *("Claude Code", "Claude Desktop", "Cursor", "VS Code", "Codex CLI", "Gemini CLI"),
    *("MCP Inspector", "Claude", "claude.ai", "Tests", "rpc (1)"),
    *("auth.delete_user", "Other.", "Newsroom", "mcp_bridge.testing", "a", "b", "c"),
    # Formats and types of JSON Schema, and an example of one.
    *("date", "date-time", "2026-01-31T12:00:00Z", "object"),
    # Errors that models read.
    *("Input should be an object", "Input should be a valid string", "loud", "low", "null"),
    # Texts that Django and django-oauth-toolkit do not translate themselves.
    *("Search", "True", "False", "Applications", "Django Toolkit"),
    *("word", "times", "kind", "tags", "day", "at", "more", "sizes", "tests"),
)


SOURCE = f"tests/pages/{Path(__file__).name}"


class Pages:
    """An administrator who reads all pages in the made-up language."""

    def __init__(self, settings: Any) -> None:
        server = RpcServer(register_system_procedures=False)
        for function in (shout, look, wipe):
            server.register_procedure(function)
        own = include("mcp_bridge.tokens.urls")
        route(settings, path("rpc", server.view), path("admin/", admin.site.urls), path("", own))
        self.administrator = Administrator()
        users = get_user_model().objects
        self.ada, self.bob = users.create_user("ada"), users.create_user("bob", is_staff=True)
        self.group = Group.objects.create(name="Editors")
        self.group.user_set.add(self.ada)
        self.group.permissions.add(Permission.objects.get(codename="delete_user"))
        # The rows of the newsroom, which exist if its tables were created.
        ToolSetting.objects.all().delete()
        ToolSetting.objects.create(name="gone_tool", fingerprint="another")
        self.administrator.get("changelist")
        self.caller = MCPClient(user=self.administrator.user)
        self.caller.call_tool("look", {"word": "tests"})
        self.caller.call_tool("shout", {"word": "tests"})
        self.caller.call_tool("shout", {"word": 1})
        for word in ("a", "b", "c"):
            assert MCPClient(user=self.ada).call_tool("wipe", {"word": word})["isError"]
        flush()
        waiting = PendingCall.objects.order_by("pk")
        waiting.filter(pk=waiting[1].pk).update(fingerprint="another")
        self.token, _secret = Token.objects.issue(user=self.ada, name="Laptop")

    def check(self, address: str, *, status: int = 200, data: Any = None) -> str:
        browser = self.administrator.browser
        if data is None:
            response = browser.get(address, follow=True)
        else:
            response = browser.post(address, data, follow=True)
        assert response.status_code == status, (address, response.status_code)
        text = str(response.content.decode())
        assert "⟦" in text
        errors = ToolCallRecord.objects.values_list("error_text", flat=True)
        more = [self.token.hint, f"{self.token.hint}…", SOURCE, *filter(None, errors)]
        more += [f"({key[:6]}…)" for key in McpTask.objects.values_list("pk", flat=True)]
        assert unmarked(text, (*DATA, *more)) == set(), address
        return text


@pytest.fixture
def pages(settings: Any, folder: Path) -> Iterator[Pages]:
    made = Pages(settings)
    with bracketed(folder):
        yield made


def of(name: str, *args: object) -> str:
    return reverse(f"admin:{name}", args=args)


def test_front_page_and_lists_are_translatable(pages: Pages) -> None:
    pages.check(of("app_list", "mcp_bridge"))
    for model in ("toolsetting", "pendingcall", "toolcallrecord", "scope"):
        pages.check(of(f"mcp_bridge_{model}_changelist"))
    pages.check(of("mcp_bridge_tokens_token_changelist"))
    pages.check(of("mcp_bridge_oauth_clientuse_changelist"))
    ToolCallRecord.objects.all().delete()
    PendingCall.objects.all().delete()
    ToolSetting.objects.all().delete()
    Token.objects.all().delete()
    pages.check(of("app_list", "mcp_bridge"))
    for model in ("toolsetting", "pendingcall", "toolcallrecord", "scope"):
        pages.check(of(f"mcp_bridge_{model}_changelist"))


def test_tool_pages_are_translatable(pages: Pages) -> None:
    tools = {each.name: each.pk for each in ToolSetting.objects.all()}
    for name, key in tools.items():
        pages.check(of("mcp_bridge_toolsetting_change", key))
        pages.check(of("mcp_bridge_toolsetting_try", key))
        # Changes are shown in a message and in the history.
        page = of("mcp_bridge_toolsetting_change", key)
        shown = {"_revision": shown_by(pages.administrator.browser, page)}
        values = {"rate": "5/day", "confirm": "on", "restricted": "on", "title": "Look"}
        pages.check(page, data=values | shown)
        # Concurrent changes and the user's own input, and values that were never shown.
        pages.check(page, data={"note": "Look", **shown})
        pages.check(page, data={})
        shown = {"_revision": shown_by(pages.administrator.browser, page)}
        pages.check(page, data={"rate": "much", **shown})
        pages.check(of("mcp_bridge_toolsetting_history", key))
        assert name
    pages.check(of("mcp_bridge_toolsetting_delete", tools["gone_tool"]))
    ToolSetting.objects.filter(name="shout").update(fingerprint="another", enabled=True)
    changed = json.dumps({"description": "Other.", "inputSchema": {"properties": {}}})
    ToolSetting.objects.filter(name="wipe").update(fingerprint="another", approved=changed)
    pages.check(of("mcp_bridge_toolsetting_waiting"))
    pages.check(of("mcp_bridge_toolsetting_change", tools["wipe"]))
    for data in ({}, {"tool": ["0 wipe"]}):
        pages.check(of("mcp_bridge_toolsetting_waiting"), data=data)
    pages.check(of("mcp_bridge_toolsetting_approve", tools["wipe"]), data={"fingerprint": "0"})
    chosen = {"_selected_action": list(tools.values())}
    page, keys = of("mcp_bridge_toolsetting_changelist"), list(tools.values())
    rows: dict[str, Any] = {"form-TOTAL_FORMS": 2, "form-INITIAL_FORMS": 2, "_save": "Save"}
    rows |= {"form-0-id": keys[0], "form-1-id": keys[1], "form-1-enabled": "on"}
    ToolSetting.objects.filter(pk__in=keys[:2]).update(enabled=False)
    pages.check(page, data=rows | {"initial-form-0-enabled": "True"})
    for action in ("switch_on", "switch_off"):
        data = {"action": action, **chosen}
        pages.check(of("mcp_bridge_toolsetting_changelist"), data=data)


def test_trial_pages_are_translatable(pages: Pages) -> None:
    for name, typed in (
        ("look", {"word": "tests"}),
        ("look", {"word": "tests", "sizes": "x"}),
        ("shout", {"word": "tests", "more": "{"}),
        ("shout", {"word": "tests", "more": "[]", "_confirmed": "1"}),
        ("shout", {"word": "tests"}),
        ("shout", {"word": "tests", "_confirmed": "1"}),
    ):
        key = ToolSetting.objects.get(name=name).pk
        data = {each if each[0] == "_" else f"arguments-{each}": typed[each] for each in typed}
        pages.check(of("mcp_bridge_toolsetting_try", key), data=data)


def test_preview_and_candidate_pages_are_translatable(pages: Pages) -> None:
    address = of("mcp_bridge_toolsetting_sees")
    for query in ("", "?nobody=1", "?q=b", "?q=zz", f"?user={pages.ada.pk}", "?q=bob"):
        pages.check(address + query)
    pages.check(f"{address}?group={pages.group.pk}")
    pages.check(of("mcp_bridge_toolsetting_candidates"))
    pages.check(of("mcp_bridge_toolsetting_switch_on"), data={})


def test_pending_call_pages_are_translatable(pages: Pages) -> None:
    keys = list(PendingCall.objects.order_by("pk").values_list("pk", flat=True))
    for key in keys:
        pages.check(of("mcp_bridge_pendingcall_change", key))
    pages.check(of("mcp_bridge_pendingcall_decide"))
    pages.check(of("mcp_bridge_pendingcall_decide"), data={})
    pages.check(of("mcp_bridge_pendingcall_delete", keys[0]))
    for status in ("waiting", "aside", "approved", "refused", "done", "all"):
        pages.check(of("mcp_bridge_pendingcall_changelist") + f"?status={status}")
    address = of("mcp_bridge_pendingcall_change", keys[0])
    for data in ({}, {"_refuse": "1"}, {"_approve": "1"}, {"_approve": "1"}):
        pages.check(address, data=data)
    pages.check(address)
    pages.check(of("mcp_bridge_pendingcall_history", keys[0]))
    last = of("mcp_bridge_pendingcall_change", keys[2])
    pages.check(last, data={"_refuse": "1", "reason": "No."})
    pages.check(last)
    pages.check(of("mcp_bridge_pendingcall_changelist") + "?status=all")


def test_call_log_pages_are_translatable(pages: Pages) -> None:
    address = of("mcp_bridge_toolcallrecord_changelist")
    for key in ToolCallRecord.objects.values_list("pk", flat=True):
        pages.check(of("mcp_bridge_toolcallrecord_change", key))
    for query in ("when=today", "when=week", "outcome=failed", "tool=look", "q=" + "a " * 30):
        pages.check(f"{address}?{query}")
    for query in ("when=x", "since=x", "outcome=x", "error_code__exact=invalid", "p=99", "x=1"):
        pages.check(f"{address}?{query}")


def test_task_pages_are_translatable(pages: Pages) -> None:
    follower = MCPClient(user=pages.ada, capabilities={"extensions": {TASKS: {}}})
    first = follower.call_tool("look", {"word": "tests"})["taskId"]
    second = follower.call_tool("look", {"word": "tests", "sizes": [1]})["taskId"]
    now = timezone.now()
    McpTask.objects.filter(pk=second).update(started_at=now, seen_at=now - timedelta(hours=1))
    page, address = of("mcp_bridge_tasks_mcptask_changelist"), "mcp_bridge_tasks_mcptask_{}".format
    pages.check(page)
    pages.check(of("app_list", "mcp_bridge_tasks"))
    for _ in range(2):
        for name in ("change", "history"):
            pages.check(of(address(name), quote(first)))
        pages.check(of(address("cancel"), quote(first)), data={})
    data = {"action": "cancel", "_selected_action": [first, second]}
    pages.check(page, data=data)
    pages.check(f"{page}?status__exact=working")


def test_token_pages_are_translatable(pages: Pages) -> None:
    for name in ("change", "connect", "revoke", "history", "delete"):
        pages.check(of(f"mcp_bridge_tokens_token_{name}", pages.token.pk))
    pages.check(of("mcp_bridge_tokens_token_add"))
    pages.check(of("mcp_bridge_tokens_token_add"), data={})
    issued = {"user": pages.ada.pk, "name": "Laptop", "expires_at_0": "", "expires_at_1": ""}
    pages.check(of("mcp_bridge_tokens_token_add"), data=issued)
    pages.check(of("mcp_bridge_tokens_token_revoke", pages.token.pk), data={})
    pages.check(of("mcp_bridge_tokens_token_revoke", pages.token.pk))
    own = reverse("mcp-tokens")
    pages.check(own)
    pages.check(own, data={"name": "Laptop", "days": "30"})
    pages.check(own, data={"name": ""}, status=400)


def test_scope_pages_are_translatable(pages: Pages) -> None:
    pages.check(of("mcp_bridge_scope_add"))
    pages.check(of("mcp_bridge_scope_add"), data={"name": "a b"})
    scope = Scope.objects.create(name="articles:write", description="Laptop")
    for name in ("change", "history", "delete"):
        pages.check(of(f"mcp_bridge_scope_{name}", scope.pk))


def test_texts_for_models_and_clients_stay_english(pages: Pages) -> None:
    caller, other = pages.caller, MCPClient(user=pages.ada)
    answers = [
        caller.list_tools(),
        caller.call_tool("look", {"word": "tests"}),
        caller.call_tool("look", {"word": 1}),
        caller.call_tool("shout", {"word": "tests"}),
        other.call_tool("wipe", {"word": "d"}),
    ]
    ToolSetting.objects.filter(name="shout").update(enabled=False)
    with pytest.raises(MCPError) as refused:
        caller.call_tool("shout", {"word": "tests"})
    answers.append(str(refused.value))
    pending = PendingCall.objects.first()
    assert pending is not None
    refuse(pending, pages.bob, "No.")
    answers.append(other.call_tool("wipe", {"word": "c"}))
    answers.append(MCPClient(user=pages.ada).call_tool("wipe", {"word": pending.arguments[-4]}))
    assert "⟦" not in json.dumps(answers, ensure_ascii=False)

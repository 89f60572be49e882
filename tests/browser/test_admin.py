"""The administrators' pages as a person uses them."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from playwright.sync_api import Page

from mcp_bridge.models import Scope, ToolSetting
from mcp_bridge.protocol.content import AudioContent, ImageContent
from mcp_bridge.registry.fingerprints import fingerprint
from mcp_bridge.testing import MCPClient
from mcp_bridge.tokens.models import Token
from tests.browser.conftest import PICTURES, SCHEMES, WIDTHS, check, missed_by_the_keyboard
from tests.support.administrator import serve_tools
from tests.support.serving import set_tool

Visit = Callable[..., Page]
LIST = "/admin/mcp_bridge/toolsetting/"
# Counts the colours of the image on a canvas.
COLOURS = """canvas => new Set(new Uint32Array(
    canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""


def tool(name: str) -> str:
    return f"{LIST}{ToolSetting.objects.get(name=name).pk}/"


def seen_by(username: str) -> set[str]:
    client = MCPClient(user=get_user_model().objects.get(username=username))
    return {each["name"] for each in client.list_tools()}


def change_the_definition_of(name: str, description: str = "Delete a draft.") -> None:
    """Pretend that the code had another definition when the tool was approved."""
    setting = ToolSetting.objects.get(name=name)
    approved = json.loads(setting.approved)
    approved["description"] = description
    approved["inputSchema"]["properties"]["slug"]["maxLength"] = 20
    setting.approved = json.dumps(approved, sort_keys=True)
    setting.fingerprint = fingerprint(setting.approved)
    setting.guarded = True
    setting.save()


def test_tool_is_disabled_and_enabled_in_its_row(visit: Visit) -> None:
    page = visit(LIST)
    switch = page.get_by_label("articles_delete is enabled")
    switch.uncheck()
    page.get_by_text("“articles_delete” is disabled").wait_for()
    assert "articles_delete" not in seen_by("admin")
    assert LogEntry.objects.filter(object_repr="articles_delete").count() == 1
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("“articles_delete” is enabled").wait_for()
    assert "articles_delete" in seen_by("admin")


def test_several_tools_are_disabled_at_once(visit: Visit) -> None:
    page = visit(LIST)
    for name in ("comments_add", "comments_list"):
        page.get_by_role("row", name=name).locator("input.action-select").check()
    page.get_by_label("Action:").select_option(label="Disable selected tools")
    page.locator("button[name=index]").click()
    page.get_by_text("2 tools were disabled.").wait_for()
    assert not {"comments_add", "comments_list"} & seen_by("admin")
    check(page, "switched-off")


def test_tool_is_restricted_to_a_group(visit: Visit) -> None:
    before = seen_by("author")
    page = visit(tool("sections_list"))
    page.get_by_label("Only for groups").check()
    page.get_by_label("editor").first.check()
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("“sections_list” is enabled for").wait_for()
    assert before - seen_by("author") == {"sections_list"}
    assert "sections_list" in seen_by("editor")


def test_changed_tool_is_reviewed_and_approved(visit: Visit) -> None:
    page = visit(LIST)
    change_the_definition_of("articles_delete")
    assert "articles_delete" not in seen_by("admin")
    page.reload()
    page.get_by_role("link", name="articles_delete").click()
    page.get_by_text("Delete a draft.").wait_for()
    check(page, "admin-change")
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("1 tool was approved.").wait_for()
    assert "articles_delete" in seen_by("admin")


def test_tool_with_a_nested_form_shows_an_image(visit: Visit) -> None:
    page = visit(tool("statistics_chart"))
    page.get_by_role("link", name="Try it").click()
    page.get_by_label("by", exact=False).first.select_option("month")
    page.get_by_label("period").fill('{"start": "2020-01-01", "end": "2030-01-01"}')
    check(page, "admin-try")
    page.get_by_role("button", name="Call").click()
    picture = page.get_by_role("img", name="Picture in block 1 of the result, image/png")
    picture.wait_for()
    assert picture.evaluate(COLOURS) > 2
    check(page, "admin-result")


def sounds() -> list[AudioContent | ImageContent]:
    """Return a second of silence, and an invalid image."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 1, 8000, 0, "NONE", ""))
        sound.writeframes(b"\x80" * 8000)
    return [AudioContent(file.getvalue(), "audio/wav"), ImageContent(b"\x89PNG", "image/png")]


def test_audio_is_played_and_invalid_image_is_labelled(visit: Visit, settings: Any) -> None:
    serve_tools(settings, sounds)
    visit(LIST).wait_for_load_state()
    page = visit(tool("sounds") + "try/")
    page.get_by_role("button", name="Call").click()
    page.get_by_text("This browser cannot show it.").wait_for()
    play = page.get_by_role("button", name="Sound in block 1 of the result")
    play.click()
    page.get_by_role("button", name="Sound in block 1 of the result", pressed=True).wait_for()
    page.get_by_role("button", name="Sound in block 1 of the result", pressed=False).wait_for()
    check(page, "admin-sound")


def test_token_is_limited_when_it_is_issued(visit: Visit) -> None:
    Scope.objects.create(name="articles:read", description="Read articles")
    page = visit("/admin/mcp_bridge_tokens/token/add/")
    page.get_by_label("Name:").fill("Laptop")
    page.get_by_label("articles:read: Read articles").check()
    page.locator("input[name=tools][value=articles_get]").check()
    # The form preselects the user who issues the token.
    assert page.locator("input[name=user]").input_value() != ""
    page.screenshot(path=PICTURES / "admin-token.png")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Copy it now").wait_for()
    token = Token.objects.get()
    assert (token.scope, token.tools) == ("articles:read", "articles_get")


def test_client_is_connected_with_a_new_token(visit: Visit) -> None:
    page = visit("/mcp/tokens/", "author")
    page.get_by_label("Name").fill("Laptop")
    page.get_by_role("button", name="Issue").click()
    page.get_by_role("heading", name="Connect a client with it").wait_for()
    assert page.get_by_role("tab").all_inner_texts()[:2] == ["Claude Code", "Claude Desktop"]
    assert page.locator("section[role=tabpanel]:visible").count() == 1
    page.get_by_role("tab", name="Claude Code").focus()
    page.keyboard.press("ArrowLeft")
    code = page.locator("section[role=tabpanel]:visible pre")
    assert code.inner_text().startswith("curl http://")
    page.get_by_role("button", name="Copy: curl").click()
    page.get_by_text("Copied").wait_for()
    page.get_by_label("Name").focus()
    page.evaluate("getSelection().removeAllRanges()")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    assert page.evaluate("navigator.clipboard.readText()") == code.inner_text()
    check(page, "tokens-issued")
    page.get_by_role("button", name="Revoke Laptop").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke Laptop").click()
    page.get_by_text("was revoked").wait_for()
    assert not Token.objects.get().is_valid


def test_destructive_tool_requires_confirmation(visit: Visit) -> None:
    page = visit(tool("articles_delete") + "try/")
    page.get_by_label("slug").fill("no-such-article")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("heading", name="Run articles_delete with these arguments?").wait_for()
    check(page, "admin-confirm")
    page.get_by_role("button", name="Run").click()
    page.locator(".mcp-result").wait_for()


def test_tools_of_another_user_are_previewed(visit: Visit) -> None:
    author = get_user_model().objects.get(username="author")
    page = visit(f"{LIST}sees/?user={author.pk}")
    rows = page.locator(".mcp-answers tbody tr")
    seen = rows.filter(has=page.get_by_role("cell", name="yes", exact=True))
    assert set(seen.locator("a").all_inner_texts()) == seen_by("author")
    assert "Lacks “Can delete article”." in rows.filter(has_text="articles_delete").inner_text()
    check(page, "admin-visible")


CALLED: list[tuple[str, dict[str, Any]]] = [
    ("articles_list", {"limit": 3}),
    ("articles_get", {"slug": "no-such-article"}),
    ("articles_get", {"slug": 5, "<script>": True}),
    ("articles_revise", {"slug": "no-such-article", "text": "x"}),
]
# Pages with content once tools were called.
FOLLOWED = {
    "admin-index": "/admin/",
    "admin-front": "/admin/mcp_bridge/",
    "admin-calls": "/admin/mcp_bridge/toolcallrecord/",
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_are_legible_and_accessible(visit: Visit, width: int, scheme: Any) -> None:
    admin = get_user_model().objects.get(username="admin")
    set_tool("articles_draft", scopes="articles:write")
    token, _ = Token.objects.issue(user=admin, name="Laptop")
    pages = {
        "admin-list": LIST,
        "admin-tool": tool("articles_draft"),
        "admin-try": tool("statistics_chart") + "try/",
        "admin-words": "/admin/mcp_bridge/scope/",
        "tokens": "/mcp/tokens/",
        "admin-tokens": "/admin/mcp_bridge_tokens/token/",
        "admin-token-connect": f"/admin/mcp_bridge_tokens/token/{token.pk}/connect/",
        "admin-visible": f"{LIST}sees/?user={admin.pk}",
    }
    for name, address in pages.items():
        check(visit(address, width=width, scheme=scheme), name)
    change_the_definition_of("articles_delete")
    check(visit(tool("articles_delete"), width=width, scheme=scheme), "admin-change")
    check(visit(LIST, width=width, scheme=scheme), "admin-waiting")
    check(visit(f"{LIST}waiting/", width=width, scheme=scheme), "admin-approve")
    client = MCPClient(user=admin)
    for name, arguments in CALLED:
        client.call_tool(name, arguments)
    for name, address in FOLLOWED.items():
        check(visit(address, width=width, scheme=scheme), name)


@pytest.mark.parametrize("width", WIDTHS)
def test_candidates_are_reviewed_and_enabled(visit: Visit, width: int, settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "EXPOSE": "all"}
    page = visit(f"{LIST}candidates/", width=width)
    check(page, "admin-candidates")
    assert missed_by_the_keyboard(page) == []
    page.get_by_label("desk_ping").check()
    page.get_by_role("button", name="Enable selected…").click()
    page.get_by_role("heading", name="desk_ping").wait_for()
    check(page, "admin-candidates-on")
    page.get_by_role("button", name="Enable these").click()
    page.locator(".messagelist").wait_for()
    assert ToolSetting.objects.get(name="desk_ping").enabled


@pytest.mark.parametrize("address", ["", "articles_draft", "statistics_chart"])
def test_every_control_is_reached_by_the_keyboard(address: str, visit: Visit) -> None:
    page = visit(LIST if not address else tool(address) + "try/" * (address != "articles_draft"))
    assert missed_by_the_keyboard(page) == []

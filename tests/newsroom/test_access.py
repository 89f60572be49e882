from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_bridge.protocol.revisions import REVISIONS
from mcp_bridge.testing import MCPError

PUBLIC = {"articles_headlines", "sections_list"}
READING = PUBLIC | {
    "articles_get",
    "articles_list",
    "articles_search",
    "authors_articles",
    "authors_list",
    "authors_retrieve",
    "comments_add",
    "comments_list",
    "desk_whoami",
    "media_list",
    "media_show",
    "statistics_chart",
    "statistics_table",
}
WRITING = READING | {
    "articles_draft",
    "articles_revise",
    "articles_submit",
    "authors_partial_update",
    "media_upload",
    "style_check",
    "style_measure",
    "wire_import",
}
EDITING = WRITING | {
    "articles_delete",
    "articles_publish",
    "articles_unpublish",
    "desk_brief",
    "moderation_comments",
    "moderation_hide",
    "newsroom_article_change",
    "newsroom_article_find",
    "newsroom_article_get",
    "newsroom_article_history",
    "newsroom_article_publish",
}
EVERYTHING = EDITING | {"archive_recount"}
UNMARKED = ["comments.hide", "desk.contacts", "desk.ping", "system.listMethods"]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("role", "names"),
    [
        (None, PUBLIC),
        ("reader", READING),
        ("author", WRITING),
        ("editor", EDITING),
        ("admin", EVERYTHING),
    ],
)
def test_each_role_sees_its_own_tools(
    desk: Callable[..., Any], role: str | None, names: set[str], revision: str
) -> None:
    assert set(desk(role, revision=revision).names()) == names


@pytest.mark.parametrize("role", [None, "reader", "author"])
def test_editors_tool_is_unknown_to_others(desk: Callable[..., Any], role: str | None) -> None:
    with pytest.raises(MCPError, match="Unknown tool: articles_publish"):
        desk(role).call_tool("articles_publish", {"slug": "anything"})


@pytest.mark.parametrize("procedure", UNMARKED)
def test_unmarked_procedures_are_not_tools(admin: Any, procedure: str) -> None:
    name = procedure.replace(".", "_")
    assert name not in admin.names()
    with pytest.raises(MCPError, match="Unknown tool"):
        admin.call_tool(name, {})


def test_tool_runs_as_its_caller(author: Any) -> None:
    me = author.value("desk_whoami")
    assert me["username"] == "author"
    assert me["roles"] == ["author"]
    assert me["author"] == "Alma Writer"
    assert me["revision"] == "2026-07-28"


def test_every_tool_and_argument_has_a_description(admin: Any) -> None:
    for tool in admin.list_tools():
        assert len(tool["description"]) > 15, tool["name"]
        assert tool["title"], tool["name"]
        for name, schema in tool["inputSchema"]["properties"].items():
            assert schema.get("description"), f"{tool['name']}: {name}"


def test_hints_distinguish_reading_from_deleting(admin: Any) -> None:
    tools = {tool["name"]: tool["annotations"] for tool in admin.list_tools()}
    assert tools["articles_list"]["readOnlyHint"] is True
    assert tools["articles_delete"]["destructiveHint"] is True
    assert tools["articles_publish"]["idempotentHint"] is True

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from testproject.newsroom.models import Article, Comment, Media

Rpc = Callable[..., Any]
REFUSED = -32098


@pytest.mark.parametrize("method", ["articles.headlines", "sections.list", "desk.ping"])
def test_open_procedure_needs_no_login(rpc: Rpc, method: str) -> None:
    assert "code" not in rpc(None, method)


@pytest.mark.parametrize("method", ["articles.list", "desk.whoami", "system.listMethods"])
def test_other_procedures_need_a_login(rpc: Rpc, method: str) -> None:
    assert rpc(None, method)["code"] == REFUSED


@pytest.mark.parametrize("method", ["desk.brief", "desk.contacts", "archive.recount"])
def test_readers_cannot_call_procedures_that_need_a_permission(rpc: Rpc, method: str) -> None:
    assert rpc("reader", method)["code"] == REFUSED


def test_readers_cannot_take_the_steps_of_editors(rpc: Rpc) -> None:
    slug = Article.objects.published().first().slug
    for step in ("submit", "publish", "unpublish", "delete"):
        assert "You may not" in rpc("reader", f"articles.{step}", slug=slug)["message"]
    assert "You may not" in rpc("reader", "articles.revise", slug=slug, title="Mine")["message"]
    assert Article.objects.published().filter(slug=slug).exists()


def test_dates_are_sent_and_received_as_text(rpc: Rpc) -> None:
    page = rpc("reader", "articles.list", published_from="2026-06-01", order="oldest")
    days = [article["published_at"] for article in page["articles"]]
    assert min(days) >= "2026-06-01"


def test_filters_arrive_unchanged(rpc: Rpc) -> None:
    found = rpc("editor", "articles.search", query="the", filters={"status": "draft"})
    assert {hit["status"] for hit in found["hits"]} == {"draft"}


def test_article_is_written_and_published(rpc: Rpc) -> None:
    body = "The light at the harbour mouth turns alone."
    drafted = rpc("editor", "articles.draft", title="Keeper retires", section="local", body=body)
    rpc("editor", "articles.submit", slug=drafted["slug"])
    assert rpc("editor", "articles.publish", slug=drafted["slug"])["status"] == "published"


def test_picture_is_a_content_block(rpc: Rpc) -> None:
    picture = Media.objects.first()
    shown = rpc("reader", "media.show", media=picture.pk)
    assert shown["mimeType"] == "image/png"
    assert base64.b64decode(shown["data"]) == bytes(picture.data)


def test_comment_is_written_and_hidden(rpc: Rpc) -> None:
    slug = Article.objects.published().first().slug
    comment = rpc("reader", "comments.add", article=slug, text="Well said.")
    assert rpc("editor", "comments.hide", comment=comment["id"]) is True
    assert Comment.objects.get(pk=comment["id"]).hidden


def test_asynchronous_procedure_is_served_as_well(rpc: Rpc) -> None:
    assert rpc("editor", "desk.brief")["articles"]["published"] > 100


def test_arguments_cannot_impersonate_another_user(rpc: Rpc) -> None:
    me = rpc("reader", "desk.whoami", mcp={"client_info": {"name": "somebody"}})
    assert (me["username"], me["client"]) == ("reader", None)


def test_administrators_see_the_contacts(rpc: Rpc) -> None:
    contacts = rpc("admin", "desk.contacts")
    assert {"byline": "Alma Writer", "email": "author@fairhaven.example"} in contacts


def test_value_that_json_cannot_hold_is_an_error(rpc: Rpc) -> None:
    from testproject.newsroom.encoding import RpcJsonEncoder

    with pytest.raises(TypeError, match="not JSON serializable"):
        RpcJsonEncoder().encode(object())

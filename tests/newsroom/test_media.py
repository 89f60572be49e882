from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any

import pytest

from mcp_bridge.protocol.revisions import REVISIONS
from testproject.newsroom.models import Article, Media
from testproject.newsroom.pictures import landscape

PICTURE = landscape(random.Random(1))
DATA = base64.b64encode(PICTURE).decode()
WORDS = {"title": "Dusk", "alt_text": "A low sun over hills"}


def image(result: dict[str, Any]) -> bytes:
    (block,) = result["content"]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    return base64.b64decode(block["data"])


@pytest.mark.parametrize("revision", REVISIONS)
def test_uploaded_picture_is_returned_as_an_image(desk: Callable[..., Any], revision: str) -> None:
    author = desk("author", revision=revision)
    uploaded = author.value("media_upload", data=DATA, **WORDS)
    assert uploaded["size"] == len(PICTURE)
    assert image(author.call_tool("media_show", {"media": uploaded["id"]})) == PICTURE


def test_uploaded_picture_belongs_to_its_article(author: Any) -> None:
    slug = Article.objects.published().first().slug
    uploaded = author.value("media_upload", data=DATA, article=slug, **WORDS)
    assert uploaded in author.value("media_list", article=slug)
    assert Media.objects.get(pk=uploaded["id"]).uploaded_by.get_username() == "author"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("no base64!", "not base64"),
        (base64.b64encode(b"<svg onload='alert(1)'/>").decode(), "not a PNG, JPEG or GIF"),
        (base64.b64encode(PICTURE + bytes(500_000)).decode(), "at most 500000"),
    ],
)
def test_files_other_than_small_pictures_are_refused(author: Any, data: str, reason: str) -> None:
    assert reason in author.complaint("media_upload", data=data, **WORDS)


def test_error_for_unknown_picture_says_how_to_find_one(reader: Any) -> None:
    assert "media_list" in reader.complaint("media_show", media=2**70)


def test_picture_is_as_secret_as_its_article(reader: Any, editor: Any) -> None:
    picture = Media.objects.select_related("article").first()
    Article.objects.filter(pk=picture.article.pk).update(status=Article.Status.DRAFT)
    reader.complaint("media_show", media=picture.pk)
    assert picture.pk not in [each["id"] for each in reader.value("media_list")]
    assert image(editor.call_tool("media_show", {"media": picture.pk})) == bytes(picture.data)

"""Pictures: listed, uploaded, and given back as images."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Any

from django.db.models import Q, QuerySet
from modernrpc import RpcNamespace, RpcRequestContext
from pydantic import Field

from mcp_bridge import ToolError, mcp_tool
from mcp_bridge.protocol.content import ImageContent
from testproject.newsroom.models import Article, Media
from testproject.newsroom.pictures import image_type
from testproject.newsroom.procedures.access import may
from testproject.newsroom.results import find_article, page_of

procedures = RpcNamespace()
MAX_BYTES = 500_000


@dataclass(frozen=True, slots=True)
class MediaData:
    """A picture without its bytes."""

    id: int
    title: str
    alt_text: str
    mime_type: str
    size: int
    article: str | None

    @classmethod
    def of(cls, media: Media) -> MediaData:
        return cls(
            id=media.pk,
            title=media.title,
            alt_text=media.alt_text,
            mime_type=media.mime_type,
            size=len(media.data),
            article=media.article.slug if media.article else None,
        )


def _visible_to(user: Any) -> QuerySet[Media]:
    # A picture is as secret as the article it belongs to.
    visible = Q(article__isnull=True) | Q(article__in=Article.objects.visible_to(user))
    return Media.objects.filter(visible).select_related("article")


@procedures.register_procedure(name="list", context_target="ctx")
@mcp_tool(
    title="List pictures",
    read_only=True,
    permissions="newsroom.view_media",
    scopes="news:read",
)
def list_media(
    article: str | None = None,
    page: Annotated[int, Field(ge=1)] = 1,
    *,
    ctx: RpcRequestContext,
) -> list[MediaData]:
    """
    List pictures, twenty a page, without their bytes; media_show gives the picture itself.

    :param article: Only pictures of the article with this slug.
    :param page: Which page, from 1.
    """
    media = _visible_to(ctx.request.user)
    if article is not None:
        media = media.filter(article__slug=article)
    return [MediaData.of(each) for each in page_of(media.order_by("pk"), page, 20)]


@procedures.register_procedure(name="show", context_target="ctx")
@mcp_tool(
    title="Look at a picture",
    read_only=True,
    permissions="newsroom.view_media",
    scopes="news:read",
)
def show_media(media: int, *, ctx: RpcRequestContext) -> ImageContent:
    """
    Look at one picture.

    :param media: The id of the picture, from media_list.
    :return: The picture as an image.
    """
    picture = _visible_to(ctx.request.user).filter(pk=media).first()
    if picture is None:
        raise ToolError(f"There is no picture {media}. Find its id with media_list.")
    return ImageContent(data=bytes(picture.data), mime_type=picture.mime_type)


@procedures.register_procedure(name="upload", context_target="ctx", auth=may("newsroom.add_media"))
@mcp_tool(
    title="Upload a picture",
    destructive=False,
    idempotent=False,
    permissions="newsroom.add_media",
    scopes="news:write",
)
def upload_media(
    title: Annotated[str, Field(min_length=1, max_length=100)],
    alt_text: Annotated[str, Field(min_length=1, max_length=200)],
    data: Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})],
    article: str | None = None,
    *,
    ctx: RpcRequestContext,
) -> MediaData:
    """
    Upload a PNG, JPEG or GIF picture of up to 500,000 bytes.

    :param title: What the picture is called in the archive.
    :param alt_text: What it shows, for people who cannot see it.
    :param data: The bytes of the picture, in base64.
    :param article: The slug of the article it belongs to.
    :return: The picture's id, which media_show takes, and what is known about it.
    """
    user = ctx.request.user
    picture = _decoded(data)
    media = Media(
        title=title,
        alt_text=alt_text,
        mime_type=image_type(picture),
        data=picture,
        article=find_article(article, user) if article else None,
        uploaded_by=user,
    )
    media.full_clean()
    media.save()
    return MediaData.of(media)


def _decoded(data: str) -> bytes:
    try:
        picture = base64.b64decode(data, validate=True)
    except (ValueError, binascii.Error):
        raise ToolError("data is not base64. Encode the bytes of the picture anew.") from None
    if len(picture) > MAX_BYTES:
        raise ToolError(f"The picture has {len(picture)} bytes; at most {MAX_BYTES} are accepted.")
    if image_type(picture) is None:
        raise ToolError("data is not a PNG, JPEG or GIF picture.")
    return picture

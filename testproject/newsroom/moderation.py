"""
The API of the people who look after comments, made with django-ninja: /moderation/comments.

It knows nothing of tools: the setting SOURCES names those of its operations that are some.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import NinjaAPI, Path, Query
from ninja.security import django_auth

from testproject.newsroom.models import Comment
from testproject.newsroom.procedures.comments import CommentData

api = NinjaAPI(title="Moderation", urls_namespace="moderation", auth=django_auth, docs_url=None)


@api.get("comments", response=list[CommentData])
def comments(
    request: HttpRequest,
    hidden: bool = Query(False, description="Those that are hidden, or those that are shown."),
    limit: int = Query(20, ge=1, le=100, description="How many at most."),
) -> list[CommentData]:
    """
    List the newest comments under all articles, newest first.

    For those who look after them: readers see the comments under one article.
    """
    found = Comment.objects.filter(hidden=hidden).select_related("article", "user")
    return [CommentData.of(each) for each in found.order_by("-created_at", "-pk")[:limit]]


@api.put("comments/{number}/hidden", response=CommentData)
def hide(
    request: HttpRequest,
    number: int = Path(ge=1, description="The comment's id."),
    hidden: bool = Query(True, description="Whether readers are not to see it."),
) -> CommentData:
    """Hide a comment from readers, or show it again; nothing is deleted."""
    comment = get_object_or_404(Comment.objects.select_related("article", "user"), pk=number)
    comment.hidden = hidden
    comment.save(update_fields=["hidden"])
    return CommentData.of(comment)

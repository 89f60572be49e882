"""
The steps of an article: draft, revise, submit, publish, unpublish, delete.

Every door (admin, /rpc, /mcp) goes through these functions, so each checks for itself whether the
user may take the step: PermissionDenied where not, ValidationError where the article is not ready.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify

from testproject.newsroom.models import Article, Author, Section

Status = Article.Status


def draft(user: Any, *, title: str, section: Section, body: str, **fields: Any) -> Article:
    """Save a new draft, signed by the user."""
    _require(user, "add_article", "write articles")
    author = Author.objects.filter(user=user).first()
    if author is None:
        raise ValidationError("You have no author profile to sign articles with.")
    article = Article(title=title, section=section, author=author, body=body, **fields)
    article.full_clean(exclude=["slug"])
    _save_with_free_slug(article)
    return article


def revise(user: Any, article: Article, **changes: Any) -> Article:
    """Change an article; authors change their own until it is published, editors any."""
    _require(user, "change_article", "revise articles")
    if not user.has_perm("newsroom.publish_article"):
        _require_own(user, article)
        if article.status == Status.PUBLISHED:
            raise ValidationError("Only an editor can revise what is published.")
    for name, value in changes.items():
        setattr(article, name, value)
    article.updated_at = timezone.now()
    article.full_clean()
    article.save()
    return article


def submit(user: Any, article: Article) -> Article:
    """Hand a draft to the editors; a second time changes nothing."""
    _require(user, "submit_article", "submit articles")
    if not user.has_perm("newsroom.publish_article"):
        _require_own(user, article)
    if article.status == Status.PUBLISHED:
        raise ValidationError("This article is already published.")
    return _move(article, Status.REVIEW)


def publish(user: Any, article: Article) -> Article:
    """Publish an article that is in review; a second time changes nothing."""
    _require(user, "publish_article", "publish articles")
    if article.status == Status.DRAFT:
        raise ValidationError("This article is still a draft: submit it for review first.")
    if article.status == Status.REVIEW:
        article.published_at = timezone.now()
    return _move(article, Status.PUBLISHED)


def unpublish(user: Any, article: Article) -> Article:
    """Take a published article off the site, back into review."""
    _require(user, "publish_article", "unpublish articles")
    if article.status != Status.PUBLISHED:
        raise ValidationError("This article is not published.")
    article.published_at = None
    return _move(article, Status.REVIEW)


def delete(user: Any, article: Article) -> None:
    """Delete an article and its comments for good, unless it is published."""
    _require(user, "delete_article", "delete articles")
    if article.status == Status.PUBLISHED:
        raise ValidationError("A published article cannot be deleted: unpublish it first.")
    article.delete()


def _require(user: Any, codename: str, deed: str) -> None:
    if not user.has_perm(f"newsroom.{codename}"):
        raise PermissionDenied(f"You may not {deed}.")


def _require_own(user: Any, article: Article) -> None:
    if article.author.user_id != user.pk:
        raise PermissionDenied("This article is by somebody else.")


def _move(article: Article, status: Article.Status) -> Article:
    if article.status != status:
        article.status = status
        article.updated_at = timezone.now()
        article.save()
    return article


def _save_with_free_slug(article: Article) -> None:
    stem = slugify(article.title)[:140].strip("-") or "article"
    for number in count(1):
        article.slug = stem if number == 1 else f"{stem}-{number}"
        if Article.objects.filter(slug=article.slug).exists():
            continue
        try:
            with transaction.atomic():
                return article.save()
        except IntegrityError:
            # Somebody took the slug between the look and the leap; anything else is an error.
            if not Article.objects.filter(slug=article.slug).exists():
                raise

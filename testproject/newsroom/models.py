"""What the newsroom keeps: sections, authors, articles, media and comments."""

from __future__ import annotations

import base64
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone


class Section(models.Model):
    name = models.CharField(max_length=60, unique=True)
    slug = models.SlugField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Author(models.Model):
    """Who signs articles: the profile of a user who writes."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="author")
    byline = models.CharField(max_length=100, unique=True)
    bio = models.TextField(blank=True)

    class Meta:
        ordering = ["byline"]

    def __str__(self) -> str:
        return self.byline


class ArticleQuerySet(models.QuerySet["Article"]):
    def published(self) -> ArticleQuerySet:
        return self.filter(status=Article.Status.PUBLISHED)

    def visible_to(self, user: Any) -> ArticleQuerySet:
        """What a user may read: what is published, one's own, and for editors everything."""
        if user.has_perm("newsroom.view_unpublished_article"):
            return self.all()
        if user.is_authenticated:
            return self.filter(Q(status=Article.Status.PUBLISHED) | Q(author__user=user))
        return self.published()


class Article(models.Model):
    """A story on its way from draft over review to published; see workflow.py for the steps."""

    class Status(models.TextChoices):
        DRAFT = "draft", "Draft"
        REVIEW = "review", "In review"
        PUBLISHED = "published", "Published"

    title = models.CharField(max_length=150)
    slug = models.SlugField(max_length=160, unique=True)
    section = models.ForeignKey(Section, models.PROTECT, related_name="articles")
    author = models.ForeignKey(Author, models.PROTECT, related_name="articles")
    summary = models.CharField(max_length=300, blank=True)
    body = models.TextField(help_text="Markdown.")
    tags = models.JSONField(default=list, blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.DRAFT)
    word_count = models.PositiveIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)
    published_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = ArticleQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "slug"]
        indexes = [models.Index(fields=["status", "-published_at"], name="article_by_publication")]
        permissions = [
            ("submit_article", "Can submit articles for review"),
            ("publish_article", "Can publish and unpublish articles"),
            ("view_unpublished_article", "Can read the unpublished articles of others"),
            ("recount_article", "Can recount the words of the archive"),
        ]

    def __str__(self) -> str:
        return self.title

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.word_count = len(self.body.split())
        super().save(*args, **kwargs)


class Media(models.Model):
    """A picture, kept in the database so that the example needs no media directory."""

    title = models.CharField(max_length=100)
    alt_text = models.CharField(max_length=200)
    mime_type = models.CharField(max_length=30)
    data = models.BinaryField()
    article = models.ForeignKey(
        Article, models.SET_NULL, null=True, blank=True, related_name="media"
    )
    uploaded_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["pk"]
        verbose_name_plural = "media"

    def __str__(self) -> str:
        return self.title

    @property
    def data_url(self) -> str:
        data = base64.b64encode(bytes(self.data)).decode("ascii")
        return f"data:{self.mime_type};base64,{data}"


class Comment(models.Model):
    article = models.ForeignKey(Article, models.CASCADE, related_name="comments")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    text = models.TextField(max_length=1000)
    hidden = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["created_at", "pk"]

    def __str__(self) -> str:
        return f"{self.user} on {self.article}"

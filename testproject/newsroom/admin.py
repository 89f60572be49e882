from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from testproject.newsroom import workflow
from testproject.newsroom.models import Article, Author, Comment, Media, Section

admin.site.site_header = "Newsroom"
admin.site.site_title = "Newsroom"


class CountsArticles:
    """A column with the number of articles, counted in the query of the page."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).annotate(article_count=Count("articles"))

    @admin.display(description="articles", ordering="article_count")
    def articles(self, row: Any) -> int:
        return row.article_count


@admin.register(Section)
class SectionAdmin(CountsArticles, admin.ModelAdmin):
    list_display = ["name", "description", "articles"]
    search_fields = ["name", "description"]
    prepopulated_fields = {"slug": ["name"]}


@admin.register(Author)
class AuthorAdmin(CountsArticles, admin.ModelAdmin):
    list_display = ["byline", "user", "articles"]
    list_select_related = ["user"]
    search_fields = ["byline", "user__username"]
    autocomplete_fields = ["user"]


class CommentInline(admin.TabularInline):
    model = Comment
    extra = 0
    autocomplete_fields = ["user"]


@admin.register(Article)
class ArticleAdmin(admin.ModelAdmin):
    list_display = ["title", "section", "author", "status", "word_count", "published_at"]
    list_filter = ["status", "section", "published_at", "author"]
    list_select_related = ["section", "author"]
    search_fields = ["title", "summary", "body", "author__byline"]
    date_hierarchy = "published_at"
    # The status changes by the actions only, so that no step of the workflow is skipped.
    readonly_fields = ["status", "word_count", "created_at", "updated_at", "published_at"]
    prepopulated_fields = {"slug": ["title"]}
    autocomplete_fields = ["section", "author"]
    inlines = [CommentInline]
    actions = ["submit", "publish", "unpublish"]

    @admin.action(description="Submit for review", permissions=["submit"])
    def submit(self, request: HttpRequest, queryset: QuerySet[Article]) -> None:
        self._take_step(request, queryset, workflow.submit)

    @admin.action(description="Publish", permissions=["publish"])
    def publish(self, request: HttpRequest, queryset: QuerySet[Article]) -> None:
        self._take_step(request, queryset, workflow.publish)

    @admin.action(description="Unpublish", permissions=["publish"])
    def unpublish(self, request: HttpRequest, queryset: QuerySet[Article]) -> None:
        self._take_step(request, queryset, workflow.unpublish)

    def has_submit_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("newsroom.submit_article")

    def has_publish_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("newsroom.publish_article")

    def _take_step(self, request: HttpRequest, queryset: QuerySet[Article], step: Any) -> None:
        for article in queryset:
            try:
                step(request.user, article)
            except ValidationError as error:
                reason = "; ".join(error.messages)
                self.message_user(request, f"{article}: {reason}", messages.ERROR)
            except PermissionDenied as error:
                self.message_user(request, f"{article}: {error}", messages.ERROR)
            else:
                self.message_user(request, f"{article}: {article.get_status_display().lower()}.")


@admin.register(Media)
class MediaAdmin(admin.ModelAdmin):
    list_display = ["title", "picture", "mime_type", "article", "uploaded_by", "created_at"]
    list_filter = ["mime_type", "created_at"]
    list_select_related = ["article", "uploaded_by"]
    search_fields = ["title", "alt_text", "article__title"]
    autocomplete_fields = ["article"]
    readonly_fields = ["picture", "mime_type", "uploaded_by", "created_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        # The bytes of a picture come by the procedure media.upload.
        return False

    @admin.display
    def picture(self, media: Media) -> SafeString:
        return format_html('<img src="{}" alt="{}" height="64">', media.data_url, media.alt_text)


@admin.register(Comment)
class CommentAdmin(admin.ModelAdmin):
    list_display = ["article", "user", "text", "hidden", "created_at"]
    list_filter = ["hidden", "created_at"]
    list_select_related = ["article", "user"]
    search_fields = ["text", "article__title", "user__username"]
    autocomplete_fields = ["article", "user"]
    actions = ["hide"]

    @admin.action(description="Hide from readers", permissions=["change"])
    def hide(self, request: HttpRequest, queryset: QuerySet[Comment]) -> None:
        hidden = queryset.update(hidden=True)
        self.message_user(request, f"{hidden} comments hidden.")

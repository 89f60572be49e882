from __future__ import annotations

from django.db import models
from wagtail.api import APIField
from wagtail.blocks import CharBlock, ListBlock, RichTextBlock, StructBlock
from wagtail.fields import StreamField
from wagtail.models import DraftStateMixin, Page, RevisionMixin
from wagtail.snippets.models import register_snippet


@register_snippet
class Place(DraftStateMixin, RevisionMixin, models.Model):
    name = models.CharField(max_length=50)

    api_fields = (APIField("name"),)


class StoryPage(Page):
    api_fields = (APIField("body"),)
    body = StreamField(
        [
            ("heading", CharBlock()),
            ("text", RichTextBlock()),
            ("people", StructBlock([("place", CharBlock()), ("names", ListBlock(CharBlock()))])),
        ]
    )

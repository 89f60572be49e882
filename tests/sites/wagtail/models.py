from __future__ import annotations

from wagtail.blocks import CharBlock, ListBlock, RichTextBlock, StructBlock
from wagtail.fields import StreamField
from wagtail.models import Page


class StoryPage(Page):
    body = StreamField(
        [
            ("heading", CharBlock()),
            ("text", RichTextBlock()),
            ("people", StructBlock([("place", CharBlock()), ("names", ListBlock(CharBlock()))])),
        ]
    )

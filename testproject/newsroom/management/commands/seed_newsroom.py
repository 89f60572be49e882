from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils.text import slugify

from testproject.newsroom.models import Article, Author, Comment, Media, Section
from testproject.newsroom.pictures import landscape
from testproject.newsroom.seeding.stories import Story, stories
from testproject.newsroom.seeding.texts import BEATS, COMMENTS
from testproject.newsroom.seeding.users import seed_authors, seed_users

Status = Article.Status
SEED = 2026
PICTURES = 12


class Command(BaseCommand):
    help = "Fill the newsroom with sections, users, articles, comments and pictures. Repeatable."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        rng = random.Random(SEED)
        users = seed_users()
        authors = seed_authors(users)
        sections = {beat.name: _section(beat.name, beat.description) for beat in BEATS}
        told = list(stories(rng))
        articles = [_article(rng, story, sections[story.beat.name], authors) for story in told]
        existing = set(Article.objects.values_list("slug", flat=True))
        new = [article for article in articles if article.slug not in existing]
        Article.objects.bulk_create(new)
        published = [article for article in articles if article.status == Status.PUBLISHED]
        comments = _comments(rng, published, list(users.values()))
        media = _media(rng, published[:PICTURES])
        # What belongs to an article comes and stays with it, so a second run adds nothing.
        added = {article.slug for article in new}
        comments = [comment for comment in comments if comment.article.slug in added]
        media = [picture for picture in media if picture.article.slug in added]
        Comment.objects.bulk_create(comments)
        Media.objects.bulk_create(media)
        if options["verbosity"]:
            self.stdout.write(
                f"Seeded {len(new)} articles, {len(comments)} comments, {len(media)} pictures; "
                f"there are {Article.objects.count()} articles now."
            )


def _section(name: str, description: str) -> Section:
    defaults = {"name": name, "description": description}
    return Section.objects.get_or_create(slug=slugify(name), defaults=defaults)[0]


def _article(rng: random.Random, story: Story, section: Section, authors: list[Author]) -> Article:
    published_at = story.written_at + timedelta(hours=rng.randrange(1, 48))
    return Article(
        title=story.title,
        slug=slugify(story.title),
        section=section,
        author=rng.choice(authors),
        summary=story.summary,
        body=story.body,
        tags=story.tags,
        status=story.status,
        word_count=len(story.body.split()),
        created_at=story.written_at,
        updated_at=published_at,
        published_at=published_at if story.status == Status.PUBLISHED else None,
    )


def _comments(rng: random.Random, articles: list[Article], users: list[Any]) -> list[Comment]:
    return [
        Comment(
            article=article,
            user=rng.choice(users),
            text=text,
            hidden=rng.random() < 0.1,
            created_at=article.published_at + timedelta(hours=rng.randrange(1, 72)),
        )
        for article in articles
        for text in rng.sample(COMMENTS, rng.randrange(0, 4))
    ]


def _media(rng: random.Random, articles: list[Article]) -> list[Media]:
    return [
        Media(
            title=f"Picture: {article.title}"[:100],
            alt_text="A low sun over the hills behind Fairhaven",
            mime_type="image/png",
            data=landscape(rng),
            article=article,
            created_at=article.published_at,
        )
        for article in articles
    ]

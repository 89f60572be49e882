"""Stories made of the phrases: the same seed always tells the same ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from testproject.newsroom.models import Article
from testproject.newsroom.seeding.texts import BEATS, DAYS, ENDINGS, MIDDLES, OPENINGS, Beat

STORIES_PER_BEAT = 40
# A fixed day, so that the seeded newsroom is the same whenever it is made.
LAST_DAY = datetime(2026, 6, 30, 18, 0, tzinfo=UTC)
STATUSES = (Article.Status.PUBLISHED, Article.Status.REVIEW, Article.Status.DRAFT)


@dataclass(frozen=True, slots=True)
class Story:
    beat: Beat
    title: str
    summary: str
    body: str
    tags: list[str]
    status: Article.Status
    written_at: datetime


def stories(rng: random.Random) -> Iterator[Story]:
    """Forty stories for each section, every headline another."""
    for beat in BEATS:
        headlines = [(subject, event) for subject in beat.subjects for event in beat.events]
        for subject, event in rng.sample(headlines, STORIES_PER_BEAT):
            yield _story(rng, beat, subject, event)


def _story(rng: random.Random, beat: Beat, subject: str, event: str) -> Story:
    paragraphs = [
        _sentence(rng, rng.choice(OPENINGS), beat, subject, event),
        *(_sentence(rng, middle, beat, subject, event) for middle in rng.sample(MIDDLES, 3)),
        _sentence(rng, rng.choice(ENDINGS), beat, subject, event),
    ]
    return Story(
        beat=beat,
        title=f"{subject} {event}",
        summary=f"{subject} {event}, according to {rng.choice(beat.sources)}.",
        body="\n\n".join(paragraphs),
        tags=sorted(rng.sample(beat.tags, 2)),
        status=rng.choices(STATUSES, weights=(7, 2, 1))[0],
        written_at=LAST_DAY - timedelta(minutes=rng.randrange(365 * 24 * 60)),
    )


def _sentence(rng: random.Random, phrase: str, beat: Beat, subject: str, event: str) -> str:
    source = rng.choice(beat.sources)
    people = rng.randrange(120, 2400)
    return phrase.format(
        subject=subject,
        event=event,
        source=source,
        Source=source[0].upper() + source[1:],
        people=people,
        People=people,
        months=rng.randrange(2, 10),
        day=rng.choice(DAYS),
    )

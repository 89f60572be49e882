"""The tools that ask the database: one that only reads, and one that acts."""

from __future__ import annotations

from django.contrib.auth.models import User

from benchmarks.site.models import Note


def count_users() -> int:
    """Count the users of the site."""
    return User.objects.count()


def note(text: str) -> int:
    """Keep a note, and return its length."""
    return len(Note.objects.create(text=text).text)

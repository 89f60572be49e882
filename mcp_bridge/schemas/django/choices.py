"""Django's choices: the values as ``enum``, the labels in the description."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.db.models import Choices
from django.utils.encoding import force_str
from django.utils.translation import override
from pydantic import Field

from mcp_bridge.schemas.adapters import Adapter
from mcp_bridge.schemas.hints import annotate


class ChoicesAdapter(Adapter):
    """TextChoices, IntegerChoices, and other subclasses of Choices."""

    def parameter(self, hint: object, metadata: tuple[object, ...]) -> object:
        if not (isinstance(hint, type) and issubclass(hint, Choices) and list(hint)):
            return None
        text = labels((each.value, each.label) for each in hint)
        return annotate(hint, Field(description=text), *metadata)


def labels(choices: Iterable[tuple[object, object]]) -> str:
    """Return values with their labels, as a sentence in the site's own language."""
    # A schema is built once, whichever language the first request asks for.
    with override(settings.LANGUAGE_CODE):
        return "; ".join(f"{value}: {force_str(label)}" for value, label in choices) + "."


def describe(texts: Iterable[object], choices: Iterable[tuple[object, object]] = ()) -> str | None:
    """Return texts, and the labels of choices where they differ from the values, as sentences."""
    sentences = [f"{str(text).rstrip('.')}." for text in texts if text]
    known = list(choices)
    if any(str(value) != str(label) for value, label in known):
        sentences.append(labels(known))
    return " ".join(sentences) or None

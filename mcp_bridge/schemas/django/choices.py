"""Django's choices: the values as ``enum``, the labels in the description."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from django.conf import settings
from django.db.models import Choices
from django.utils.encoding import force_str
from django.utils.translation import override
from pydantic import Field

from mcp_bridge.schemas.adapters import Adapter


class ChoicesAdapter(Adapter):
    """TextChoices, IntegerChoices, and other subclasses of Choices."""

    def parameter(self, hint: Any, metadata: tuple[Any, ...]) -> Any | None:
        if not (isinstance(hint, type) and issubclass(hint, Choices) and list(hint)):
            return None
        told = labels((each.value, each.label) for each in hint)
        return Annotated[(hint, Field(description=told), *metadata)]


def labels(choices: Iterable[tuple[Any, Any]]) -> str:
    """Values with their labels, as a sentence in the site's own language."""
    # A schema is built once, whoever asks first and in whatever language.
    with override(settings.LANGUAGE_CODE):
        return "; ".join(f"{value}: {force_str(label)}" for value, label in choices) + "."

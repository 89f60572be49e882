"""Lazy texts in results are texts in the language of the request."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isfunction
from typing import Any

import pytest
from django.db.models import TextChoices
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import giving
from tests.support.values import label

YES = _("Yes")


class Answer(TextChoices):
    YES = "y", _("Yes")
    NO = "n", _("No")


@dataclass
class Row:
    answer: str
    notes: dict[str, str]


# One-time iterators are created by a function.
LAZY: list[tuple[Any, Any, Any]] = [
    (Any, YES, "Ja"),
    (str, YES, "Ja"),
    (str | None, YES, "Ja"),
    (dict, {"a": [YES]}, {"a": ["Ja"]}),
    (dict[str, str], {YES: _("No")}, {"Ja": "Nein"}),
    (list[str], Answer.labels, ["Ja", "Nein"]),
    (list[tuple[str, str]], Answer.choices, [["y", "Ja"], ["n", "Nein"]]),
    (Row, Row(YES, {"a": YES}), {"answer": "Ja", "notes": {"a": "Ja"}}),
    (list[Row], lambda: iter([Row(Answer.NO.label, {})]), [{"answer": "Nein", "notes": {}}]),
    (str, format_lazy("{}!", YES), "Ja!"),
    (Any, lambda: {"a": (YES for _ in range(1))}, {"a": ["Ja"]}),
]


@pytest.mark.parametrize(("hint", "value", "expected"), LAZY, ids=label)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_lazy_texts_are_sent_in_the_requests_language(
    hint: Any,
    value: Any,
    expected: Any,
    asynchronous: bool,
    modern: CheckedClient,
    settings: Any,
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    value = value() if isfunction(value) else value
    serve(settings, giving(hint, value), asynchronous=asynchronous)
    modern.headers["Accept-Language"] = "de"
    answer = modern.call_tool("give")
    assert answer["isError"] is False, answer
    structured = answer["structuredContent"]
    assert structured == expected or structured == {"result": expected}


def test_other_unknown_values_are_not_sent(modern: CheckedClient, settings: Any) -> None:
    serve(settings, giving(Any, {"a": object()}))
    assert modern.call_tool("give")["isError"] is True

"""Convert values of rows and texts of pages to JSON values."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import unquote as percent_decoded

from django.contrib.admin.utils import lookup_field, unquote
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Manager, Model, QuerySet
from django.db.models.fields.files import FieldFile
from django.http import Http404
from django.urls import get_script_prefix, resolve

# Values that JSON has, or that are sent in their usual format.
_PLAIN: Final = (
    *(bool, int, float, decimal.Decimal, uuid.UUID),
    *(datetime.date, datetime.time, datetime.timedelta),
)
# The most rows of a relation, or items of a list.
_MOST: Final = 100


class _Text(HTMLParser):
    """The text of HTML, in which links to pages of rows are followed by model and key."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._rows: list[str] = []
        self._hidden = 0
        self.feed(html)
        self.close()

    def __str__(self) -> str:
        return " ".join("".join(self._parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "style"):
            self._hidden += 1
        elif tag == "a":
            admin, row = row_at(given.get("href") or "")
            self._rows.append(f"{admin.opts.label_lower} {row}" if admin and row else "")
        elif tag == "img":
            self._parts.append(given.get("alt") or "")
        elif tag in ("br", "p", "div", "li", "tr", "td"):
            self._parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._hidden -= 1
        elif tag == "a" and self._rows and (row := self._rows.pop()):
            self._parts.append(f" ({row})")

    def handle_data(self, data: str) -> None:
        if self._hidden <= 0:
            self._parts.append(data)


def row_at(address: str) -> tuple[Any, str | None]:
    """Return the ModelAdmin and the key of the row of a page, each None if there is none."""
    path = percent_decoded(address.partition("?")[0])
    try:
        match = resolve("/" + path.removeprefix(get_script_prefix()))
    except Http404:
        return None, None
    row = match.kwargs.get("object_id")
    return getattr(match.func, "model_admin", None), row and unquote(row)


def text_of(value: object) -> str:
    """Return a text, without tags if it is HTML."""
    return str(_Text(str(value))) if hasattr(value, "__html__") else str(value)


def plain(value: Any) -> Any:
    """Return a value as JSON: another row as key and text; infinity and HTML as their text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or type(value) is str or isinstance(value, _PLAIN):
        return value
    if isinstance(value, Model):
        return {"id": value.pk, "text": text_of(str(value))}
    if isinstance(value, FieldFile):
        return value.name or None
    if isinstance(value, Manager):
        value = value.all()
    if isinstance(value, QuerySet):
        value = list(value[:_MOST])
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return text_of(value)


def named(columns: Iterable[Any]) -> dict[str, Any]:
    """Return columns or read-only fields by name; functions of the same name are numbered."""
    found: dict[str, Any] = {}
    count: Counter[str] = Counter()
    for each in columns:
        # A partial lacks a name, and its text contains an address.
        name = str(getattr(each, "__name__", each if isinstance(each, str) else "function"))
        count[name] += 1
        found[name if count[name] == 1 else f"{name}_{count[name]}"] = each
    return found


def column(name: Any, row: Model, admin: Any) -> Any:
    """Return the value of a column or of a field that is shown read-only, as JSON."""
    try:
        _field, _attribute, value = lookup_field(name, row, admin)
    except (AttributeError, ValueError, ObjectDoesNotExist):
        # As Django's page: such a value is empty.
        return None
    return plain(value)

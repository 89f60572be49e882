"""Records as files: CSV for spreadsheets, JSON for programs, sent while they are read."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from mcp_bridge.models import ToolCallRecord

Rows = Iterable[tuple[object, ...]]

# All columns, the longest one last.
FIELDS: Final = sorted(
    (field.attname for field in ToolCallRecord._meta.concrete_fields),
    key=lambda name: name == "arguments",
)
# The characters with which spreadsheets begin a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class _Line:
    def write(self, line: str) -> str:
        return line


def as_csv(rows: Rows) -> Iterator[str]:
    """Yield rows of FIELDS as lines of CSV (RFC 4180), in which no text is a formula."""
    writer = csv.writer(_Line())
    yield writer.writerow(FIELDS)
    for row in rows:
        yield writer.writerow(map(_cell, row))


def as_json(rows: Rows) -> Iterator[str]:
    """Yield rows of FIELDS as a JSON array of objects, the arguments as the JSON that they are."""
    before = "["
    for *values, arguments in rows:
        record = dict(zip(FIELDS, [*values, json.loads(str(arguments or "null"))], strict=True))
        yield f"{before}\n{json.dumps(record, default=_text, ensure_ascii=False)}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _cell(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    text = _text(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


# The media type and the writer of each kind of file.
KINDS: Final[Mapping[str, tuple[str, Callable[[Rows], Iterator[str]]]]] = {
    "csv": ("text/csv", as_csv),
    "json": ("application/json", as_json),
}

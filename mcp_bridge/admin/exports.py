"""Records as files: CSV for spreadsheets, JSON for programs, sent while they are read."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from mcp_bridge.admin.call_filters import local_now
from mcp_bridge.confirmation.rendering import visible
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol.text import harmless

Rows = Iterable[tuple[object, ...]]

# All columns, the longest one last.
FIELDS: Final = sorted(
    (field.attname for field in ToolCallRecord._meta.concrete_fields),
    key=lambda name: name == "arguments",
)
# The columns as the pages call them, where the table has a word of the protocol.
_NAMES: Final[Mapping[str, str]] = {"credential": "signed_in_with", "revision": "protocol_version"}
COLUMNS: Final = [_NAMES.get(name, name) for name in FIELDS]
# Where spreadsheets may begin a formula: at the beginning of a cell, which is also what follows a
# sign that some of them take to divide cells, whatever the file has.
_FORMULA: Final = re.compile(
    '(^|[;,|\t\r\n])(?=["\\s\ufeff]*[-=+@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\r\n])'
)


class _Line:
    def write(self, line: str) -> str:
        return line


def as_csv(rows: Rows) -> Iterator[str]:
    """Yield rows of FIELDS as lines of CSV (RFC 4180), in which no text is a formula."""
    writer = csv.writer(_Line())
    # Excel reads UTF-8 only where a byte order mark says so.
    yield f"\ufeff{writer.writerow(COLUMNS)}"
    for row in rows:
        yield writer.writerow(map(_cell, row))


def as_json(rows: Rows) -> Iterator[str]:
    """Yield rows of FIELDS as a JSON array of objects, the arguments as the JSON that they are."""
    before = "["
    for row in rows:
        record = dict(zip(COLUMNS, row, strict=True))
        record["arguments"] = json.loads(str(record["arguments"] or "null"))
        record["invalid_arguments"] = str(record["invalid_arguments"]).splitlines()
        yield f"{before}\n{visible(json.dumps(record, default=_text, ensure_ascii=False))}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def name_of(kind: str, begin: datetime | None, end: datetime | None) -> str:
    """Return the name of a file of that kind: with the range of its calls, and today's date."""
    today = f"{local_now():%Y-%m-%d}"
    if begin is None and end is None:
        return f"calls-all-{today}.{kind}"
    first = f"{begin:%Y-%m-%d}" if begin else "first"
    last = f"{end - timedelta(microseconds=1):%Y-%m-%d}" if end else today
    return f"calls-{first}-to-{last}.{kind}"


def _cell(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    return _FORMULA.sub(r"\1'", harmless(_text(value)))


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


# The media type and the writer of each kind of file.
KINDS: Final[Mapping[str, tuple[str, Callable[[Rows], Iterator[str]]]]] = {
    "csv": ("text/csv", as_csv),
    "json": ("application/json", as_json),
}

"""Records as files: CSV for spreadsheets, JSON for programs, sent while they are read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.http import (
    HttpRequest,
    HttpResponseBadRequest,
    HttpResponseBase,
    HttpResponseNotAllowed,
    StreamingHttpResponse,
)

FIELDS: Final = (
    "id",
    "started_at",
    "tool",
    "user_id",
    "user_name",
    "credential",
    "client_name",
    "client_version",
    "revision",
    "outcome",
    "error_code",
    "reference",
    "duration_ms",
    "arguments_bytes",
    "result_bytes",
    "remote_address",
    "arguments",
)
_AT_ONCE: Final = 1000
# What spreadsheets take for the beginning of a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class _Line:
    """A file that gives back what is written."""

    def write(self, line: str) -> str:
        return line


def as_csv(rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """The rows as lines of CSV (RFC 4180), in which no text is a formula."""
    writer = csv.writer(_Line())
    yield writer.writerow(FIELDS)
    for row in rows:
        yield writer.writerow([_plain(value) for value in row])


def as_json(rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """The rows as a JSON array of objects, the arguments as the JSON that they are."""
    before = "["
    for row in rows:
        record = dict(zip(FIELDS, row, strict=True))
        record["arguments"] = json.loads(record["arguments"]) if record["arguments"] else None
        yield f"{before}\n{json.dumps(record, default=_text, ensure_ascii=False)}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def export(model_admin: Any, request: HttpRequest, kind: str) -> HttpResponseBase:
    """The records that the list shows with the same filters, all pages of them, as a file."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    if request.method != "GET":
        return HttpResponseNotAllowed(["GET"])
    try:
        records = model_admin.get_changelist_instance(request).get_queryset(request)
    except IncorrectLookupParameters:
        return HttpResponseBadRequest("These filters do not exist.")
    rows = records.values_list(*FIELDS).iterator(chunk_size=_AT_ONCE)
    lines, media = (as_csv(rows), "text/csv") if kind == "csv" else (as_json(rows), _JSON)
    return StreamingHttpResponse(
        lines,
        content_type=f"{media}; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="calls.{kind}"',
            "Cache-Control": "private, no-store",
        },
    )


_JSON: Final = "application/json"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = _text(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)

"""Records of calls on the pages: which ran, which failed, and what people read of each."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.contrib import admin
from django.db.models import Q
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.base import Context, is_key
from mcp_bridge.conf import conf
from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.text import without_unprintable
from mcp_bridge.records.redaction import CUT, HIDDEN

WEEK: Final = timedelta(days=7)
RAN: Final = ~Q(outcome=Outcome.REFUSED)
FAILED: Final = Q(outcome__in=[Outcome.FAILED, Outcome.UNKNOWN])
# Calls that wait for a person, or waited for one.
HELD: Final = Q(outcome=Outcome.REFUSED, error_code=ErrorCode.UNCONFIRMED)
THROTTLED: Final = Q(error_code=ErrorCode.THROTTLED)
_MOST_RECENT: Final = 10
# Before the word of an outcome, for those who do not see its colour.
_ICONS: Final = {
    Outcome.STARTED: "▸",
    Outcome.SUCCEEDED: "✓",
    Outcome.FAILED: "✗",
    Outcome.REFUSED: "⊘",
    Outcome.CANCELLED: "■",
    Outcome.UNKNOWN: "?",
    "waits": "…",
}


def recent_calls(tool: str) -> Context:
    """Return the latest calls of a tool with what people read of them, for its page."""
    records = ToolCallRecord.objects.filter(tool=tool).select_related("pending_call")
    return {
        "recent": [
            (record, shown_time(record), shown_outcome(record), shown_error(record))
            for record in records[:_MOST_RECENT]
        ],
        "is_recorded": conf.AUDIT is not None,
    }


def recorded_arguments(key: str, tool: str) -> JSONObject:
    """Return the arguments on record of a call of a tool, but for those that are hidden or cut."""
    record = None
    if is_key(key, ToolCallRecord):
        record = ToolCallRecord.objects.filter(pk=key, tool=tool).first()
    arguments = json.loads(record.arguments) if record and record.arguments else None
    if not isinstance(arguments, dict):
        return {}
    return {
        name: value
        for name, value in arguments.items()
        if not any(part in json.dumps(value, ensure_ascii=False) for part in (HIDDEN, CUT))
    }


@admin.display(description=_("time"), ordering="started_at")
def shown_time(record: ToolCallRecord) -> str:
    """Return when a call began, with its seconds."""
    moment = timezone.localtime(record.started_at) if settings.USE_TZ else record.started_at
    return f"{date_format(moment, 'SHORT_DATE_FORMAT')} {moment:%H:%M:%S}"


@admin.display(description=_("outcome"), ordering="outcome")
def shown_outcome(record: ToolCallRecord) -> SafeString:
    """Return the outcome of a call as a word with an icon and a colour, and how often it was so."""
    kind, word = record.outcome, record.get_outcome_display()
    if record.outcome == Outcome.REFUSED and record.error_code == ErrorCode.UNCONFIRMED:
        status = record.pending_call and record.pending_call.status
        if status == PendingCall.Status.REFUSED:
            word = gettext("refused by a person")
        else:
            is_waiting = status == PendingCall.Status.WAITING
            kind, word = "waits", gettext("waits") if is_waiting else gettext("waited")
    if record.times > 1:
        word = f"{word} × {record.times}"
    return format_html(
        '<span class="mcp-outcome-{}"><span aria-hidden="true">{}</span> {}</span>',
        *(kind, _ICONS.get(kind, ""), word),
    )


@admin.display(description=_("error"), ordering="error_code")
def shown_error(record: ToolCallRecord) -> str:
    """Return the error that the model read; where that is not kept, why in some words."""
    return one_line(record.error_text or str(record.get_error_code_display()), 160)


def one_line(text: str, most: int) -> str:
    """Return a text in one line of at most some characters, all of which can be seen."""
    return Truncator(without_unprintable(" ".join(text.split()))).chars(most)

"""The filters of the records of calls: by time, tool, user, outcome and protocol version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, PAGE_VAR, ChangeList
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format, time_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.base import Choices
from mcp_bridge.admin.records import FAILED, HELD, RAN
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.models.outcomes import Outcome
from mcp_bridge.protocol import REVISIONS

Records = QuerySet[ToolCallRecord]

# The years between which a time can be asked of any database, in any time zone.
_YEARS: Final = range(1970, 9000)
# The users that are proposed, of the latest calls: any other name can be typed.
_MOST_PROPOSED: Final = 200
_LATEST: Final = 2000
# What is longer has a time of the day as well.
_A_DAY: Final = "2026-12-31"


def local_now() -> datetime:
    """Return the time in the current time zone; without one where the site has USE_TZ = False."""
    return timezone.localtime() if settings.USE_TZ else timezone.now()


def midnight(moment: datetime, days: int = 0) -> datetime:
    """Return the beginning of the day of a time, or of one some days later."""
    return local(datetime.combine(moment.date() + timedelta(days=days), time()))


def local(moment: datetime) -> datetime:
    """Return a time of the current time zone as the database is asked for it."""
    return timezone.make_aware(moment) if settings.USE_TZ else moment


class RecordFilter(SimpleListFilter):
    """A filter of one parameter, which refuses values that are none of its choices."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        wanted = self.value()
        if wanted and wanted not in dict(self.lookup_choices):
            text = gettext("There is no such choice for “%(filter)s”: all calls are shown.")
            raise IncorrectLookupParameters(text % {"filter": self.title})


class VersionFilter(RecordFilter):
    """Filter by the version of the protocol."""

    title = _("protocol version")
    parameter_name = "version"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [(version, version) for version in REVISIONS]

    def queryset(self, request: HttpRequest, queryset: Records) -> Records:
        wanted = self.value()
        return queryset.filter(revision=wanted) if wanted else queryset


class OutcomeFilter(RecordFilter):
    """Filter by outcome, as the list says it."""

    title = _("outcome")
    parameter_name = "outcome"
    by_outcome: Final[Mapping[str, Q]] = {
        "failed": FAILED,
        "waits": HELD,
        "refused": Q(outcome=Outcome.REFUSED) & ~HELD,
        "succeeded": Q(outcome=Outcome.SUCCEEDED),
        "started": Q(outcome=Outcome.STARTED),
        "cancelled": Q(outcome=Outcome.CANCELLED),
        "ran": RAN,
    }

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        labels = {
            "waits": _("waits for a person"),
            "started": _("runs now"),
            "ran": _("ran, however it ended"),
        }
        return [(name, labels.get(name) or Outcome(name).label) for name in self.by_outcome]

    def queryset(self, request: HttpRequest, queryset: Records) -> Records:
        wanted = self.value()
        return queryset.filter(self.by_outcome[wanted]) if wanted else queryset


class FormFilter(SimpleListFilter):
    """A filter with a form of its own; ``kept`` are the other parameters of the address."""

    # What the form itself sends.
    own: tuple[str, ...] = ()

    @property
    def kept(self) -> list[tuple[str, str]]:
        """The parameters of the address that the form does not send itself, but for the page."""
        own = (self.parameter_name, *self.own, PAGE_VAR, ERROR_FLAG)
        sent = self.request.GET.lists()
        return [(name, value) for name, values in sent if name not in own for value in values]


class NameFilter(FormFilter):
    """Filter by a name that is typed or chosen from those that are proposed."""

    template = "mcp_bridge/admin/filter_name.html"

    def queryset(self, request: HttpRequest, queryset: Records) -> Records:
        wanted = (self.value() or "").strip()
        return queryset.filter((self.parameter_name, wanted)) if wanted else queryset

    def has_output(self) -> bool:
        return True


class ToolFilter(NameFilter):
    """Filter by tool, of those that there are or were."""

    title = _("tool")
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [(name, name) for name in ToolSetting.objects.values_list("name", flat=True)]


class UserFilter(NameFilter):
    """Filter by the name of the user who called."""

    title = _("user")
    parameter_name = "user_name"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        latest = ToolCallRecord.objects.order_by("-started_at").values("user_name")[:_LATEST]
        names = sorted({row["user_name"] for row in latest} - {""})
        return [(name, name) for name in names[:_MOST_PROPOSED]]


class TimeFilter(FormFilter):
    """
    Filter by time: a range that has a name, or one's own from one day or time to another.

    ``begin`` and ``end`` are None where there is no bound; the end itself is not in the range.
    """

    title = _("time")
    parameter_name = "when"
    own = ("since", "until")
    template = "mcp_bridge/admin/filter_time.html"

    def __init__(
        self,
        request: HttpRequest,
        params: dict[str, list[str]],
        model: Any,
        model_admin: ModelAdmin,
    ) -> None:
        super().__init__(request, params, model, model_admin)
        sent = {name: params.pop(name, [""])[-1].strip() for name in self.own}
        self.used_parameters |= {name: text for name, text in sent.items() if text}
        try:
            if any(sent.values()):
                self.begin = _moment(sent["since"])
                self.end = _moment(sent["until"], is_end=True)
            else:
                self.begin, self.end = _named(self.value() or "")
        except (ValueError, OverflowError) as error:
            text = gettext("That is no time that calls can be filtered by: all calls are shown.")
            raise IncorrectLookupParameters(text) from error
        if self.begin and self.end and self.begin >= self.end:
            text = gettext("The range ends before it begins: all calls are shown.")
            raise IncorrectLookupParameters(text)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [
            ("hour", _("Last hour")),
            ("today", _("Today")),
            ("yesterday", _("Yesterday")),
            ("week", _("Last 7 days")),
        ]

    def queryset(self, request: HttpRequest, queryset: Records) -> Records:
        if self.begin:
            queryset = queryset.filter(started_at__gte=self.begin)
        return queryset.filter(started_at__lt=self.end) if self.end else queryset

    @property
    def is_own(self) -> bool:
        """Return whether the range is from a day or a time, or to one."""
        return any(name in self.used_parameters for name in self.own)

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        chosen = None if self.is_own else self.value() or None
        without = dict.fromkeys(self.own)
        for name, label in [(None, _("Any time")), *self.lookup_choices]:
            yield {
                "selected": name == chosen and not self.is_own,
                "query_string": changelist.get_query_string({self.parameter_name: name, **without}),
                "display": label,
            }

    @property
    def first_day(self) -> str:
        """Return the day from which the range is, as an input takes it."""
        return self.begin.date().isoformat() if self.begin and self.is_own else ""

    @property
    def last_day(self) -> str:
        """Return the last day of the range."""
        if not self.end or not self.is_own:
            return ""
        return (self.end - timedelta(microseconds=1)).date().isoformat()

    @property
    def in_words(self) -> str:
        """Return a range that is not of whole days in words."""
        if all(len(self.used_parameters.get(each, "")) <= len(_A_DAY) for each in self.own):
            return ""
        return " – ".join(
            f"{date_format(each, 'SHORT_DATE_FORMAT')} {time_format(each.time())}" if each else "…"
            for each in (self.begin, self.end)
        )


def _named(name: str) -> tuple[datetime | None, datetime | None]:
    """Return the bounds of a range by its name. Raises ValueError for one that there is not."""
    now = local_now()
    match name:
        case "":
            return None, None
        case "hour":
            return now - timedelta(hours=1), None
        case "today":
            return midnight(now), None
        case "yesterday":
            return midnight(now, -1), midnight(now)
        case "week":
            return midnight(now, -6), None
    raise ValueError(name)


def _moment(text: str, *, is_end: bool = False) -> datetime | None:
    """Return the time that a text says; of a day its beginning, or its end. None for no text."""
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None or moment.year not in _YEARS:
        raise ValueError(text)
    if is_end and len(text) <= len(_A_DAY):
        moment += timedelta(days=1)
    return local(moment)

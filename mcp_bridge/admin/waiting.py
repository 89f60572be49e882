"""How much waits for a decision: in the menus of Django's admin, and on the pages of this app."""

from __future__ import annotations

from collections import UserString
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Final, cast

from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.db import DatabaseError, models
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise

from mcp_bridge.confirmation.decisions import approvable, set_aside
from mcp_bridge.models import PendingCall, ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus

# The name whose next text has a count, and the count.
_next: ContextVar[tuple[UserString, int] | None] = ContextVar("mcp_bridge.waiting", default=None)


class CountedName(UserString):
    """
    The plural name of a model, which says in menus how many of its rows wait.

    Django's menus have no other place for it: they name a model just after they have asked its
    admin for get_model_perms(). So the count stands in the next text alone, and titles, messages
    and paginators have the name as it was. It is no lazy text, since that would be made later.
    """

    # Here as well, for a copy that is being made.
    name: str | Promise = ""

    def __init__(self, name: str | Promise) -> None:
        self.name = name

    @property
    def data(self) -> str:  # type: ignore[override]
        return str(self.name)

    def __str__(self) -> str:
        name, count = _next.get() or (None, 0)
        if name is not self:
            return self.data
        _next.set(None)
        return f"{self.data} ({count})"

    def count_next(self, count: int) -> None:
        """Have the next text say how many wait, if any do."""
        _next.set((self, count) if count else None)


def calls_for(request: HttpRequest) -> QuerySet[PendingCall]:
    """Return the calls that wait for a decision that the user may make."""
    return PendingCall.objects.filter(approvable(cast("User", request.user)))


def calls_set_aside() -> QuerySet[PendingCall]:
    """Return the calls that nobody can approve any more, which wait for nobody."""
    return PendingCall.objects.filter(set_aside())


def _tools() -> int:
    # The statuses are as of the snapshot read last.
    _snapshot = registry.snapshot
    waits = (ToolStatus.NEW, ToolStatus.CHANGED)
    return sum(status in waits for status in registry.statuses.values())


_COUNTS: Final[Mapping[type[models.Model], Callable[[HttpRequest], int]]] = {
    PendingCall: lambda request: calls_for(request).count(),
    ToolSetting: lambda request: _tools(),
}


def count(model: type[models.Model], request: HttpRequest) -> int:
    """Return how many rows of a model wait for the user, counted once a request."""
    kept: dict[type[models.Model], int] = request.__dict__.setdefault("_mcp_waiting", {})
    if model not in kept:
        kept[model] = 0
        # The menus are of the whole admin, which opens before the tables are there.
        with suppress(DatabaseError):
            kept[model] = _COUNTS[model](request) if model in _COUNTS else 0
    return kept[model]


def counts_in(site: AdminSite, request: HttpRequest) -> dict[str, int]:
    """Return how much waits for the user in an admin site, by the name of its model."""
    return {
        str(model._meta.model_name): count(model, request)
        for model in _COUNTS
        if site.is_registered(model) and site.get_model_admin(model).has_change_permission(request)
    }


for _model in _COUNTS:
    # Migrations read the name that the class was given.
    _model._meta.verbose_name_plural = CountedName(  # type: ignore[assignment]
        _model._meta.verbose_name_plural or ""
    )

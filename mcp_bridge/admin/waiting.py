"""How much waits for a decision, as the pages of this app show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest

from mcp_bridge.confirmation.decisions import approvable, set_aside
from mcp_bridge.models import PendingCall, ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus


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
        kept[model] = _COUNTS[model](request)
    return kept[model]


def counts_in(site: AdminSite, request: HttpRequest) -> dict[str, int]:
    """Return how much waits for the user in an admin site, by the name of its model."""
    return {
        str(model._meta.model_name): count(model, request)
        for model in _COUNTS
        if site.is_registered(model) and site.get_model_admin(model).has_change_permission(request)
    }

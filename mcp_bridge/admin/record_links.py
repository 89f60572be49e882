"""The pages to which a record of a call leads: those that its reader may see, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext

from mcp_bridge.admin.base import BridgeAdmin
from mcp_bridge.admin.entries import Entry
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting


def links_of(
    model_admin: BridgeAdmin, request: HttpRequest, record: ToolCallRecord
) -> Iterator[tuple[str, str]]:
    """Yield the texts and addresses of the pages that have to do with a record."""

    def rows(model: type[Model], **values: object) -> list[Any]:
        """Return the rows with these values, two at most, if the reader may see them."""
        if not model_admin.can_link(request, model):
            return []
        other = model_admin.admin_site.get_model_admin(model)
        found = list(other.get_queryset(request).filter(**values)[:2])
        may_view = other.has_view_or_change_permission
        return found if all(may_view(request, row) for row in found) else []

    def address(model: type[Model], page: str, *args: object, **query: object) -> str:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
        path = reverse(name, args=args, current_app=model_admin.admin_site.name)
        return f"{path}?{urlencode(query)}" if query else path

    def page(row: Model, name: str = "change", **query: object) -> str:
        return address(type(row), name, quote(row.pk), **query)

    for setting in rows(ToolSetting, name=record.tool):
        yield gettext("The tool"), page(setting)
        if Entry.of(setting).is_served:
            yield gettext("Try it again"), page(setting, "try", record=record.pk)
    if record.pending_call_id is not None:
        for pending in rows(PendingCall, pk=record.pending_call_id):
            yield gettext("The call that waited for a person"), page(pending)
    if record.user_id is not None:
        for user in rows(get_user_model(), pk=record.user_id):
            yield gettext("The user"), page(user)
        # The app of tokens need not be installed.
        if record.credential and apps.is_installed("mcp_bridge.tokens"):
            model = apps.get_model("mcp_bridge_tokens", "Token")
            tokens = rows(model, user_id=record.user_id, name=record.credential)
            if len(tokens) == 1:
                yield gettext("The token"), page(tokens[0])
            elif tokens:
                # Any of them may have been used: the record has the name alone.
                named = {"user__exact": record.user_id, "q": record.credential}
                yield (
                    gettext("The user's tokens of this name"),
                    address(model, "changelist", **named),
                )
    user, tool = {"user_name": record.user_name}, {"tool": record.tool}
    lists = [
        (gettext("This user's calls"), user),
        (gettext("This tool's calls"), tool),
        (gettext("This user's calls of this tool"), user | tool),
    ]
    for text, query in lists:
        if all(query.values()):
            yield text, address(ToolCallRecord, "changelist", **query)

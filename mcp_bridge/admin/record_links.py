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
) -> list[tuple[str, str]]:
    """Return the texts and addresses of the pages that have to do with a record."""
    links = _Links(model_admin, request)
    return [*links.of_tool(record), *links.of_caller(record), *links.of_calls(record)]


class _Links:
    def __init__(self, model_admin: BridgeAdmin, request: HttpRequest) -> None:
        self.admin, self.request = model_admin, request

    def of_tool(self, record: ToolCallRecord) -> Iterator[tuple[str, str]]:
        """Yield the tool, where it can be tried again, and the call that waited."""
        setting = self._row(ToolSetting, name=record.tool)
        if setting is not None:
            yield gettext("The tool"), self._page(setting)
            entry = Entry.of(setting)
            if entry.shown is not None and entry.is_served:
                address = f"{self._page(setting, 'try')}?{urlencode({'record': record.pk})}"
                yield gettext("Try it again"), address
        if record.pending_call_id is not None:
            pending = self._row(PendingCall, pk=record.pending_call_id)
            if pending is not None:
                yield gettext("The call that waited for a person"), self._page(pending)

    def of_caller(self, record: ToolCallRecord) -> Iterator[tuple[str, str]]:
        """Yield the user, and the token."""
        if record.user_id is None:
            return
        user = self._row(get_user_model(), pk=record.user_id)
        if user is not None:
            yield gettext("The user"), self._page(user)
        # The app of tokens need not be installed.
        if record.credential and apps.is_installed("mcp_bridge.tokens"):
            model = apps.get_model("mcp_bridge_tokens", "Token")
            tokens = self._rows(model, user_id=record.user_id, name=record.credential)
            if len(tokens) == 1:
                yield gettext("The token"), self._page(tokens[0])
            elif tokens:
                # Any of them may have been used: the record has the name alone.
                named = {"user__exact": str(record.user_id), "q": record.credential}
                yield gettext("The user's tokens of this name"), self._list(model, named)

    def of_calls(self, record: ToolCallRecord) -> Iterator[tuple[str, str]]:
        """Yield the lists of other calls that are like this one."""
        if record.user_name:
            yield gettext("This user's calls"), self._calls(user_name=record.user_name)
        if record.tool:
            yield gettext("This tool's calls"), self._calls(tool=record.tool)
        if record.user_name and record.tool:
            both = {"user_name": record.user_name, "tool": record.tool}
            yield gettext("This user's calls of this tool"), self._calls(**both)

    def _row(self, model: type[Model], **values: object) -> Any:
        """Return the one row with these values that the reader may see, or None."""
        found = self._rows(model, **values)
        return found[0] if len(found) == 1 else None

    def _rows(self, model: type[Model], **values: object) -> list[Any]:
        """Return the rows with these values, two at most, if the reader may see them."""
        if not self.admin.can_link(self.request, model):
            return []
        model_admin = self.admin.admin_site.get_model_admin(model)
        found = list(model_admin.get_queryset(self.request).filter(**values)[:2])
        may_view = model_admin.has_view_or_change_permission
        return found if all(may_view(self.request, row) for row in found) else []

    def _page(self, row: Model, name: str = "change") -> str:
        return self._address(f"{row._meta.app_label}_{row._meta.model_name}_{name}", quote(row.pk))

    def _calls(self, **filters: str) -> str:
        return self._list(ToolCallRecord, filters)

    def _list(self, model: type[Model], filters: dict[str, str]) -> str:
        name = f"{model._meta.app_label}_{model._meta.model_name}_changelist"
        return f"{self._address(name)}?{urlencode(filters)}"

    def _address(self, name: str, *args: object) -> str:
        return reverse(f"admin:{name}", args=args, current_app=self.admin.admin_site.name)

"""Scopes of OAuth in the admin: their words, the tools that need them, and which are set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.access.scopes import supported_scopes
from mcp_bridge.admin.approvals import changed
from mcp_bridge.admin.audience import NAMED
from mcp_bridge.admin.base import BridgeAdmin, Context
from mcp_bridge.admin.entries import Entry, entries
from mcp_bridge.models import Scope, ToolSetting

# What each button does with the scopes that a tool has and those that are chosen.
_CHANGES: Final[Mapping[str, Callable[[list[str], list[str]], Iterable[str]]]] = {
    "_add": lambda present, chosen: dict.fromkeys([*present, *chosen]),
    "_remove": lambda present, chosen: [name for name in present if name not in chosen],
    "_set": lambda present, chosen: chosen,
}


class NamesField(forms.MultipleChoiceField):
    """Several names of a list, as one text with spaces between them; None for no name."""

    def clean(self, value: object) -> str | None:
        return " ".join(super().clean(value)) or None


class ScopesForm(forms.Form):
    """The scopes to add to several tools, to take from them, or to set."""

    scopes = NamesField(
        label=_("Scopes"), required=False, widget=forms.CheckboxSelectMultiple, choices=()
    )

    def __init__(self, rows: list[ToolSetting], data: Any) -> None:
        super().__init__(data)
        self.rows = rows
        present = {name: name for row in rows for name in row.scopes.split()}
        self.fields["scopes"].choices = labelled(present | supported_scopes())  # type: ignore[attr-defined]
        # The rows that change, each with its scopes from then on.
        self.changes: list[tuple[ToolSetting, str]] = []

    def clean(self) -> None:
        super().clean()
        chosen = (self.cleaned_data.get("scopes") or "").split()
        change = next(_CHANGES[button] for button in _CHANGES if button in self.data)
        for row in self.rows:
            scopes = " ".join(change(row.scopes.split(), chosen))
            try:
                ToolSetting._meta.get_field("scopes").clean(scopes, row)
            except ValidationError as error:
                self.add_error(None, [f"{row}: {text}" for text in error.messages])
            if scopes != row.scopes:
                self.changes.append((row, scopes))


class ScopeChangeList(ChangeList):
    """A list whose rows have the ``tools`` that need them."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        found = tools_by_scope()
        for row in list(self.result_list):
            row.tools = found.get(row.name, [])


@admin.register(Scope)
class ScopeAdmin(BridgeAdmin):
    """The words of scopes; those that have no row here are shown with their words in SCOPES."""

    list_display = ["name", "description", "needed_by"]
    search_fields = ["name", "description"]
    # The page that asks before a deletion says which tools go on needing the scope.
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return ModelAdmin.has_add_permission(self, request)

    def get_fields(self, request: HttpRequest, obj: Scope | None = None) -> tuple[str, ...]:
        return ("name", "description") + ("needed_by",) * (obj is not None)

    def get_readonly_fields(self, request: HttpRequest, obj: Scope | None = None) -> list[str]:
        # Tools and credentials know it by its name.
        return [] if obj is None else ["name", "needed_by"]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ScopeChangeList]:
        return ScopeChangeList

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        scope: Any = super().get_object(request, *args, **kwargs)
        if scope is not None:
            scope.tools = tools_by_scope().get(scope.name, [])
        return scope

    def list_context(self, request: HttpRequest) -> Context:
        named = Scope.objects.values_list("name", flat=True)
        words, needed = supported_scopes(), tools_by_scope()
        others = (words.keys() | needed.keys()) - set(named)
        shown = [(name, words.get(name, name), listed(needed.get(name, []))) for name in others]
        return {"others": sorted(shown)}

    @admin.display(description=_("tools that need it"))
    def needed_by(self, scope: Any) -> str:
        return listed(scope.tools)


@admin.action(description=_("Set scopes of the selected tools"), permissions=["change"])
def set_scopes(
    model_admin: BridgeAdmin, request: HttpRequest, queryset: QuerySet[ToolSetting]
) -> HttpResponse | None:
    """Ask which scopes the tools are to need, and write them once a button says how."""
    rows = [row for row in queryset if model_admin.has_change_permission(request, row)]
    is_decided = any(button in request.POST for button in _CHANGES)
    form = ScopesForm(rows, request.POST if is_decided else None)
    if not form.is_valid():
        title = gettext("Set scopes")
        chosen = [Entry.of(row) for row in rows]
        return model_admin.page(request, "scopes", {"title": title, "form": form, "tools": chosen})
    for row, scopes in form.changes:
        label = str(row._meta.get_field("scopes").verbose_name)
        logged = changed(label, row.scopes, scopes)
        row.scopes = scopes
        row.save(update_fields=["scopes"])
        model_admin.log_change(request, row, logged)
    count = len(form.changes)
    text = ngettext(
        "The scopes of %(count)d tool changed.", "The scopes of %(count)d tools changed.", count
    )
    model_admin.say_count(request, text, count)
    return None


def labelled(words: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return choices of scopes, given their words, or of anything else that has a name."""
    return [
        (name, name if text in ("", name) else f"{name}: {text}") for name, text in words.items()
    ]


def tools_by_scope() -> dict[str, list[Entry]]:
    """Return all tools, those that are off as well, by each scope that they need."""
    found: dict[str, list[Entry]] = {}
    for entry in entries():
        for scope in entry.scopes:
            found.setdefault(scope, []).append(entry)
    return found


def listed(tools: list[Entry]) -> str:
    """Return the names of tools in one line, NAMED at most."""
    names = ", ".join(entry.setting.name for entry in tools[:NAMED])
    rest = len(tools) - NAMED
    if rest <= 0:
        return names
    text = ngettext("%(names)s and %(count)d more", "%(names)s and %(count)d more", rest)
    return text % {"names": names, "count": rest}

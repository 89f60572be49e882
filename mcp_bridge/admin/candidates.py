"""The candidates in the admin: found among many, read, and switched on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.approvals import definitions
from mcp_bridge.admin.base import BridgeAdmin, Context
from mcp_bridge.admin.entries import NOTHING_SAID, Entry, hints
from mcp_bridge.admin.permissions import WhoMay
from mcp_bridge.features import Tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.definitions import app_of
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import mark_approved

# The candidates on a page of the list, which is as many as can be switched on at once.
PER_PAGE: Final = 100


def candidates() -> dict[str, Tool]:
    """Return the candidates that are not switched on, by name."""
    discovered = registry.discovered
    on = discovered.tools.keys() | registry.unbuilt
    return {name: each for name, each in discovered.candidates.items() if name not in on}


def hints_of(candidate: Tool) -> list[str]:
    """Return the hints of a candidate in a word or two each; that there are none is one, too."""
    return [str(short) for short, _full in hints(candidate)] or [str(NOTHING_SAID)]


# What each filter goes by: the values that a candidate has.
_FILTERS: Final[Mapping[str, Callable[[Tool], Iterable[str]]]] = {
    "source": lambda candidate: [candidate.source_alias],
    "app": lambda candidate: [app_of(candidate)],
    "hint": hints_of,
}


class FilterForm(forms.Form):
    """Words that a candidate must have, and the source, app and hint to which it must belong."""

    q = forms.CharField(label=_("Search"), required=False, max_length=200)
    source = forms.ChoiceField(label=_("Source"), required=False)
    app = forms.ChoiceField(label=_("App"), required=False)
    hint = forms.ChoiceField(label=_("Hint"), required=False)

    def __init__(self, offered: Iterable[Tool], data: Any) -> None:
        super().__init__(data, auto_id="mcp-%s")
        self.offered = list(offered)
        self.who = WhoMay(self.offered)
        self.fields["q"].widget.input_type = "search"
        for name, values in _FILTERS.items():
            counted = Counter(value for each in self.offered for value in values(each) if value)
            choices = [(value, f"{value} ({count})") for value, count in sorted(counted.items())]
            self.fields[name].choices = [("", _("All")), *choices]  # type: ignore[attr-defined]

    def found(self) -> list[Tool]:
        """Return the candidates that all of it is true of."""
        if not self.is_valid():
            return []
        given = self.cleaned_data
        wanted = {name: values for name, values in _FILTERS.items() if given[name]}
        words = given["q"].casefold().split()
        return [
            each
            for each in self.offered
            if all(given[name] in values(each) for name, values in wanted.items())
            and (not words or _holds(each, self.who.of(each), words))
        ]


def _holds(candidate: Tool, who: str, words: list[str]) -> bool:
    parts = candidate.name, candidate.description, candidate.function, candidate.access.words, who
    text = "\n".join(map(str, parts)).casefold()
    return all(word in text for word in words)


class CandidatePages(BridgeAdmin):
    """The pages of the candidates, beside those of the tools."""

    pages = {"candidates": "candidates/", "switch_on": "candidates/switch-on/"}

    def list_context(self, request: HttpRequest) -> Context:
        return super().list_context(request) | {"candidates": len(candidates())}

    def candidates_view(self, request: HttpRequest) -> HttpResponse:
        """Show a page of the candidates that are not switched on, none of which is built."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        offered = candidates()
        form = FilterForm(offered.values(), request.GET)
        page = Paginator(form.found(), PER_PAGE).get_page(request.GET.get("p"))
        query = request.GET.copy()
        query.pop("p", None)
        context: Context = {
            "title": gettext("Candidates"),
            "form": form,
            "page": page,
            "pages": page.paginator.get_elided_page_range(page.number),
            "query": f"{query.urlencode()}&" if query else "",
            "rows": [
                (
                    each,
                    form.who.of(each),
                    app_of(each),
                    hints_of(each),
                    registry.errors.get(each.name),
                )
                for each in page
            ],
            "total": len(offered),
            "may_switch": self.has_change_permission(request),
        }
        return self.page(request, "candidates", context)

    def switch_on_view(self, request: HttpRequest) -> HttpResponse:
        """Show what the chosen candidates would be as tools; a POST of that switches them on."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        offered = candidates()
        if "_confirmed" in request.POST:
            self._switch_on(request, offered, request.POST.getlist("tool"))
            return self._to_list(request)
        names = [name for name in request.POST.getlist("name") if name in offered]
        if "_all" in request.POST:
            found = FilterForm(offered.values(), request.GET).found()
            page = Paginator(found, PER_PAGE).get_page(request.GET.get("p"))
            names = [each.name for each in page]
        if not names:
            text = gettext("Nothing was chosen: tick the candidates to switch on.")
            self.message_user(request, text, messages.WARNING)
            return self._to_list(request)
        tools, errors = _build(offered[name] for name in names[:PER_PAGE])
        rows = {row.name: row for row in self.get_queryset(request).filter(name__in=names)}
        built = definitions(
            Entry(rows.get(tool.name) or ToolSetting(name=tool.name), tool) for tool in tools
        )
        context = {
            "title": gettext("Switch on candidates"),
            "built": built,
            "errors": errors,
            "tokens": sum(each.entry.tokens for each in built),
            "back": self._address(request),
        }
        return self.page(request, "switch_on", context)

    def _switch_on(
        self, request: HttpRequest, offered: Mapping[str, Tool], posted: Iterable[str]
    ) -> None:
        """Switch on the candidates that are what was shown; each posted as "fingerprint name"."""
        parts = (each.partition(" ") for each in posted)
        shown = {name: given for given, _, name in parts if name and "\0" not in name}
        # Before the transaction: what another process has shown has to be built in this one.
        tools, _errors = _build(offered[name] for name in shown if name in offered)
        same = [
            tool for tool in tools if fingerprint(canonical_definition(tool)) == shown[tool.name]
        ]
        with self.decision(request) as using:
            rows = ToolSetting.objects.using(using)
            for tool in same:
                found = rows.select_for_update().filter(name=tool.name).first()
                setting = found or ToolSetting(name=tool.name)
                if not self.has_change_permission(request, setting):
                    raise PermissionDenied
                setting.chosen = setting.enabled = True
                mark_approved(setting, tool, by=request.user)
                setting.save(using=using)
                text = gettext("Switched on the candidate, with the definition %(fingerprint)s.")
                values = {"fingerprint": setting.fingerprint[:12]}
                self.log_change(request, setting, text % values)
        count = len(same)
        text = ngettext(
            "%(count)d candidate is switched on.", "%(count)d candidates are switched on.", count
        )
        level = messages.SUCCESS if count else messages.WARNING
        self.message_user(request, text % {"count": count}, level)
        if others := sorted(shown.keys() - {tool.name for tool in same}):
            text = gettext(
                "Not switched on, since they have changed or are gone since the page was opened: "
                "%(names)s."
            )
            self.message_user(request, text % {"names": ", ".join(others)}, messages.ERROR)

    def _address(self, request: HttpRequest) -> str:
        """Return the address of the list of candidates as it was filtered."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_candidates"
        address = reverse(name, current_app=self.admin_site.name)
        return f"{address}?{query}" if (query := request.GET.urlencode()) else address

    def _to_list(self, request: HttpRequest) -> HttpResponseRedirect:
        return HttpResponseRedirect(self._address(request))


def _build(candidates: Iterable[Tool]) -> tuple[list[Tool], list[tuple[str, str]]]:
    """Return the whole tools, and the names of those that cannot be made with the reason."""
    tools, errors = [], []
    for candidate in candidates:
        try:
            tools.append(registry.build(candidate))
        except ValueError as reason:
            errors.append((candidate.name, str(reason)))
    return tools, errors

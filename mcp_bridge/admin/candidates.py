"""Tools and candidates that an administrator searches and filters before deciding on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from django import forms
from django.core.paginator import Page, Paginator
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.audience import who_may
from mcp_bridge.admin.entries import NOTHING_SAID, hints
from mcp_bridge.features import Feature, Tool
from mcp_bridge.registry.definitions import app_of
from mcp_bridge.registry.registry import registry

# The candidates on a page, which is also the most that can be enabled at once.
MOST_CANDIDATES: Final = 100


def candidates() -> dict[str, Tool]:
    """Return the candidates that are not enabled, by name."""
    discovered = registry.discovered
    on = discovered.tools.keys() | registry.unbuilt
    return {name: each for name, each in discovered.candidates.items() if name not in on}


def _hints(candidate: Feature) -> list[str]:
    return [str(short) for short, _full in hints(candidate)] or [str(NOTHING_SAID)]


# The label of each filter, and a candidate's values for it.
_FILTERS: Final[Mapping[str, tuple[Any, Callable[[Feature], list[str]]]]] = {
    "source": (_("Source"), lambda candidate: [candidate.source_alias]),
    "app": (_("App"), lambda candidate: [app_of(candidate)]),
    "hint": (_("Hint"), _hints),
}


class FilterForm(forms.Form):
    """
    Search words, and a source, app and hint that the offered tools must have.

    ``page`` has the matching tools on the requested page.
    """

    q = forms.CharField(label=_("Search"), required=False, max_length=200)

    def __init__(self, request: HttpRequest, offered: Mapping[str, Feature], most: int) -> None:
        super().__init__(request.GET, auto_id="mcp-%s")
        self.offered = offered
        self._who = who_may({each.access for each in offered.values()})
        self.fields["q"].widget.input_type = "search"
        for name, (label, values) in _FILTERS.items():
            counted = Counter(value for each in offered.values() for value in values(each))
            # The last tool with the selected value may have been decided on.
            counted[request.GET.get(name, "")] += 0
            found = sorted(counted.items())
            choices = [("", _("All")), *((each, f"{each} ({n})") for each, n in found if each)]
            self.fields[name] = forms.ChoiceField(label=label, required=False, choices=choices)
        matching = [*filter(self._holds, offered.values())] if self.is_valid() else []
        self.page: Page = Paginator(matching, most).get_page(request.GET.get("p"))

    def _holds(self, tool: Feature) -> bool:
        given, rule = self.cleaned_data, tool.access
        parts = tool.label, tool.description, tool.function, rule.words
        text = "\n".join(map(str, (*parts, self._who[rule]))).casefold()
        return all(word in text for word in given["q"].casefold().split()) and all(
            not given[name] or given[name] in values(tool)
            for name, (_label, values) in _FILTERS.items()
        )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield each candidate of the page with its audience, app, hints and error."""
        for each in self.page:
            error = registry.errors.get(each.name)
            yield each, self._who[each.access], app_of(each), _hints(each), error

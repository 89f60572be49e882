"""
Query parameters that drf-spectacular leaves out or incomplete.

Views of Wagtail's API v2 name what they take, so that nothing of Wagtail is imported.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from rest_framework.filters import OrderingFilter
from rest_framework.utils.humanize_datetime import humanize_strptime

from mcp_bridge.sources.rest_framework.fields import tell_formats

# Of Wagtail's own renderer, and for scripts in a browser.
_LEFT_OUT: Final = frozenset({"_", "format"})
_OF_WAGTAIL: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "ancestor_of": ({"type": "integer"}, "Only pages above the page with this id."),
    "child_of": ({"type": "string"}, 'Only pages right below the page with this id, or "root".'),
    "descendant_of": ({"type": "string"}, 'Only pages below the page with this id, or "root".'),
    "fields": (
        {"type": "string"},
        'Fields to show besides, with commas between: "body,-title" leaves the title out, '
        '"*" is all, "_,title" is the title alone.',
    ),
    "html_path": ({"type": "string"}, "The path of a page on the site."),
    "id": ({"type": "integer"}, "The id."),
    "limit": ({"type": "integer", "minimum": 0}, "How many at most."),
    "locale": ({"type": "string"}, 'Only pages in this language, such as "en".'),
    "offset": ({"type": "integer", "minimum": 0}, "How many to leave out at the beginning."),
    "order": ({"type": "string"}, 'The field to order by, "-" before it for the last first.'),
    "rich_text_format": ({"type": "string"}, "In which form rich text is shown."),
    "search": ({"type": "string"}, "Words to look for."),
    "search_operator": ({"type": "string", "enum": ["and", "or"]}, "Whether all words count."),
    "site": ({"type": "string"}, "Only pages of the site with this host name."),
    "translation_of": ({"type": "string"}, "Only translations of the page with this id."),
    "type": ({"type": "string"}, 'Only pages of these types, such as "blog.BlogPage".'),
}
_OF_ONE: Final = frozenset({"fields", "rich_text_format"})


def add_filters(operation: dict[str, Any], view: Any) -> None:
    """Describe the orderings of a list, and the filters of django-filter."""
    for backend in getattr(view, "filter_backends", ()):
        if not isinstance(backend, type):
            continue
        if issubclass(backend, OrderingFilter):
            _add_orderings(operation, view, backend())
            continue
        made: Any = backend()
        if hasattr(made, "get_filterset_class"):
            filters = made.get_filterset_class(view)
            for name, each in getattr(filters, "base_filters", {}).items():
                _add_filter(operation, filters, name, each)


def _add_orderings(operation: Mapping[str, Any], view: Any, backend: Any) -> None:
    fields = _orderings(backend, view)
    for each in operation.get("parameters", ()) if fields else ():
        if each["name"] == backend.ordering_param and each["in"] == "query":
            both = [name for field in fields for name in (field, f"-{field}")]
            each["schema"] = {"type": "string", "enum": both}
            each["description"] = "What to order by: with '-' before it from the last on."


def _orderings(backend: Any, view: Any) -> list[str]:
    try:
        get_queryset = partial(getattr, view, "queryset", None)
        if getattr(view, "ordering_fields", backend.ordering_fields) in (None, "__all__"):
            get_queryset = view.get_queryset
        context = {"request": view.request}
        return [name for name, _ in backend.get_valid_fields(get_queryset(), view, context)]
    except Exception:
        # The view's own code may need a real request.
        return []


def _add_filter(operation: dict[str, Any], filters: Any, name: str, field: Any) -> None:
    found = [each for each in operation.get("parameters", ()) if each["name"] == name]
    if not found:
        return
    if formats := field.extra.get("input_formats"):
        tell_formats(found[0]["schema"], humanize_strptime(", ".join(formats)))
    if hasattr(field, "get_lookup_choices"):
        # A LookupChoiceFilter learns its model when its filter set is made.
        field = copy.copy(field)
        field.model = filters._meta.model
        lookups = [each for each, _ in field.get_lookup_choices()]
        about = f"How {name} is compared; required with it."
        schema = {"type": "string", "enum": lookups}
        place = operation["parameters"].index(found[0]) + 1
        operation["parameters"].insert(
            place, {"name": f"{name}_lookup", "in": "query", "description": about, "schema": schema}
        )


def add_wagtail_parameters(operation: dict[str, Any], view: Any) -> None:
    """Add the query parameters that a view of Wagtail's API names, to one that is described."""
    named = getattr(view, "known_query_parameters", None)
    if not isinstance(named, frozenset | set) or not hasattr(view, "find_query_parameters"):
        return
    filters: set[str] = set()
    match getattr(view, "action", ""):
        case "listing_view":
            names = set(named) - _LEFT_OUT
            filters = set(view.get_available_fields(view.model, db_fields_only=True)) - names
        case "detail_view":
            names = set(named & _OF_ONE)
        case "find_view":
            names = set(view.find_query_parameters)
        case _:
            return
    found = operation.setdefault("parameters", [])
    taken = {each["name"] for each in found}
    for name in sorted((names | filters) - taken):
        schema, about = _OF_WAGTAIL.get(name, ({"type": "string"}, ""))
        if name in filters:
            about = f"Only those whose {name} is this."
        found.append({"name": name, "in": "query", "schema": schema, "description": about})

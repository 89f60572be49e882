"""Query parameters of filters that drf-spectacular leaves out or incomplete."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

from rest_framework.filters import OrderingFilter
from rest_framework.utils.humanize_datetime import humanize_strptime

from mcp_bridge.sources.rest_framework.fields import tell_formats


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

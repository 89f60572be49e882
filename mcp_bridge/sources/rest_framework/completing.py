"""Completion of the lookup of a view's rows, for views that are resources or prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial, reduce
from typing import Any, Final

from mcp_bridge.features import Completer, Context
from mcp_bridge.sources.in_process.calls import InProcessRequest
from mcp_bridge.sources.rest_framework.access import REFUSED, log_in, make_view
from mcp_bridge.sources.rest_framework.endpoints import Endpoint

_GENERIC: Final = "rest_framework.generics"
# The most rows whose permissions are asked.
_MOST: Final = 200


def row_completers(endpoint: Endpoint, *, guarded: bool) -> dict[str, Completer]:
    """
    Return what completes the argument by which a generic view finds its object, by name.

    The values are those of the view's own queryset, filtered as for the caller's request, without
    the objects that its permissions refuse. ``guarded`` is as for ``log_in``.
    """
    kind: Any = endpoint.route.kind
    field = getattr(kind, "lookup_field", None)
    defined_in = getattr(
        getattr(kind, "get_queryset", None), "__module__", "rest_framework.generics"
    )
    if field is None or (kind.queryset is None and defined_in == _GENERIC):
        return {}
    return {kind.lookup_url_kwarg or field: partial(_values, endpoint, guarded)}


def _values(
    endpoint: Endpoint, guarded: bool, value: str, earlier: Mapping[str, str], context: Context
) -> Iterator[object]:
    request = InProcessRequest(context, endpoint.method, endpoint.route.template)
    request.resolver_match = endpoint.route.match()
    log_in(endpoint, request, guarded=guarded)
    view = make_view(endpoint, request)
    view.kwargs = dict(earlier)
    field: str = view.lookup_field
    rows = view.filter_queryset(view.get_queryset()).filter(**{f"{field}__startswith": value})
    for row in rows.order_by(field)[:_MOST]:
        try:
            view.check_object_permissions(view.request, row)
        except REFUSED:
            continue
        yield reduce(getattr, field.split("__"), row)

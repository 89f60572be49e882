"""Support Wagtail: StreamField values as results, and query parameters of its API v2."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from mcp_bridge.schemas.hints import Adapter, register

# Parameters of Wagtail's renderer and for browser scripts.
_LEFT_OUT: Final = frozenset({"_", "format"})
_KNOWN: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "ancestor_of": ({"type": "integer"}, "Only pages above the page with this id."),
    "child_of": ({"type": "string"}, 'Only pages right below the page with this id, or "root".'),
    "descendant_of": ({"type": "string"}, 'Only pages below the page with this id, or "root".'),
    "fields": (
        {"type": "string"},
        'Additional fields, separated by commas: "body,-title" omits the title, "*" is all '
        'fields, "_,title" only the title.',
    ),
    "html_path": ({"type": "string"}, "The path of a page on the site."),
    "id": ({"type": "integer"}, "The id."),
    "limit": ({"type": "integer", "minimum": 0}, "The maximum number of results."),
    "locale": ({"type": "string"}, 'Only pages in this language, such as "en".'),
    "offset": ({"type": "integer", "minimum": 0}, "The number of results to skip."),
    "order": ({"type": "string"}, 'The field to order by; the prefix "-" reverses the order.'),
    "rich_text_format": ({"type": "string"}, "The format of rich text."),
    "search": ({"type": "string"}, "Words to search for."),
    "search_operator": ({"type": "string", "enum": ["and", "or"]}, "Match all words, or any."),
    "site": ({"type": "string"}, "Only pages of the site with this host name."),
    "translation_of": ({"type": "string"}, "Only translations of the page with this id."),
    "type": ({"type": "string"}, 'Only pages of these types, such as "blog.BlogPage".'),
}
_OF_ONE: Final = frozenset({"fields", "rich_text_format"})


def register_adapters() -> None:
    """Register the adapter; a second call changes nothing."""
    register(WagtailAdapter())


class WagtailAdapter(Adapter):
    """
    Raw data of a StreamValue, ``{"type": …, "value": …, "id": …}`` for each block, and queries.

    Views of the API name their parameters, so that Wagtail need not be imported.
    """

    def items(self, value: Any) -> Iterable[object] | None:
        # A value cannot be of Wagtail unless that is imported.
        blocks: Any = sys.modules.get("wagtail.blocks")
        is_stream = blocks is not None and isinstance(value, blocks.StreamValue)
        return value.raw_data if is_stream else None

    def query_parameters(self, view: Any) -> Iterable[dict[str, Any]]:
        known = getattr(view, "known_query_parameters", None)
        if not isinstance(known, frozenset | set) or not hasattr(view, "find_query_parameters"):
            return
        names, filters = set[str](), set[str]()
        match getattr(view, "action", ""):
            case "listing_view":
                names = {*known} - _LEFT_OUT
                filters = {*view.get_available_fields(view.model, db_fields_only=True)} - names
            case "detail_view":
                names = {*known} & _OF_ONE
            case "find_view":
                names = {*view.find_query_parameters}
        for name in sorted(names | filters):
            schema, about = _KNOWN.get(name, ({"type": "string"}, ""))
            about = f"Only those with this {name}." if name in filters else about
            yield {"name": name, "in": "query", "schema": schema, "description": about}

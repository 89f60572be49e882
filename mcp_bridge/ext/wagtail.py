"""Wagtail: the values of a StreamField as results, and the queries of views of its API v2."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from mcp_bridge.schemas.hints import Adapter, register

# Of Wagtail's own renderer, and for scripts in a browser.
_LEFT_OUT: Final = frozenset({"_", "format"})
_KNOWN: Final[dict[str, tuple[dict[str, Any], str]]] = {
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


def register_adapters() -> None:
    """Register the adapter; a second call changes nothing."""
    register(WagtailAdapter())


class WagtailAdapter(Adapter):
    """
    The raw data of a StreamValue, ``{"type": …, "value": …, "id": …}`` for each block; queries.

    Views of the API name what they take, so that nothing of Wagtail is imported.
    """

    def items(self, value: Any) -> Iterable[object] | None:
        # Where nobody imported Wagtail, nothing can be of it.
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
            about = f"Only those whose {name} is this." if name in filters else about
            yield {"name": name, "in": "query", "schema": schema, "description": about}

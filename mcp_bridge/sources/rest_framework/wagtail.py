"""
The query parameters of Wagtail's API v2, of which drf-spectacular knows nothing.

Its views name what they take, so that nothing of Wagtail is imported.
"""

from __future__ import annotations

from typing import Any, Final

# Of its own renderer, and for scripts in a browser.
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


def add_parameters(operation: dict[str, Any], view: Any) -> None:
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
        schema, about = _KNOWN.get(name, ({"type": "string"}, ""))
        if name in filters:
            about = f"Only those whose {name} is this."
        found.append({"name": name, "in": "query", "schema": schema, "description": about})

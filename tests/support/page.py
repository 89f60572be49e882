"""A reader of rendered HTML, as a browser and a screen reader read it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from django.template.loader import render_to_string

INPUTS = ("input", "select", "textarea")
EMPTY = ("input", "img", "br", "link", "meta")


class Page(HTMLParser):
    """The tags of a page, in order, each with its attributes; they must be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        # An empty element may be written with a slash.
        assert tag in EMPTY or self._open.pop() == tag

    def all(self, *names: str) -> list[dict[str, Any]]:
        return [attrs for tag, attrs in self.tags if tag in names]

    def names(self) -> list[str]:
        """Return the names of the form's fields, without the prefix."""
        return [each["name"].removeprefix("arguments-") for each in self.all(*INPUTS)]

    def check(self) -> None:
        """
        Check that every input has a label and an existing description, and that ids are unique.
        """
        ids = [attrs["id"] for _, attrs in self.tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        labelled = [each["for"] for each in self.all("label")]
        assert len(self.names()) == len(set(self.names()))
        for each in self.all(*INPUTS):
            assert labelled.count(each["id"]) == 1
            assert each["name"].isascii()
        for _, attrs in self.tags:
            assert set((attrs.get("aria-describedby") or "").split()) <= set(ids)


def render(name: str, **context: Any) -> Page:
    return Page(render_to_string(f"mcp_bridge/admin/{name}.html", context))

"""The links of pages, followed as the user who is signed in there."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin, urlsplit

from tests.support.page import Page

# The addresses that a page names: its links, the targets of its forms, and its resources.
LEADING = {
    "a": "href",
    "form": "action",
    "link": "href",
    "script": "src",
    "img": "src",
    "input": "data-mcp-switch",
}


class LenientPage(Page):
    """A page of the admin, in which Django leaves some tags open."""

    def handle_endtag(self, tag: str) -> None:
        pass

    def close(self) -> None:
        self._open.clear()
        super().close()


def leading(address: str, html: str, *wanted: str) -> set[str]:
    """
    Return the addresses of this site to which a page links, without fragments.

    With names of tags, only those that these tags name.
    """
    found = set()
    for tag, attrs in LenientPage(html).tags:
        target = attrs.get(LEADING.get(tag, ""))
        if target and (not wanted or tag in wanted):
            parts = urlsplit(urljoin(f"http://testserver{address}", target))
            if parts.scheme == "http" and parts.netloc == "testserver":
                found.add(parts._replace(scheme="", netloc="", fragment="").geturl())
    return found


def inline(html: str) -> list[tuple[str, Any]]:
    """
    Return the parts that a Content-Security-Policy of ``default-src 'self'`` has a browser refuse.
    """
    found: list[tuple[str, Any]] = []
    for tag, attrs in LenientPage(html).tags:
        is_script = tag == "script" and attrs.get("type") != "application/json"
        if tag == "style" or (is_script and "src" not in attrs):
            found.append((tag, attrs))
        for name, value in attrs.items():
            if name == "style" or name.startswith("on"):
                found.append((tag, name))
            elif (value or "").lstrip().lower().startswith(("data:", "javascript:")):
                found.append((tag, value))
    return found

"""A browser of an admin: it loads a page, reads the form in its HTML, and posts it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from django.test import Client

Pairs = list[tuple[str, str]]


class FormReader(HTMLParser):
    """The controls of a page's forms, with what a browser sends of them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.pairs: Pairs = []
        # The kind of each control by name: "text", "checkbox", "radio", "select" or "multiple".
        self.kinds: dict[str, str] = {}
        self._select: dict[str, Any] | None = None
        self._options: list[tuple[str, bool]] = []
        self._area: str | None = None
        self._text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        if tag == "option" and self._select is not None:
            self._options.append((given.get("value") or "", "selected" in given))
        name = given.get("name")
        if not name or "disabled" in given:
            return
        kind = given.get("type", "text")
        if tag == "select":
            self._select, self._options = given, []
        elif tag == "textarea":
            self._area, self._text = name, ""
        elif tag == "input" and kind not in ("submit", "file", "image", "button"):
            self.kinds[name] = kind if kind in ("checkbox", "radio") else "text"
            if kind not in ("checkbox", "radio") or "checked" in given:
                self.pairs.append(
                    (name, given.get("value") or ("on" if kind == "checkbox" else ""))
                )

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            self.pairs.append((self._area, self._text.removeprefix("\n")))
            self.kinds[self._area], self._area = "text", None
        if tag == "select" and self._select is not None:
            name, several = self._select["name"], "multiple" in self._select
            chosen = [value for value, selected in self._options if selected]
            if not several:
                # The last selected option, or the first one that there is.
                chosen = chosen[-1:] or [value for value, _ in self._options[:1]]
            self.pairs += [(name, value) for value in chosen]
            self.kinds[name], self._select = ("multiple" if several else "select"), None


class Browser:
    """A user's browser on the pages of an admin."""

    def __init__(self, user: Any) -> None:
        self.client = Client()
        self.client.force_login(user)

    def form(self, path: str) -> FormReader:
        """Return the form of a page, which must be there."""
        response = self.client.get(path)
        assert response.status_code == 200, response
        return FormReader(response.content.decode())

    def send(self, path: str, pairs: Pairs) -> Any:
        kind = "application/x-www-form-urlencoded"
        return self.client.post(path, urlencode(pairs), content_type=kind)

    def submit(self, path: str, values: dict[str, Any]) -> Any:
        """Load a page, enter values by the names of fields, and post it."""
        form = self.form(path)
        for name, value in values.items():
            enter(form, name, value)
        return self.send(path, [*form.pairs, ("_continue", "1")])


def enter(form: FormReader, name: str, value: Any) -> None:
    """Enter a JSON value into the control of a field, as a person would."""
    if f"{name}_0" in form.kinds:
        day, _, time = (value or "").removesuffix("Z").partition("T")
        enter(form, f"{name}_0", day)
        enter(form, f"{name}_1", time)
        return
    if f"{name}_year" in form.kinds:
        parts = (value or "--").split("-")
        for part, each in zip(("year", "month", "day"), parts, strict=True):
            enter(form, f"{name}_{part}", str(int(each)) if each else "")
        return
    assert name in form.kinds, f"{name} is not a control of this page"
    kept = [pair for pair in form.pairs if pair[0] != name]
    kind = form.kinds[name]
    if kind == "checkbox" and isinstance(value, bool):
        kept += [(name, "on")] if value else []
    elif kind in ("multiple", "checkbox") and isinstance(value, list):
        kept += [(name, str(each)) for each in value or ()]
    elif isinstance(value, dict | list):
        kept.append((name, json.dumps(value)))
    else:
        kept.append((name, "" if value is None else str(value)))
    form.pairs = kept

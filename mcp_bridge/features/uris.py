"""
URIs of resources and their templates (RFC 6570, level 1, and one ``{+path}`` at the end).

A template matches a URI as a whole. The values of its variables are decoded once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise, product
from os.path import commonprefix
from typing import Final, TypeAlias
from urllib.parse import quote, unquote_to_bytes

# The most characters of a URI.
LONGEST: Final = 2048
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# RFC 3986, without the delimiters of queries and fragments.
_RESERVED: Final = frozenset(":/[]@!$&'()*+,;=")
_EXPRESSION: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:.")
_LITERAL: Final = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-]*")
# Possessive, since nothing that follows a value can be a part of it: matching is linear.
_SIMPLE_VALUE: Final = r"((?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})++)"
_PATH_VALUE: Final = r"((?:[A-Za-z0-9._~:/\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})++)"
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")

# A character of a URI, or the characters of a variable's value.
_Part: TypeAlias = str | frozenset[str]


class UriTemplate:
    """
    A URI, or a template of URIs: ``articles://{slug}``.

    ``variables`` are its variables in order. Raises ValueError for a text that is neither.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.variables: tuple[str, ...] = ()
        self._parts: list[_Part] = []
        pattern, end = "", 0
        for found in _EXPRESSION.finditer(text):
            is_path, name = bool(found[1]), found[2]
            self._add(text[end : found.start()])
            pattern += re.escape(text[end : found.start()])
            pattern += _PATH_VALUE if is_path else _SIMPLE_VALUE
            end = found.end()
            if is_path and end < len(text):
                raise ValueError(f"{text!r}: an expression such as {{+path}} must be at the end")
            if name in self.variables:
                raise ValueError(f"{text!r} has the variable {name!r} twice")
            self.variables += (name,)
            self._parts.append(_UNRESERVED | (_RESERVED if is_path else frozenset()))
        self._add(text[end:])
        self._pattern = re.compile(pattern + re.escape(text[end:]))
        self.is_path = "{+" in text
        if not _SCHEME.match(text) or len(text) > LONGEST:
            raise ValueError(f"{text!r} is not a URI such as articles://latest")
        for part, following in pairwise(self._parts):
            if isinstance(part, frozenset) and (part & frozenset(following)):
                raise ValueError(
                    f"{text!r}: a variable must be followed by a character that its value cannot "
                    "have, such as /"
                )

    def __str__(self) -> str:
        return self.text

    def _add(self, literal: str) -> None:
        if not _LITERAL.fullmatch(literal):
            raise ValueError(
                f"{self.text!r} is not a URI or a template with expressions such as {{slug}} and, "
                "at the end, {+path}"
            )
        self._parts += literal

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the variables in a URI, or None if it does not match."""
        if len(uri) > LONGEST or (found := self._pattern.fullmatch(uri)) is None:
            return None
        values: dict[str, str] = {}
        for name, given in zip(self.variables, found.groups(), strict=True):
            try:
                values[name] = unquote_to_bytes(given).decode()
            except UnicodeDecodeError:
                return None
        return values if all(self.accepts(*each) for each in values.items()) else None

    def accepts(self, name: str, value: str) -> bool:
        """Return whether a variable may have a value: one that does not lead elsewhere."""
        is_path = self.is_path and name == self.variables[-1]
        segments = value.split("/") if is_path else [value]
        is_segment = is_path or "/" not in value
        return is_segment and {"", ".", ".."}.isdisjoint(segments) and not _UNSAFE.search(value)

    def expand(self, values: Mapping[str, object]) -> str:
        """Return the URI with these values of its variables."""
        found = self.text
        for name in self.variables:
            value = str(values.get(name, ""))
            found = found.replace(f"{{+{name}}}", quote(value, safe="/"))
            found = found.replace(f"{{{name}}}", quote(value, safe=""))
        return found

    def overlaps(self, other: UriTemplate) -> bool:
        """Return whether some URI matches both."""
        # Most begin differently, before their first variables.
        begins = [each.text.partition("{")[0] for each in (self, other)]
        if len(commonprefix(begins)) < min(map(len, begins)):
            return False
        return _overlap(tuple(self._parts), tuple(other._parts))


@lru_cache(maxsize=4096)
def _overlap(one: tuple[_Part, ...], other: tuple[_Part, ...]) -> bool:
    seen, todo = set[tuple[int, int]](), [(0, 0)]
    while todo:
        at = i, j = todo.pop()
        if at == (len(one), len(other)):
            return True
        if at in seen or i == len(one) or j == len(other):
            continue
        seen.add(at)
        if frozenset(one[i]) & frozenset(other[j]):
            # A variable may have further characters.
            of_one = (i, i + 1) if isinstance(one[i], frozenset) else (i + 1,)
            of_other = (j, j + 1) if isinstance(other[j], frozenset) else (j + 1,)
            todo += product(of_one, of_other)
    return False

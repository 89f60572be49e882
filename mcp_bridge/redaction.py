"""
What a record keeps of a call: text that any database takes, without secrets, and bounded.

Secret is what the code marks so (``writeOnly`` or ``format: password`` in the schema, as SecretStr
has them) and, unless everything is wanted, what has the name of a secret, at any depth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from mcp_bridge.tools import Tool

HIDDEN: Final = "[redacted]"
CUT: Final = "…"
MAX_DEPTH: Final = 8
# In lower case and without what divides words, so that API_KEY and apiKey are one; wherever they
# stand in a name.
SENSITIVE: Final = (
    "accesskey",
    "apikey",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "passcode",
    "privatekey",
    "secret",
    "sessionid",
    "sessionkey",
    "signature",
    "signingkey",
    "token",
)
# Too short for that: words of their own.
SENSITIVE_WORDS: Final = frozenset({"auth", "cvc", "cvv", "otp", "pass", "pin", "pwd", "ssn"})
_DIVIDERS: Final = re.compile(r"[\W_]+")
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# What JSON puts around and between values; and the mark of a cut, at every depth.
_BETWEEN: Final = 6
_RESERVED: Final = (MAX_DEPTH + 1) * 16


def storable(value: Any, length: int) -> str:
    """The value as text that any database takes: no NUL, no lone surrogate, not too long."""
    text = value if isinstance(value, str) else ""
    return _clean(text[: length + 1])[:length]


def told(
    arguments: Any,
    *,
    limit: int,
    marked: frozenset[str] = frozenset(),
    names: Iterable[str] | None = None,
) -> str:
    """
    The arguments as JSON text of at most ``limit`` bytes, whatever they are.

    ``marked`` are the members that the schema calls secret. ``names`` are further parts of names
    that are secret, besides the well-known ones; None to go by no name at all.
    """
    parts = None if names is None else (*SENSITIVE, *map(_plain, names))
    return _dumped(_Telling(limit - _RESERVED, marked, parts).value(arguments))


@lru_cache(maxsize=1024)
def marked(tool: Tool) -> frozenset[str]:
    """The names of the members that the tool's input schema marks as secret, at any depth."""
    return frozenset(_marked(tool.input_schema, tool.input_schema))


class _Telling:
    """One telling of a value: ``left`` is how many bytes may still be written."""

    def __init__(self, left: int, marked: frozenset[str], parts: tuple[str, ...] | None) -> None:
        self.left = left
        self._marked = marked
        self._parts = parts

    def value(self, value: Any, depth: int = 1) -> Any:
        self.left -= _BETWEEN
        if self.left <= 0:
            return CUT
        if isinstance(value, Mapping | list | tuple):
            if depth > MAX_DEPTH:
                return CUT
            if isinstance(value, Mapping):
                return self._members(value, depth)
            return self._items(value, depth)
        if isinstance(value, str):
            return self._text(value, depth)
        return self._scalar(value)

    def _members(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, each in value.items():
            if self.left <= 0:
                kept[CUT] = CUT
                break
            name = self._short(str(key))
            kept[name] = self._hidden() if self._is_secret(key) else self.value(each, depth + 1)
        return kept

    def _items(self, value: Iterable[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for each in islice(value, self.left + 1):
            if self.left <= 0:
                kept.append(CUT)
                break
            kept.append(self.value(each, depth + 1))
        return kept

    def _text(self, text: str, depth: int) -> str:
        # Several clients send objects as strings of JSON: what is in them is as secret.
        if text.lstrip()[:1] in ("{", "[", '"'):
            try:
                inner = json.loads(text)
            except (ValueError, RecursionError):
                # It may be the beginning of one, and where its secrets end cannot be known.
                return self._hidden() if self._names_secret(text) else self._short(text)
            if not isinstance(inner, int | float | None):
                # As it is read inside, at most at the same depth and with what is left.
                before, told = self.left, _dumped(self.value(inner, depth + 1))
                self.left = before
                return self._short(told)
        return self._short(text)

    def _scalar(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            self.left -= 5
            return value
        if isinstance(value, int) and value.bit_length() <= 1024:
            self.left -= len(str(value))
            return value
        if isinstance(value, float) and value - value == 0:
            self.left -= len(repr(value))
            return value
        # NaN, infinities, numbers of thousands of digits, and what is no JSON at all.
        named = repr(value) if isinstance(value, float) else f"({type(value).__name__})"
        return self._short(named)

    def _short(self, text: str) -> str:
        """The text, cut to what may still be written."""
        text = _clean(text[: max(self.left, 0) + 1])
        size = len(_dumped(text).encode())
        if size > self.left:
            # No character takes more than six bytes.
            text = text[: max(self.left, 0) // 6] + CUT
            size = len(_dumped(text).encode())
        self.left -= size
        return text

    def _hidden(self) -> str:
        self.left -= len(HIDDEN) + 2 + _BETWEEN
        return HIDDEN

    def _is_secret(self, key: Any) -> bool:
        return key in self._marked or self._has_secret_name(str(key))

    def _names_secret(self, text: str) -> bool:
        return any(name in text for name in self._marked) or self._has_secret_name(text)

    def _has_secret_name(self, text: str) -> bool:
        if self._parts is None:
            return False
        words = {word.lower() for word in _WORDS.findall(text)}
        plain = _plain(text)
        return not words.isdisjoint(SENSITIVE_WORDS) or any(part in plain for part in self._parts)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _plain(name: str) -> str:
    return _DIVIDERS.sub("", name).lower()


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _marked(schema: Any, root: Mapping[str, Any]) -> set[str]:
    """The names under "properties", anywhere in the schema, whose schema is marked."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, Mapping):
            members = each.get("properties")
            if isinstance(members, Mapping):
                found |= {name for name, inner in members.items() if _is_marked(inner, root)}
            waiting += each.values()
    return found


def _is_marked(schema: Any, root: Mapping[str, Any]) -> bool:
    """Whether a value of this schema, or an item of it, is secret; members have their own say."""
    waiting, seen = [schema], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, Mapping):
            if each.get("writeOnly") is True or each.get("format") == "password":
                return True
            reference = each.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                waiting.append(_referred(root, reference))
            waiting += [inner for name, inner in each.items() if name not in _SAID_OF_MEMBERS]
    return False


# What does not say how the value itself is: its members, and examples of it.
_SAID_OF_MEMBERS: Final = ("properties", "$defs", "default", "examples", "const", "enum")


def _referred(root: Mapping[str, Any], reference: str) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) and name else None
    return found

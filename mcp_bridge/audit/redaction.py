"""
What is secret in the arguments of a call, and what a record keeps of them.

Secret is what the code marks so (``writeOnly`` or ``format: password`` in the schema, as SecretStr
has them) and, unless everything is wanted, what has the name of a secret, at any depth. A record
is text that any database takes, and bounded; what a person reads before agreeing to a call
(``mcp_bridge.access.confirmation``) goes by the same judgment, and is all the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from mcp_bridge.conf import conf
from mcp_bridge.features.tools import Tool
from mcp_bridge.protocol import ProtocolError, jsonrpc

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


@dataclass(frozen=True, slots=True)
class SensitiveFields:
    """
    What is secret in arguments.

    ``marked`` are the members that a schema calls secret; ``open`` are all that it has a word for,
    where it calls every other one secret, else None. ``parts`` are what the names of secrets have
    in them; None to go by no name.
    """

    marked: frozenset[str] = frozenset()
    open: frozenset[str] | None = None
    parts: tuple[str, ...] | None = SENSITIVE

    def hides(self, name: str) -> bool:
        """Whether the member of that name is secret, with all that is in it."""
        stranger = self.open is not None and name not in self.open
        return stranger or name in self.marked or self._is_named(name)

    def read(self, text: str) -> Any:
        """
        What is to be looked through of a text: its JSON, as several clients send objects.

        The text itself, where it is none; None, where it may be the beginning of one with secrets,
        of which nobody can say where they end.
        """
        if text.lstrip()[:1] not in ("{", "[", '"'):
            return text
        try:
            return jsonrpc.decode(text.encode())
        except (ProtocolError, UnicodeError):
            return None if self.are_named_in(text) else text

    def are_named_in(self, text: str) -> bool:
        """Whether a text has the name of a secret in it, wherever."""
        return any(name in text for name in self.marked) or self._is_named(text)

    def _is_named(self, text: str) -> bool:
        if self.parts is None:
            return False
        words = {word.lower() for word in _WORDS.findall(text)}
        plain = _plain(text)
        return not words.isdisjoint(SENSITIVE_WORDS) or any(part in plain for part in self.parts)


def sensitive_fields(tool: Tool | None, *, by_name: bool = True) -> SensitiveFields:
    """What is secret in the arguments of a tool, or of a call of none, at this site."""
    marked, open_ = (frozenset[str](), None) if tool is None else _marks(tool)
    names = filter(None, map(_plain, conf.audit("SENSITIVE_NAMES")))
    return SensitiveFields(marked, open_, (*SENSITIVE, *names) if by_name else None)


def redact_to_json(arguments: Any, *, limit: int, secrets: SensitiveFields) -> str:
    """The arguments as JSON text of at most ``limit`` bytes, whatever they are."""
    return _dumped(_Redactor(limit - _RESERVED, secrets).value(arguments))


class _Redactor:
    """One telling of a value: ``left`` is how many bytes may still be written."""

    def __init__(self, left: int, secrets: SensitiveFields) -> None:
        self.left = left
        self._secrets = secrets

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
            kept[name] = (
                self._hidden() if self._secrets.hides(str(key)) else self.value(each, depth + 1)
            )
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
        inner = self._secrets.read(text)
        if inner is None:
            return self._hidden()
        if inner is not text:
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


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _plain(name: str) -> str:
    return _DIVIDERS.sub("", name).lower()


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=1024)
def _marks(tool: Tool) -> tuple[frozenset[str], frozenset[str] | None]:
    """``marked`` and ``open`` of SensitiveFields: what is under "properties", wherever it is."""
    root = tool.input_schema
    marked: set[str] = set()
    named: set[str] = set()
    waiting: list[Any] = [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, Mapping):
            members = each.get("properties")
            if isinstance(members, Mapping):
                named |= set(members)
                marked |= {name for name, inner in members.items() if _is_marked(inner, root)}
            waiting += each.values()
    return frozenset(marked), frozenset(named) if _is_marked(root, root) else None


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

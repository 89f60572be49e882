"""
The secrets in the arguments of a call, and the one walker that hides them.

Secret are the values that a tool's schema marks (``writeOnly`` or ``format: password``, as
SecretStr has them) and, unless all is wanted, those with the name of a secret, at any depth. A
record is bounded text that any database takes; people who confirm a call
(``mcp_bridge.access.confirmation``) read all the rest, uncut.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.features.secrets import SENSITIVE, names_secret
from mcp_bridge.protocol import ProtocolError, jsonrpc
from mcp_bridge.protocol.text import storable
from mcp_bridge.schemas.walk import DEFINITIONS, SchemaDocument, subschemas

HIDDEN: Final = "[redacted]"
CUT: Final = "…"
MAX_DEPTH: Final = 8
# A file in an argument (RFC 2397, section 3): the media type with its parameters, and the data.
_DATA_URI: Final = re.compile(
    r"data:([\w!#$&^.+-]{1,64}/[\w!#$&^.+-]{1,64})?((?:;[\w!#$&^.+=\"' -]{1,80}){0,4}?)(;base64)?,",
    re.ASCII | re.IGNORECASE,
)
# The bytes that JSON puts around and between values; and those of the cuts, one at every depth.
_BETWEEN: Final = 6
_RESERVED: Final = (MAX_DEPTH + 1) * 16
# The keywords whose subschemas do not mark the value of the schema: members mark themselves.
_APART: Final = DEFINITIONS | {"properties"}


@dataclass(frozen=True, slots=True)
class SensitiveFields:
    """
    The names of the secret members in arguments.

    ``marked`` are those that a schema marks. ``allowed`` are the only ones that are shown, where a
    schema marks all members that it does not name, else None. A name is a secret too if one of
    ``name_parts`` is in it; None to go by no name.
    """

    marked: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    name_parts: tuple[str, ...] | None = SENSITIVE

    def hides(self, name: str) -> bool:
        """Return whether the member of that name is secret, with all that is in it."""
        is_other = self.allowed is not None and name not in self.allowed
        return is_other or name in self.marked or self._is_named(name)

    def read(self, text: str, *, decode: bool = True) -> object:
        """
        Return the JSON value of a text that holds an object, an array or a text as JSON.

        Several clients send objects that way. Any other text is returned as it is; None stands for
        one that cannot be read, or is not to be (``decode``), and may hold a secret.
        """
        if text.lstrip()[:1] not in ("{", "[", '"'):
            return text
        if decode:
            try:
                return jsonrpc.decode(text.encode())
            except (ProtocolError, UnicodeError):
                pass
        is_marked = self.allowed is not None or any(name in text for name in self.marked)
        return None if is_marked or self._is_named(text) else text

    def _is_named(self, text: str) -> bool:
        return self.name_parts is not None and names_secret(text, self.name_parts)


def sensitive_fields(tool: Tool | None, *, by_name: bool = True) -> SensitiveFields:
    """
    Return the secret members in the arguments of a tool, or of a call of no known tool.

    Without ``by_name``, only those that the tool's schema marks.
    """
    marked, allowed = (frozenset[str](), None) if tool is None else _marks(tool)
    return SensitiveFields(marked, allowed, conf.sensitive_names if by_name else None)


@lru_cache(maxsize=1024)
def _marks(tool: Tool) -> tuple[frozenset[str], frozenset[str] | None]:
    """Return ``marked`` and ``allowed`` of a tool's SensitiveFields, by all of its schema."""
    try:
        document = SchemaDocument(tool.input_schema)
        members = [
            member
            for schema in document.subschemas
            for member in schema.get("properties", {}).items()
        ]
        marked = frozenset(name for name, schema in members if _is_marked(schema, document))
        is_open = not _is_marked(document.root, document)
    except Exception:
        # A source of the site's own may give anything for a schema: then every member is a secret.
        return frozenset(), frozenset()
    return marked, None if is_open else frozenset(name for name, _ in members)


def _is_marked(schema: object, document: SchemaDocument) -> bool:
    """Return whether a schema marks its value, or an item or further member of it, as secret."""
    pending, seen = [schema], set[int]()
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping) and id(each) not in seen:
            if each.get("writeOnly") is True or each.get("format") == "password":
                return True
            seen.add(id(each))
            pending += document.targets(each).values()
            pending += (part.schema for part in subschemas(each) if part.keyword not in _APART)
    return False


def redact_to_json(arguments: object, *, limit: int, secrets: SensitiveFields) -> str:
    """
    Return arguments of any kind as JSON text of at most ``limit`` bytes, without secrets.

    Of a file, which is a ``data:`` URI (RFC 2397), the media type and the size are kept.
    """
    redactor = Redactor(secrets, left=limit - _RESERVED, max_depth=MAX_DEPTH, with_files=False)
    return _dumped(redactor.value(arguments))


@dataclass(slots=True)
class Redactor:
    """
    Replaces the secrets in a value by ``hidden``, and cuts the value to ``left`` bytes of JSON.

    Without a limit, all that is not secret stays as it is. ``max_depth`` is how many objects and
    arrays may stand inside each other, ``max_inside`` how many texts of JSON are read inside each
    other; one further in is left as it is, or hidden. Without ``with_files``, the data of a
    ``data:`` URI is replaced by its size.
    """

    secrets: SensitiveFields
    hidden: str = HIDDEN
    left: float = math.inf
    max_depth: float = math.inf
    max_inside: float = math.inf
    with_files: bool = True

    def value(self, value: object, depth: int = 1, inside: int = 0) -> object:
        """Return a value without its secrets; it is ``depth`` deep, in ``inside`` texts of JSON."""
        self.left -= _BETWEEN
        is_too_deep = depth > self.max_depth and isinstance(value, (Mapping, list, tuple))
        if self.left <= 0 or is_too_deep:
            return CUT
        if isinstance(value, Mapping):
            members: dict[str, object] = {}
            for key, each in value.items():
                if self.left <= 0:
                    members[CUT] = CUT
                    break
                name = self._cut(str(key))
                is_secret = self.secrets.hides(str(key))
                members[name] = self._hide() if is_secret else self.value(each, depth + 1, inside)
            return members
        if isinstance(value, list | tuple):
            items: list[object] = []
            for each in value:
                if self.left <= 0:
                    items.append(CUT)
                    break
                items.append(self.value(each, depth + 1, inside))
            return items
        return self._text(value, depth, inside) if isinstance(value, str) else self._scalar(value)

    def _text(self, text: str, depth: int, inside: int) -> str:
        file = None if self.with_files else _DATA_URI.match(text)
        if file is not None:
            size = len(text) - file.end()
            if file[3]:
                size = (size - text.endswith("=") - text.endswith("==")) * 3 // 4
            return self._cut(f"{file[0]}{CUT} ({size} bytes)")
        inner = self.secrets.read(text, decode=inside < self.max_inside)
        if inner is None:
            return self._hide()
        if inner is not text:
            # Read with the bytes that are left, which are then counted for the text alone.
            left = self.left
            shown = self.value(inner, depth + 1, inside + 1)
            self.left = left
            text = text if shown == inner else _dumped(shown)
        return self._cut(text)

    def _scalar(self, value: object) -> object:
        is_finite = isinstance(value, float) and math.isfinite(value)
        if value is None or is_finite or (isinstance(value, int) and value.bit_length() <= 2048):
            size = len(_dumped(value))
            if size <= self.left:
                self.left -= size
                return value
        # NaN, infinities, numbers of thousands of digits, and all that is not JSON.
        return self._cut(repr(value) if isinstance(value, float) else f"({type(value).__name__})")

    def _cut(self, text: str) -> str:
        """Return a text, cut to the bytes that are left."""
        if self.left == math.inf:
            return text
        left = max(int(self.left), 0)
        text = storable(text, left + 1)
        size = len(_dumped(text).encode())
        if size > left:
            # No character takes more than six bytes.
            text = text[: left // 6] + CUT
            size = len(_dumped(text).encode())
        self.left -= size
        return text

    def _hide(self) -> str:
        self.left -= len(self.hidden.encode()) + 2 + _BETWEEN
        return self.hidden


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

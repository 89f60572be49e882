"""
What a record keeps of the arguments of a call and of its error, without secrets.

Secret are the values that a tool's schema marks (``writeOnly`` or ``format: password``, as
SecretStr has them) and, unless all is wanted, those with the name of a secret, at any depth. A
record is bounded text that any database takes. In other texts than JSON, only what has the form of
a credential is found. What people read who confirm a call is for
``mcp_bridge.confirmation.rendering``.

An error may quote the arguments: what is secret in them is hidden wherever its text repeats it,
whole, cut, or in another case. What a tool has made of it before (a hash, another encoding) is not
found.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.features.secrets import SENSITIVE, names_secret
from mcp_bridge.models.outcomes import ERRORS_KEY
from mcp_bridge.protocol import CallToolResult, ProtocolError, TextContent, jsonrpc
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut, storable
from mcp_bridge.records.record import printable
from mcp_bridge.schemas.walk import DEFINITIONS, SchemaDocument, subschemas

logger = get_logger("mcp_bridge.records")

HIDDEN: Final = "[redacted]"
CUT: Final = "…"
MAX_DEPTH: Final = 8
# A file in an argument (RFC 2397, section 3): the media type with its parameters, and the data.
_DATA_URI: Final = re.compile(
    r"data:([\w!#$&^.+-]{1,64}/[\w!#$&^.+-]{1,64})?((?:;[\w!#$&^.+=\"' -]{1,80}){0,4}?)(;base64)?,",
    re.ASCII | re.IGNORECASE,
)
# What may stand before JSON; Python does not take a byte order mark for white space.
_BLANK: Final = re.compile(r"[\s\ufeff]*")
# A private key or certificate, to its end or that of the text; a JSON Web Token; a token of
# mcp_bridge.tokens; what follows a scheme (RFC 9110, section 11.4); and the user of an address.
_CREDENTIALS: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|\Z)"
    r"|\beyJ[\w+/=.-]{8,}|\bmcp_[\w-]{40,}"
    r"|(?<!\w)(?i:bearer|basic) +(?=\S*\d|\S{20})[\w.~+/=-]{8,}"
    r"|(?<=://)[^\s/?#@]+(?=@)"
)
# The bytes that JSON puts around and between values; and those of the cuts, one at every depth.
_BETWEEN: Final = 6
_RESERVED: Final = (MAX_DEPTH + 1) * 16
# The keywords whose subschemas do not mark the value of the schema: members mark themselves.
_APART: Final = DEFINITIONS | {"properties"}
# The characters of an error that are kept, and the pointers, none of which is longer than 100.
_MOST_ERROR: Final = 499
_MOST_POINTERS: Final = 4
# The characters of arguments, the words of their secrets, and the characters of a text that are
# looked at: it is an error that costs this, and whoever calls can make many. Beyond, all is hidden.
_MOST_ARGUMENTS: Final = 64 * 1024
_MOST_SECRETS: Final = 500
_MOST_TEXT: Final = 2048
# Of fewer characters, only a whole word is taken for a part of a secret.
_LEAST: Final = 3
_WORD: Final = re.compile(r"\w+")


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

    def read(self, text: str) -> object:
        """
        Return the JSON value of a text that holds an object, an array or a text as JSON.

        Several clients send objects that way. Any other text is returned as it is; None stands for
        one that cannot be read and may hold a secret.
        """
        inner = text[_BLANK.match(text).end() :]  # type: ignore[union-attr]
        if inner[:1] not in ("{", "[", '"'):
            return text
        with suppress(ProtocolError, UnicodeError):
            return jsonrpc.decode(inner.encode())
        is_marked = self.allowed is not None or any(name in text for name in self.marked)
        return None if is_marked or self._is_named(text) else text

    def without_credentials(self, text: str) -> str:
        """Return a text without what has the form of a credential, unless all is wanted."""
        return text if self.name_parts is None else _CREDENTIALS.sub(HIDDEN, text)

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
        marked = frozenset(name for name, schema in members if is_marked(schema, document))
        is_open = not is_marked(document.root, document)
    except Exception:
        # A source of the site's own may give anything for a schema: then every member is a secret.
        return frozenset(), frozenset()
    return marked, None if is_open else frozenset(name for name, _ in members)


def is_marked(schema: object, document: SchemaDocument) -> bool:
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
    redactor = Redactor(secrets, limit - _RESERVED)
    return _dumped(redactor.value(arguments))


@dataclass(slots=True)
class Redactor:
    """
    Replaces the secrets in a value by HIDDEN, and cuts the value to ``left`` bytes of JSON.

    Objects and arrays stand inside each other MAX_DEPTH times at most; the data of a ``data:`` URI
    is replaced by its size.
    """

    secrets: SensitiveFields
    left: int

    def value(self, value: object, depth: int = 1) -> object:
        """Return a value, ``depth`` deep, without its secrets."""
        self.left -= _BETWEEN
        is_too_deep = depth > MAX_DEPTH and isinstance(value, (Mapping, list, tuple))
        if self.left <= 0 or is_too_deep:
            return CUT
        if isinstance(value, Mapping):
            return self._members(value, depth)
        if isinstance(value, list | tuple):
            items: list[object] = []
            for each in value:
                if self.left <= 0:
                    items.append(CUT)
                    break
                items.append(self.value(each, depth + 1))
            return items
        return self._text(value, depth) if isinstance(value, str) else self._scalar(value)

    def _members(self, value: Mapping[object, object], depth: int) -> object:
        members: dict[str, object] = {}
        for key, each in value.items():
            if self.left <= 0:
                members[CUT] = CUT
                break
            is_secret = self.secrets.hides(str(key))
            name = self._cut(self.secrets.without_credentials(str(key)))
            members[name] = self._hide() if is_secret else self.value(each, depth + 1)
        return members

    def _text(self, text: str, depth: int) -> str:
        file = _DATA_URI.match(text)
        if file is not None:
            size = len(text) - file.end()
            if file[3]:
                size = (size - text.endswith("=") - text.endswith("==")) * 3 // 4
            return self._cut(f"{file[0]}{CUT} ({size} bytes)")
        inner = self.secrets.read(text)
        if inner is None:
            return self._hide()
        if inner is not text:
            # Read with the bytes that are left, which are then counted for the text alone.
            left = self.left
            shown = self.value(inner, depth + 1)
            self.left = left
            return self._cut(text if shown == inner else _dumped(shown))
        return self._cut(self.secrets.without_credentials(text))

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
        left = max(self.left, 0)
        text = storable(text, left + 1)
        size = len(_dumped(text).encode())
        if size > left:
            # No character takes more than six bytes.
            text = text[: left // 6] + CUT
            size = len(_dumped(text).encode())
        self.left -= size
        return text

    def _hide(self) -> str:
        self.left -= len(HIDDEN) + 2 + _BETWEEN
        return HIDDEN


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def kept_arguments(arguments: object, name: str, tool: Tool | None) -> str:
    """Return arguments as AUDIT["ARGUMENTS"] has them kept; "" if they raise, which is logged."""
    try:
        limit = conf.audit.MAX_ARGUMENTS_BYTES
        return redact_to_json(arguments, limit=limit, secrets=_secrets_of(tool))
    except Exception:
        logger.exception("The record of a call of %r has no arguments", name)
        return ""


def kept_error(error: object, arguments: object, name: str, tool: Tool | None) -> tuple[str, str]:
    """
    Return what the client reads of a CallToolResult or a ProtocolError, without secrets.

    That is its text, and the JSON pointers of the arguments that it refuses, one a line. Of a
    question, or of another exception, nothing is kept.
    """
    pointers: list[str] = []
    try:
        if isinstance(error, CallToolResult):
            text = "\n".join(each.text for each in error.content if isinstance(each, TextContent))
            pointers = [str(each["path"]) or "/" for each in error.meta.get(ERRORS_KEY, ())]
        elif isinstance(error, ProtocolError):
            text = error.message
        else:
            return "", ""
        pointers = list(dict.fromkeys(pointers))[:_MOST_POINTERS]
        shown = _without_quotations([text, *pointers], arguments, _secrets_of(tool))
        text, *pointers = (" ".join(each.split()) for each in shown)
    except Exception:
        logger.exception("The record of a call of %r has no error's text", name)
        return "", ""
    return printable(cut(text, _MOST_ERROR)), "\n".join(printable(each[:100]) for each in pointers)


def _secrets_of(tool: Tool | None) -> SensitiveFields:
    return sensitive_fields(tool, by_name=conf.audit.ARGUMENTS != "full")


def _without_quotations(
    texts: Sequence[str], arguments: object, secrets: SensitiveFields
) -> list[str]:
    """Return texts without the secrets in them, or in the arguments of the call."""
    sent = json.dumps(arguments, ensure_ascii=False, default=str)
    if len(sent) > _MOST_ARGUMENTS:
        return [HIDDEN] * len(texts)
    # No text of it is cut: JSON takes six bytes for a character at most.
    shown = redact_to_json(arguments, limit=8 * _MOST_ARGUMENTS, secrets=secrets)
    hidden = _words(sent) - _words(shown)
    if len(hidden) > _MOST_SECRETS:
        return [HIDDEN] * len(texts)
    whole = "\n".join(hidden)
    longer = [word for word in hidden if len(word) >= _LEAST]

    def without(found: re.Match[str]) -> str:
        word = found[0].casefold()
        is_part = len(word) >= _LEAST and word in whole
        is_secret = word in hidden or is_part or any(each in word for each in longer)
        return HIDDEN if is_secret else found[0]

    looked_at = [text[:_MOST_TEXT] for text in texts]
    quoted = [_WORD.sub(without, text) for text in looked_at] if hidden else looked_at
    return [secrets.without_credentials(text) for text in quoted]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}

"""
Redaction of the arguments and errors of calls for records.

Secret are the values that a tool's schema marks (``writeOnly`` or ``format: password``, as for
SecretStr) and, unless AUDIT["ARGUMENTS"] is "full", those under the name of a secret, at any
depth. The result is bounded text that any database stores. In texts that are not JSON, only
strings in the form of a credential are found. Arguments for people who confirm a call are
rendered by ``mcp_bridge.confirmation.rendering``.

An error may quote the arguments: their secrets are hidden wherever its text repeats them, whole,
truncated, or in another case. Derived forms (a hash, another encoding) are not found.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from traceback import format_exception_only
from typing import Final

from mcp_bridge.calls.errors import HandledError
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import Feature
from mcp_bridge.features.secrets import SENSITIVE, names_secret
from mcp_bridge.protocol import ERRORS_KEY, CallToolResult, ProtocolError, TextContent, jsonrpc
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
# May precede JSON; Python's isspace() does not include the byte order mark.
_BLANK: Final = re.compile(r"[\s\ufeff]*")
# A private key or certificate, to its end or the end of the text; a JSON Web Token; a token of
# mcp_bridge.tokens; the value after a scheme (RFC 9110, section 11.4); the userinfo of a URL.
_CREDENTIALS: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|\Z)"
    r"|\beyJ[\w+/=.-]{8,}|\bmcp_[\w-]{40,}"
    r"|(?<!\w)(?i:bearer|basic) +(?=\S*\d|\S{20})[\w.~+/=-]{8,}"
    r"|(?<=://)[^\s/?#@]+(?=@)"
)
# The bytes that JSON adds around and between values, and those of CUT, one per depth.
_BETWEEN: Final = 6
_RESERVED: Final = (MAX_DEPTH + 1) * 16
# Keywords whose subschemas do not mark the schema's own value: members mark themselves.
_APART: Final = DEFINITIONS | {"properties"}
# The characters kept of an error, and the number of pointers, each at most 100 characters.
_MOST_ERROR: Final = 499
_MOST_POINTERS: Final = 4
# Limits on the characters of arguments, the words of their secrets, and the characters of a text
# that are searched: any caller can cause many errors. Beyond the limits everything is hidden.
_MOST_ARGUMENTS: Final = 64 * 1024
_MOST_SECRETS: Final = 500
_MOST_TEXT: Final = 2048
# Shorter parts of a secret are hidden only as whole words.
_LEAST: Final = 3
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class SensitiveFields:
    """
    The names of the secret members of arguments.

    ``marked`` are those that a schema marks. If a schema marks all unnamed members, ``allowed`` has
    the only names that are shown, else it is None. A name that contains one of ``name_parts`` is
    secret too; None disables the check by name.
    """

    marked: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    name_parts: tuple[str, ...] | None = SENSITIVE

    def hides(self, name: str) -> bool:
        """Return whether the member is secret, including its content."""
        is_other = self.allowed is not None and name not in self.allowed
        return is_other or name in self.marked or self._is_named(name)

    def read(self, text: str) -> object:
        """
        Return the JSON value of a text that holds an object, an array or a string as JSON.

        Several clients send objects as text. Any other text is returned unchanged; None means that
        it cannot be parsed and may hold a secret.
        """
        inner = text[_BLANK.match(text).end() :]  # type: ignore[union-attr]
        if inner[:1] not in ("{", "[", '"'):
            return text
        with suppress(ProtocolError, UnicodeError):
            return jsonrpc.decode(inner.encode())
        is_marked = self.allowed is not None or any(name in text for name in self.marked)
        return None if is_marked or self._is_named(text) else text

    def without_credentials(self, text: str) -> str:
        """Return a text without strings that look like credentials, unless all are shown."""
        return text if self.name_parts is None else _CREDENTIALS.sub(HIDDEN, text)

    def _is_named(self, text: str) -> bool:
        return self.name_parts is not None and names_secret(text, self.name_parts)


def sensitive_fields(tool: Feature | None, *, by_name: bool = True) -> SensitiveFields:
    """
    Return the secret members of the arguments of a tool, or of an unknown tool (None).

    Without ``by_name``, only those that the tool's schema marks.
    """
    marked, allowed = (frozenset[str](), None) if tool is None else _marks(tool)
    return SensitiveFields(marked, allowed, conf.sensitive_names if by_name else None)


@lru_cache(maxsize=1024)
def _marks(tool: Feature) -> tuple[frozenset[str], frozenset[str] | None]:
    """Return ``marked`` and ``allowed`` of SensitiveFields from all parts of a tool's schema."""
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
        # A site's own source may give an invalid schema: then every member is secret.
        return frozenset(), frozenset()
    return marked, None if is_open else frozenset(name for name, _ in members)


def is_marked(schema: object, document: SchemaDocument) -> bool:
    """Return whether a schema marks its value, its items or its other members as secret."""
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
    Return arguments of any type as JSON text of at most ``limit`` bytes, without secrets.

    Files, which are ``data:`` URIs (RFC 2397), are reduced to their media type and size.
    """
    redactor = Redactor(secrets, limit - _RESERVED)
    return _dumped(redactor.value(arguments))


@dataclass(slots=True)
class Redactor:
    """
    A replacement of secrets by HIDDEN that also cuts the value to ``left`` bytes of JSON.

    Objects and arrays are nested at most MAX_DEPTH deep; the data of a ``data:`` URI is replaced
    by its size.
    """

    secrets: SensitiveFields
    left: int

    def value(self, value: object, depth: int = 1) -> object:
        """Return a value at ``depth`` without its secrets."""
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
            # The inner value may use all remaining bytes; only its text counts.
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
        # NaN, infinities, numbers of thousands of digits, and values that are not JSON.
        return self._cut(repr(value) if isinstance(value, float) else f"({type(value).__name__})")

    def _cut(self, text: str) -> str:
        """Return a text, truncated to the remaining bytes."""
        left = max(self.left, 0)
        text = storable(text, left + 1)
        size = len(_dumped(text).encode())
        if size > left:
            # A character takes at most six bytes.
            text = text[: left // 6] + CUT
            size = len(_dumped(text).encode())
        self.left -= size
        return text

    def _hide(self) -> str:
        self.left -= len(HIDDEN) + 2 + _BETWEEN
        return HIDDEN


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def kept_arguments(arguments: object, name: str, tool: Feature | None) -> str:
    """Return arguments redacted as AUDIT["ARGUMENTS"] says; "" with a log entry on failure."""
    try:
        limit = conf.audit.MAX_ARGUMENTS_BYTES
        return redact_to_json(arguments, limit=limit, secrets=_secrets_of(tool))
    except Exception:
        logger.exception("The arguments of a call of %r could not be recorded", name)
        return ""


def kept_error(
    error: object, arguments: object, name: str, tool: Feature | None
) -> tuple[str, str]:
    """
    Return the text and the JSON pointers of an error, as the client receives it, without secrets.

    The pointers are those of invalid arguments, one a line. The text of an internal error has a
    second line, which the client does not receive: the exception. For a question both are "".
    """
    sent = error.result if isinstance(error, CallRefused | HandledError) else error
    texts, pointers = [""], list[str]()
    try:
        cause = error.cause if isinstance(error, HandledError) else None
        if isinstance(sent, CallToolResult):
            texts = ["\n".join(each.text for each in sent.content if isinstance(each, TextContent))]
            pointers = [str(each["path"]) or "/" for each in sent.meta.get(ERRORS_KEY, ())]
            if isinstance(error, CallRefused) and error.reference:
                cause = error.__cause__
        elif isinstance(sent, ProtocolError):
            texts = [sent.message]
        elif isinstance(sent, Exception):
            cause = sent
        if cause is not None:
            texts.append("".join(format_exception_only(cause)))
        pointers = list(dict.fromkeys(pointers))[:_MOST_POINTERS]
        shown = _without_quotations([*texts, *pointers], arguments, _secrets_of(tool))
        shown = [printable(" ".join(each.split())) for each in shown]
    except Exception:
        logger.exception("The error of a call of %r could not be recorded", name)
        return "", ""
    text, pointers = "\n".join(shown[: len(texts)]), shown[len(texts) :]
    return cut(text, _MOST_ERROR), "\n".join(each[:100] for each in pointers)


def _secrets_of(tool: Feature | None) -> SensitiveFields:
    return sensitive_fields(tool, by_name=conf.audit.ARGUMENTS != "full")


def _without_quotations(
    texts: Sequence[str], arguments: object, secrets: SensitiveFields
) -> list[str]:
    """Return texts without secrets, including those quoted from the call's arguments."""
    sent = json.dumps(arguments, ensure_ascii=False, default=str)
    if len(sent) > _MOST_ARGUMENTS:
        return [HIDDEN] * len(texts)
    # Nothing is truncated: JSON takes at most six bytes for a character.
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

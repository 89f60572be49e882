"""
What a record keeps of the arguments of a call and of its error, without secrets.

An error may quote the arguments: what is secret in them is hidden wherever its text repeats it,
whole, cut, or in another case. What a tool has made of it before (a hash, another encoding) is not
found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.models.outcomes import ERRORS_KEY
from mcp_bridge.protocol import CallToolResult, ProtocolError, TextContent
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut
from mcp_bridge.records.record import printable
from mcp_bridge.records.redaction import (
    HIDDEN,
    SensitiveFields,
    redact_to_json,
    sensitive_fields,
)

logger = get_logger("mcp_bridge.records")

# The most characters of an error's text on record.
MAX_ERROR: Final = 500
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


def kept_arguments(arguments: object, name: str, tool: Tool | None) -> str:
    """Return arguments of any kind as JSON text, or "" if they cannot be read, which is logged."""
    try:
        return redacted_arguments(arguments, tool)
    except Exception:
        logger.exception("The record of a call of %r has no arguments", name)
        return ""


def kept_error(error: object, arguments: object, name: str, tool: Tool | None) -> tuple[str, str]:
    """
    Return what the client reads of a CallToolResult or a ProtocolError, without secrets.

    That is its text, and the pointers of the arguments that it refuses, one a line.
    """
    try:
        text, pointers = redacted_error(error, arguments, tool)
    except Exception:
        logger.exception("The record of a call of %r has no error's text", name)
        return "", ""
    return printable(text[:MAX_ERROR]), "\n".join(printable(each[:100]) for each in pointers)


def redacted_arguments(arguments: object, tool: Tool | None) -> str:
    """Return arguments of any kind as JSON text, as AUDIT["ARGUMENTS"] has them kept."""
    return redact_to_json(arguments, limit=conf.audit.MAX_ARGUMENTS_BYTES, secrets=_secrets(tool))


def redacted_error(error: object, arguments: object, tool: Tool | None) -> tuple[str, list[str]]:
    """
    Return what the client reads of an error, and the JSON pointers of the arguments it refuses.

    The error is a CallToolResult or a ProtocolError: of a question, or of another exception,
    nothing is kept.
    """
    pointers: list[str] = []
    if isinstance(error, CallToolResult):
        text = "\n".join(each.text for each in error.content if isinstance(each, TextContent))
        pointers = [str(each["path"]) or "/" for each in error.meta.get(ERRORS_KEY, ())]
    elif isinstance(error, ProtocolError):
        text = error.message
    else:
        return "", []
    pointers = list(dict.fromkeys(pointers))[:_MOST_POINTERS]
    shown = _without_quotations([text, *pointers], arguments, _secrets(tool))
    text, *pointers = (" ".join(each.split()) for each in shown)
    return cut(text, _MOST_ERROR), pointers


def _secrets(tool: Tool | None) -> SensitiveFields:
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

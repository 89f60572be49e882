"""
Secrets inside texts that are no JSON: forms, addresses, headers, settings, command lines, keys.

A text is searched once for what has the form of a secret, and for names of secrets before a sign
and a value. Each pattern takes a time that grows with the length of the text, and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Final
from urllib.parse import unquote

from mcp_bridge.features.secrets import plain

HIDDEN: Final = "[redacted]"
# What has a name in it, and what has the value of that, in an object or a text that keeps them
# apart; without what divides words.
NAMING: Final = frozenset(
    {"name", "key", "field", "header", "option", "parameter", "param", "property", "variable"}
)
VALUES: Final = frozenset({"value", "values", "val", "content", "contents", "data", "text"})

# Whatever stands around them: a private key or a certificate, down to its end or that of the text;
# what begins as base64 of a JSON object does (a JWT too); and a token of mcp_bridge.tokens.
_SECRETS: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|\Z)"
    r"|\beyJ[\w+/=.-]{8,}|\bmcp_[\w-]{40,}"
)
# A credential behind its scheme (RFC 9110, section 11.4), which prose may name as well.
_CREDENTIAL: Final = re.compile(
    r"(?<!\w)(bearer|basic|digest|negotiate|token|apikey) +(?=\S*\d|\S{20})[\w.~+/=-]{8,}", re.I
)
# The user and password of an address (RFC 3986, section 3.2.1).
_USERINFO: Final = re.compile(r"(?<=://)[^\s/?#@]+(?=@)")
# Possessive: of what stands in a name and behind it, all is taken, or a text without ">" would be
# tried with each end of the name.
_ELEMENT: Final = re.compile(r"(<([\w.:-]++)[^<>]*+>)([^<]+)")
# A name of one or two words, escaped or not, and the sign between it and a value.
_NAMED: Final = re.compile(
    r"(?<![\w.%+$\[\]\\-])((?:[\w.%+$\[\]\\-]+ )?[\w.%+$\[\]\\-]+)"
    r"[\"']?\s*(=>|[:=\uff1a\uff1d]+)\s*"
)
# The name that is the value of "name", of which no more is read.
_NAME: Final = re.compile(r"[\"']?([^\s&;,<>\"']{1,64})")
# The rest of the head of a part of a form (RFC 7578), and its body.
_PART: Final = re.compile(r"(\"[^\r\n]{0,200}\r?\n\r?\n)(?:(?!\r?\n--)[\s\S])+")
# Values: in quotation marks; of several lines, which take all that follows; and others, to the end
# of the line after a colon, else of the word.
_QUOTED: Final = re.compile(r"(?:([\"'])(?:\\[\s\S]|(?!\1)[^\\])*(?:\1|\\?\Z))+")
_LINES: Final = re.compile(r"(?:(?!\[redacted\])[{\[]|[|>][-+\d]*[ \t]*\r?\n)[\s\S]*")
_LINE: Final = re.compile(r"[^\r\n]+")
_WORD: Final = re.compile(r"[^\s&;,<>]+")
# The number of a character in HTML, of more digits than any has: Python reads no thousands of them.
_LONG_NUMBER: Final = re.compile(r"&#([0-9]{20,}+)")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[nrt])")
# Times that a text may be escaped.
_MOST_ESCAPED: Final = 3


def unescaped(text: str) -> str:
    """Return a text without the escapes of addresses, JSON, Python and HTML, if it has some."""
    for _ in range(_MOST_ESCAPED):
        if "%" not in text and "\\" not in text and "&" not in text:
            break
        bare = unquote(_ESCAPE.sub(_character, text))
        text, before = unescape(_LONG_NUMBER.sub(_short, bare)), text
        if text == before:
            break
    return text


def hide_secrets(text: str, is_secret: Callable[[str], bool]) -> str:
    """
    Return a text in which secrets are hidden; ``is_secret`` says whether a name is that of one.

    A text that shows a secret once it is not escaped any more is hidden as a whole.
    """
    shown = _hidden(text, is_secret)
    bare = unescaped(shown)
    return shown if bare == shown or _hidden(bare, is_secret) == bare else HIDDEN


def _hidden(text: str, is_secret: Callable[[str], bool]) -> str:
    text = _SECRETS.sub(HIDDEN, text)
    text = _CREDENTIAL.sub(rf"\1 {HIDDEN}", text)
    text = _USERINFO.sub(HIDDEN, text)
    text = _ELEMENT.sub(
        lambda found: found[1] + (HIDDEN if is_secret(found[2]) else found[3]), text
    )
    parts: list[str] = []
    at, searched, is_next = 0, 0, False
    while found := _NAMED.search(text, searched):
        searched = found.end()
        name, value, mark = unescaped(found[1]), None, ""
        if is_secret(name) or is_next and plain(name) in VALUES:
            is_next = False
            if quoted := _QUOTED.match(text, searched):
                value, mark = quoted, quoted[1]
            else:
                rest = _WORD if found[2][0] in "=\uff1d" else _LINE
                value = _LINES.match(text, searched) or rest.match(text, searched)
        elif plain(name) in NAMING:
            word = _NAME.match(text, searched)
            is_next = word is not None and is_secret(word[1])
            if word is not None and is_next and (value := _PART.match(text, word.end())):
                searched, is_next = value.end(1), False
        if value is not None:
            parts += text[at:searched], mark, HIDDEN, mark
            at = searched = value.end()
    return "".join([*parts, text[at:]])


def _short(found: re.Match[str]) -> str:
    return f"&#{found[1].lstrip('0')[:20]:0>1}"


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else " "

"""Recognise secrets by the names of arguments, members and operations."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

# Matched anywhere in a name, which is lowercased and stripped of word separators first, so that
# API_KEY and apiKey are equal.
SENSITIVE: Final = (
    *("accesskey", "apikey", "authorization", "bearer", "cookie", "credential", "passphrase"),
    *("passwd", "password", "passcode", "privatekey", "secret", "sessionid", "sessionkey"),
    *("signature", "signingkey", "token"),
)
# Too short to match anywhere: matched as whole words.
SENSITIVE_WORDS: Final = frozenset({"auth", "cvc", "cvv", "otp", "pass", "pin", "pwd", "ssn"})
# Words of operations that deal with credentials or sessions, regardless of their arguments.
_ACTS: Final = frozenset(
    {"auth", "hijack", "impersonate", "login", "logout", "otp", "pwd", "signin", "signup"}
)
_DIVIDERS: Final = re.compile(r"[\W_]+")
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def plain(name: str) -> str:
    """Return a name in lower case, without word separators, accents and width variants."""
    return _DIVIDERS.sub("", _decomposed(name)).lower()


def _decomposed(text: str) -> str:
    """Return a text in compatibility decomposition (NFKD), which splits off accents."""
    return text if text.isascii() else unicodedata.normalize("NFKD", text)


def names_secret(
    text: str, parts: Iterable[str] = SENSITIVE, words: frozenset[str] = SENSITIVE_WORDS
) -> bool:
    """Return whether a name, or any name in a text, is a secret's; ``parts`` are ``plain()``."""
    whole = plain(text)
    # Loops are faster than any(), and splitting into words is slow: sites have thousands of names.
    for part in parts:
        if part in whole:
            return True
    for word in words:
        if word in whole:
            return not words.isdisjoint(map(str.lower, _WORDS.findall(_decomposed(text))))
    return False


def deals_with_secrets(name: str, parts: Iterable[str] = SENSITIVE) -> bool:
    """Return whether an operation, by its name, creates, changes or reads secrets."""
    return names_secret(name, parts, _ACTS)

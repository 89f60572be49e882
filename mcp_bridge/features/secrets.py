"""Names that say of a value that it is a secret: of arguments, members and operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# In lower case and without what divides words, so that API_KEY and apiKey are one; wherever they
# stand in a name.
SENSITIVE: Final = (
    *("accesskey", "apikey", "authorization", "bearer", "cookie", "credential", "passphrase"),
    *("passwd", "password", "passcode", "privatekey", "secret", "sessionid", "sessionkey"),
    *("signature", "signingkey", "token"),
)
# Too short for that: words of their own.
SENSITIVE_WORDS: Final = frozenset({"auth", "cvc", "cvv", "otp", "pass", "pin", "pwd", "ssn"})
# Words of operations that begin or end a session, whatever their arguments are called.
_SESSIONS: Final = frozenset({"hijack", "impersonate", "login", "logout", "signin", "signup"})
_DIVIDERS: Final = re.compile(r"[\W_]+")
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def plain(name: str) -> str:
    """Return a name in lower case, without what divides its words."""
    return _DIVIDERS.sub("", name).lower()


def names_secret(text: str, parts: Iterable[str] = SENSITIVE) -> bool:
    """Return whether a name, or any name in a text, is that of a secret; ``parts`` are plain."""
    whole = plain(text)
    return any(part in whole for part in parts) or not SENSITIVE_WORDS.isdisjoint(_words(text))


def names_session(text: str) -> bool:
    """Return whether the name of an operation says that it begins or ends a session."""
    return not _SESSIONS.isdisjoint(_words(text))


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(text)}

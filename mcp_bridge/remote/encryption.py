"""Secrets in rows: encrypted under REMOTE_SECRET_KEYS, or the name of a variable, MCP_REMOTE_…."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from django.views.decorators.debug import sensitive_variables

from mcp_bridge.conf import conf

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

# Only these variables: administrators of servers could send any other to a host of theirs.
_VARIABLE: Final = re.compile(r"env:(MCP_REMOTE_[A-Z0-9_]+)")


class SecretUnavailable(Exception):
    """A stored secret cannot be read; the text says why, without the secret."""


def cipher_of(keys: Iterable[str]) -> MultiFernet:
    """Return the cipher of Fernet keys. Raises TypeError or ValueError without valid ones."""
    # Imported late: only the extra "remote" installs it.
    from cryptography.fernet import Fernet, MultiFernet

    return MultiFernet([Fernet(each) for each in keys])


def variable_in(text: str) -> str | None:
    """Return the name of the environment variable in ``env:MCP_REMOTE_…``, or None."""
    found = _VARIABLE.fullmatch(text)
    return found and found[1]


@sensitive_variables()
def sealed(text: str) -> str:
    """
    Return a secret as it is stored: encrypted with the first key, or ``env:MCP_REMOTE_…`` itself.

    Raises SecretUnavailable if REMOTE_SECRET_KEYS does not have valid keys.
    """
    if variable_in(text):
        return text
    return _fernet().encrypt(text.encode()).decode()


@sensitive_variables()
def opened(stored: str) -> str:
    """Return a stored secret. Raises SecretUnavailable."""
    name = variable_in(stored)
    if name is not None:
        value = os.environ.get(name, "")
        if not value:
            raise SecretUnavailable(f"the environment variable {name} is not set")
        return value
    from cryptography.fernet import InvalidToken

    try:
        return _fernet().decrypt(stored).decode()
    except InvalidToken:
        raise SecretUnavailable("no key in REMOTE_SECRET_KEYS can decrypt it") from None


def _fernet() -> MultiFernet:
    try:
        return cipher_of(conf.REMOTE_SECRET_KEYS)
    except (TypeError, ValueError):
        raise SecretUnavailable("REMOTE_SECRET_KEYS does not have valid keys") from None

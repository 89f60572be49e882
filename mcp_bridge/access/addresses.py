"""Addresses to which secrets may be sent."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

# Other names of this machine may lead elsewhere.
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def is_https_or_loopback(url: str) -> bool:
    """Return whether nobody on the way reads what is sent to an address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return (parts.scheme == "https" and bool(host)) or (
        parts.scheme == "http" and host in _LOOPBACK
    )

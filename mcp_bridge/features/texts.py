"""Names of the site's code, as messages and definitions have them."""

from __future__ import annotations

from functools import partial
from typing import Any


def dotted_name(value: Any) -> str:
    """Return the dotted name of a function or a class; for another object that of its class."""
    while isinstance(value, partial):
        value = value.func
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"

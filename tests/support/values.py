"""Values as texts: in the ids of tests, and in the bodies of requests."""

from __future__ import annotations

import json
import re


def label(value: object) -> str:
    """Return a parameter's text for a test's id, the same in every process."""
    if isinstance(value, set | frozenset):
        return str(sorted(value, key=str))
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def dumps(message: object) -> bytes:
    """Return the JSON of a message, as the body of a request."""
    return json.dumps(message).encode()

"""Values as texts: in the ids of tests, and in the bodies of requests."""

from __future__ import annotations

import json
import re

# Parameters of a Content-Disposition for which Python's parser raises one error or another.
UNREADABLE = [
    *("filename*=UTF\0\0-8''x", "filename*=idna''%ff", "filename*=undefined''x"),
    *("filename*; filename*1", f"filename*{'9' * 5000}=x"),
]


def label(value: object) -> str:
    """Return a parameter's text for a test's id: the same in every process, and to be typed."""
    if isinstance(value, set | frozenset):
        return str(sorted(value, key=str))
    text = re.sub(r" at 0x[0-9a-f]+", "", str(value))
    return re.sub(r"[^ -\[\]-~]", "?", text)


def dumps(message: object) -> bytes:
    """Return the JSON of a message, as the body of a request."""
    return json.dumps(message).encode()

"""What a model sees of a tool and what the tool can do, as a text to approve and to compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.conf import settings
from django.utils import translation

from mcp_bridge.features.tools import Tool
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.jsonrpc import encode

# What a member is that is not there, which null is not.
ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """
    One member that is not as it was; ``old`` or ``new`` is None where it is not there.

    ``names`` is the path's parts, which may hold dots of their own.
    """

    path: str
    old: Any
    new: Any
    names: tuple[str, ...] = field(default=(), compare=False)


def canonical_definition(tool: Tool) -> str:
    """
    The tool's definition and what the code asks of a caller, as JSON text.

    Texts are in LANGUAGE_CODE, whoever asks, so that every process writes the same.
    """
    with translation.override(settings.LANGUAGE_CODE):
        definition = tool.definition(LATEST)
    asked = {
        "permissions": sorted(tool.access.permissions),
        "public": tool.access.public,
        "scopes": sorted(tool.options.scopes),
        "confirm": tool.options.confirm,
    }
    # Read again, so that every key is a string, which alone can be sorted.
    return json.dumps(json.loads(encode({**definition, **asked})), sort_keys=True)


def fingerprint(text: str) -> str:
    """The SHA-256 of a canonical_definition, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def differences(old: str, new: str) -> list[Difference]:
    """What is not the same in two portraits, by path, such as "inputSchema.required"."""
    return list(_differences((), json.loads(old or "{}"), json.loads(new)))


def _differences(names: tuple[str, ...], old: Any, new: Any) -> Iterator[Difference]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            pair = (each.get(name, ABSENT) for each in (old, new))
            yield from _differences((*names, name), *pair)
        return
    missing = old is ABSENT or new is ABSENT
    # As JSON, where true is not 1, nor 1.0.
    if missing or json.dumps(old) != json.dumps(new):
        was, now = (None if each is ABSENT else each for each in (old, new))
        yield Difference(".".join(names), was, now, names)

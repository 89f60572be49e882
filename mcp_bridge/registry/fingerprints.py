"""Canonical definitions of features, which administrators approve, and their differences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from django.conf import settings
from django.utils import translation

from mcp_bridge.features import Feature, dotted_name
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.jsonrpc import encode

# Marks a missing member, as distinct from null.
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One member that differs between two definitions; a missing value is None."""

    path: str
    old: object
    new: object
    # The parts of the path, which may contain dots themselves.
    names: tuple[str, ...] = field(default=(), compare=False)


@lru_cache(maxsize=1024)
def canonical_definition(feature: Feature) -> str:
    """Return the approved text, as JSON: the definition, its conditions and the target of calls."""
    # The text must not depend on the request's language.
    with translation.override(settings.LANGUAGE_CODE):
        definition = feature.definition(LATEST)
    access, options = feature.access, feature.options
    definition |= {
        "permissions": sorted(access.permissions),
        "public": access.public,
        "scopes": sorted(access.scopes),
        "confirm": options.confirm,
    }
    more = {
        "conditions": list(feature.conditions),
        "precheck": dotted_name(options.precheck) if options.precheck else "",
        "target": feature.target,
        "throttle": options.throttle,
    }
    definition |= {name: value for name, value in more.items() if value}
    definition |= feature.approved_too
    # A round trip makes every key a string, as sorting requires.
    return json.dumps(json.loads(encode(definition)), sort_keys=True)


def fingerprint(text: str) -> str:
    """Return the SHA-256 of a canonical definition, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def differences(old: str, new: str) -> list[Difference]:
    """Return the differences of two canonical definitions, by path: "inputSchema.required"."""
    return list(_differences((), json.loads(old or "{}"), json.loads(new)))


def _differences(names: tuple[str, ...], old: object, new: object) -> Iterator[Difference]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            yield from _differences((*names, name), old.get(name, _ABSENT), new.get(name, _ABSENT))
    # Compare as JSON, in which true, 1 and 1.0 differ.
    elif old is _ABSENT or new is _ABSENT or json.dumps(old) != json.dumps(new):
        was, now = (None if each is _ABSENT else each for each in (old, new))
        yield Difference(".".join(names), was, now, names)

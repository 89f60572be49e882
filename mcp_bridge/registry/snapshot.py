"""All tools of one moment."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, Final

from django.core import checks

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.protocol import LATEST, Revision
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.schemas.walk import change_subschemas

_NULL: Final = {"type": "null"}


class Snapshot:
    """
    The tools of one moment, ordered by name. It never changes; a new moment is a new one.

    ``tools`` are by name. ``messages`` are those of the system checks on tools that are left out or
    could be better; ``has_public`` is true if an anonymous caller may use one of the tools.
    """

    def __init__(self, tools: Iterable[Tool], messages: Iterable[checks.CheckMessage] = ()) -> None:
        self.tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self._ordered = tuple(self.tools.values())
        self._names = tuple(self.tools)
        self.messages = tuple(messages)
        self.has_public = any(tool.access.public for tool in self._ordered)
        # Any text that is no str may be a lazy translation.
        self._translated = frozenset(
            tool
            for tool in self._ordered
            if not (isinstance(tool.title, str | None) and isinstance(tool.description, str))
        )
        # JSON by tool and revision; of tools with lazy texts also by language, and not of every
        # language that clients ask for. All of it goes with the snapshot.
        self._definition = lru_cache(maxsize=None)(_definition)
        self._translation = lru_cache(maxsize=16 * len(self._translated))(_definition)
        self._array = lru_cache(maxsize=16)(self._write_array)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._ordered)

    def __len__(self) -> int:
        return len(self._ordered)

    def following(self, name: str) -> Iterator[Tool]:
        """Return the tools that come after ``name``, whether or not a tool has that name."""
        return iter(self._ordered[bisect_right(self._names, name) :])

    def definitions(
        self, tools: tuple[Tool, ...], revision: Revision, language: str | None
    ) -> bytes:
        """
        Return the JSON array of the tools' definitions at a revision (MCP schema, ``Tool``).

        ``language`` is the active one, in which lazy texts are written.
        """
        return self._array(tools, revision, language if self._translated else None)

    def _write_array(
        self, tools: tuple[Tool, ...], revision: Revision, language: str | None
    ) -> bytes:
        definitions = (
            self._translation(tool, revision, language)
            if tool in self._translated
            else self._definition(tool, revision)
            for tool in tools
        )
        return b"[" + b",".join(definitions) + b"]"

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all definitions: snapshots in which models see the same have the same."""
        digest = hashlib.sha256()
        for tool in self._ordered:
            digest.update(encode(tool.definition(LATEST)))
        return digest.hexdigest()


def sent_definition(tool: Tool, revision: Revision) -> dict[str, Any]:
    """Return a tool's definition as clients get it, in the site's SCHEMA_STYLE."""
    definition = tool.definition(revision)
    if conf.SCHEMA_STYLE == "google":
        for name in definition.keys() & {"inputSchema", "outputSchema"}:
            # A source of the site's own may have anything for a schema.
            with suppress(AttributeError, TypeError):
                definition[name] = _for_google(definition[name])
    return definition


def _for_google(schema: Any) -> Any:
    """Return a schema as google-genai reads it, without what it refuses, wherever it stands."""
    if not isinstance(schema, Mapping):
        return schema
    result = change_subschemas(schema, _for_google)
    result.pop("contentEncoding", None)
    if isinstance(result.get("additionalProperties"), bool):
        del result["additionalProperties"]
    branches = result.get("anyOf", ())
    if len(branches) == 2 and _NULL in branches:
        # It drops what stands beside these branches.
        keys = ("description", "title", "default")
        beside = {key: result[key] for key in keys if result.get(key) is not None}
        result["anyOf"] = [each if each == _NULL else {**beside, **each} for each in branches]
    return result


def _definition(tool: Tool, revision: Revision, language: str | None = None) -> bytes:
    # The language is part of a cache's key alone: lazy texts are written in the active one.
    return encode(sent_definition(tool, revision))

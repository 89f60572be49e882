"""The definitions of features as sent to clients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from django.apps import apps

from mcp_bridge.conf import conf
from mcp_bridge.features import Feature
from mcp_bridge.protocol import JSONSchema, Revision
from mcp_bridge.schemas.walk import change_subschemas, size_of

_NULL: Final = {"type": "null"}

# VS Code and Copilot refuse requests with more tools, and Claude Code warns about more tokens.
MOST_TOOLS: Final = 128
MOST_TOKENS: Final = 25_000


def is_too_long(tools: int, tokens: int) -> bool:
    """Return whether a list has more tools or tokens than common clients accept."""
    return tools > MOST_TOOLS or tokens > MOST_TOKENS


def tokens_of(definition: Mapping[str, Any] | bytes) -> int:
    """Return the approximate tokens of a definition (or its JSON): a quarter of its bytes."""
    size = len(definition) if isinstance(definition, bytes) else size_of(definition)
    return math.ceil(size / 4)


def app_of(feature: Feature) -> str:
    """Return the label of the app that a feature's function belongs to, or its topmost package."""
    config = apps.get_containing_app_config(feature.function)
    return feature.function.partition(".")[0] if config is None else config.label


def sent_definition(feature: Feature, revision: Revision) -> dict[str, Any]:
    """Return a feature's definition as sent to clients, in the site's SCHEMA_STYLE."""
    definition = feature.definition(revision)
    if conf.SCHEMA_STYLE == "google":
        for name in definition.keys() & {"inputSchema", "outputSchema"}:
            # A custom source may return any object as a schema.
            with suppress(AttributeError, TypeError, ValueError):
                definition[name] = _for_google(definition[name])
    return definition


def _for_google(schema: JSONSchema) -> JSONSchema:
    """Return a schema with only the keywords that google-genai accepts."""
    result = change_subschemas(schema, _for_google)
    result.pop("contentEncoding", None)
    if isinstance(result.get("additionalProperties"), bool):
        del result["additionalProperties"]
    if isinstance(result.get("const"), str):
        result["enum"] = [result.pop("const")]
    if "oneOf" in result and "anyOf" not in result:
        result["anyOf"] = result.pop("oneOf")
    if branches := result.get("anyOf"):
        # It recognises null only among the direct branches.
        nested = [each["anyOf"] if each.keys() == {"anyOf"} else [each] for each in branches]
        branches = result["anyOf"] = list(chain.from_iterable(nested))
        if len(branches) == 2 and _NULL in branches:
            # It drops keywords beside these branches.
            keys = ("description", "title", "default")
            beside = {key: result[key] for key in keys if result.get(key) is not None}
            result["anyOf"] = [each if each == _NULL else {**beside, **each} for each in branches]
    return result

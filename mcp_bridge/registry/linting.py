"""
Check a feature's definition for problems with strict clients and with models.

``manage.py check`` shows the Warnings of ``lint()``, ``mcp_tools --lint`` its Infos too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from django.core import checks
from jsonschema import FormatChecker
from referencing import Registry

from mcp_bridge.conf import DOCUMENTATION
from mcp_bridge.features import Feature
from mcp_bridge.protocol import LATEST, JSONSchema
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry import definitions
from mcp_bridge.schemas.validation import FORMATS, Bounded
from mcp_bridge.schemas.walk import MAX_BYTES, MAX_DEPTH, SchemaDocument, depth_of, size_of

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_COMBINATORS: Final = ("oneOf", "anyOf", "allOf", "not", "if")

# JSON Schema does not have formats for times without an offset, which hints may allow.
_FORMATS: Final = FormatChecker(formats=())
_FORMATS.checkers = {
    name: check for name, check in FORMATS.checkers.items() if name not in ("date-time", "time")
}

# The most tokens of one feature: ten such fill a list.
_MOST_OF_ONE: Final = definitions.MOST_TOKENS // 10

# Schemas by label: "input schema", "output schema".
_Schemas = Mapping[str, JSONSchema]
_Find = Callable[[Feature, _Schemas], Iterator[str]]


class Rule(NamedTuple):
    """A rule for every feature; ``find`` yields a phrase for each violation."""

    id: str
    hint: str
    find: _Find
    level: int


RULES: Final[list[Rule]] = []


def lint(feature: Feature) -> list[checks.CheckMessage]:
    """Return the messages of all rules for a feature, in the order of the rules."""
    where = f"{feature.name} ({feature.source})" if feature.source else feature.name
    found: list[checks.CheckMessage] = []
    for id, hint, find, level in RULES:
        try:
            phrases = list(find(feature, feature.schemas))
        except Exception as exception:
            # A custom source may return any object as a schema.
            phrases = [f"its schemas cannot be read ({cut(repr(exception), 200)})"]
        found += (
            checks.CheckMessage(level, f"{where}: {phrase}.", hint=hint, id=id)
            for phrase in phrases
        )
    return found


def budget(feature: Feature) -> int:
    """Return the approximate tokens of its list entry at the latest revision."""
    return definitions.tokens_of(definitions.sent_definition(feature, LATEST))


def lint_list(name: str, tools: int, tokens: int) -> list[checks.CheckMessage]:
    """Return the message for a list that has too many tools or tokens, if it has."""
    if not definitions.is_too_long(tools, tokens):
        return []
    message = checks.Info(
        f"{name}: {tools:,} tools take about {tokens:,} tokens; some clients refuse more than "
        f"{definitions.MOST_TOOLS} tools, and some warn about more than "
        f"{definitions.MOST_TOKENS:,} tokens.",
        hint="Models read the whole list with each request. Define toolsets for clients to choose "
        f"from: MCP_BRIDGE['TOOLSETS'], {DOCUMENTATION}tools/toolsets/.",
        id="mcp_bridge.I002",
    )
    return [message]


def rule(hint: str, *, id: str, level: int = checks.WARNING) -> Callable[[_Find], _Find]:
    """Register the decorated function as the ``find`` of a rule."""

    def add(find: _Find) -> _Find:
        RULES.append(Rule(id, hint, find, level))
        return find

    return add


@rule("Several clients refuse such tools: move the choice to a parameter.", id="mcp_bridge.W003")
def _combinators(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    if found := [each for each in _COMBINATORS if each in schemas.get("input schema", ())]:
        yield f"its input schema has {', '.join(found)} at the root"


@rule("Clients do not fetch schemas: move the target to $defs.", id="mcp_bridge.W004")
def _references(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        document = SchemaDocument(schema)
        for reference in dict.fromkeys([*document.external, *document.unresolved]):
            yield f"its {name} refers to {cut(reference, 200)!r}, which it does not contain"


@rule('MCP requires objects: set "type": "object" at the root.', id="mcp_bridge.W005")
def _roots(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        if schema.get("type") != "object":
            yield f"its {name} is not of type object at the root"


@rule(
    "Large clients refuse the name, and some the whole list with it: rename the tool.",
    id="mcp_bridge.W006",
)
def _names(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    if not _NAME.fullmatch(feature.name):
        yield "its name has more than 64 characters, or characters other than A-Z a-z 0-9 _ and -"


@rule("A read-only tool cannot be destructive: drop one of the two hints.", id="mcp_bridge.W007")
def _hints(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    if feature.is_read_only and feature.is_destructive:
        yield "it is both read-only (readOnlyHint) and destructive (destructiveHint)"


@rule("A client that sends the default is refused: fix it, or the schema.", id="mcp_bridge.W008")
def _defaults(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        document = SchemaDocument(schema)
        validator = Bounded(document.root, registry=Registry(), format_checker=_FORMATS)
        # References inside a schema with its own $id would be resolved outside it.
        has_own_ids = any("$id" in each for each in document.subschemas[1:])
        for part in document.subschemas:
            if "default" not in part or has_own_ids:
                continue
            try:
                if validator.evolve(schema=part).is_valid(part["default"]):
                    continue
            except Exception:
                # A schema that cannot be enforced is reported elsewhere.
                continue
            default, title = cut(repr(part["default"]), 100), part.get("title")
            of = f" of {cut(title, 100)!r}" if isinstance(title, str) else ""
            yield f"in its {name} the default {default}{of} does not match its schema"


@rule(
    "Some clients refuse deep schemas, and models misread them: make it flatter.",
    id="mcp_bridge.W009",
)
def _depths(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        if (depth := depth_of(schema)) > MAX_DEPTH:
            yield f"its {name} is {depth} levels deep, more than {MAX_DEPTH}"


@rule("Models read it with each request: remove parts they do not need.", id="mcp_bridge.W010")
def _sizes(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        if (size := size_of(schema)) > MAX_BYTES:
            yield f"its {name} has {size} bytes, more than {MAX_BYTES}"


@rule(
    'Many clients refuse or misread it: write {"anyOf": [{"type": ...}, {"type": "null"}]}.',
    id="mcp_bridge.W014",
)
def _types(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        for part in SchemaDocument(schema).subschemas:
            if isinstance(part.get("type"), list):
                yield f"its {name} has a list of types, {cut(json.dumps(part['type']), 100)}"
            elif "type" in part and part["type"] != "null" and None in part.get("enum", ()):
                yield f"its {name} has null among the values of the type {part['type']!r}"


@rule(
    "Describe it in the docstring (or with Annotated): models rely on descriptions.",
    id="mcp_bridge.I001",
    level=checks.INFO,
)
def _parameters(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.get("input schema", {}).get("properties", {}).items():
        if not (isinstance(schema, Mapping) and str(schema.get("description", "")).strip()):
            yield f"its parameter {cut(name)!r} lacks a description"


@rule(
    "Models read it with each request: shorten its texts, or use fewer parameters.",
    id="mcp_bridge.I003",
    level=checks.INFO,
)
def _budgets(feature: Feature, schemas: _Schemas) -> Iterator[str]:
    if (tokens := budget(feature)) > _MOST_OF_ONE and not any(_sizes(feature, schemas)):
        yield f"its definition takes about {tokens:,} tokens, more than {_MOST_OF_ONE:,}"

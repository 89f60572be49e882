"""
Checks of a tool's definition for what strict clients refuse, or models trip over.

``lint()`` is a pure function over a Tool. Its findings are Warnings of ``manage.py check``, and
make ``manage.py mcp_tools --lint`` fail; ``budget()`` says how much of a model's context the
definition takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from jsonschema import FormatChecker
from referencing import Registry

from mcp_bridge.features import Tool
from mcp_bridge.protocol import LATEST, JSONSchema
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.snapshot import sent_definition
from mcp_bridge.schemas.validation.keywords import FORMATS, Bounded
from mcp_bridge.schemas.validation.validator import MAX_BYTES, MAX_DEPTH, depth_of, size_of
from mcp_bridge.schemas.walk import SchemaDocument

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_COMBINATORS: Final = ("oneOf", "anyOf", "allOf", "not", "if")
# A rule of thumb: the bytes of JSON that a token of a model's context holds.
_BYTES_PER_TOKEN: Final = 4

# Times without a zone are of no format that JSON Schema has, and hints may take them.
_FORMATS: Final = FormatChecker(formats=())
_FORMATS.checkers = {
    name: check for name, check in FORMATS.checkers.items() if name not in ("date-time", "time")
}

# A tool's schemas by the words for them: "input schema", "output schema".
_Schemas = Mapping[str, JSONSchema]
_Find = Callable[[Tool, _Schemas], Iterator[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule for every tool; ``find`` yields a phrase for each thing that breaks it."""

    id: str
    hint: str
    find: _Find
    # Shown where somebody asks for it, and not on each start of the site.
    is_minor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A tool breaks a rule; ``message`` is the whole sentence, the tool's name in it."""

    rule: Rule
    message: str


RULES: Final[list[Rule]] = []


def lint(tool: Tool) -> list[Finding]:
    """Return the findings of all rules for a tool, in the order of the rules."""
    schemas = {"input schema": tool.input_schema}
    if tool.output_schema is not None:
        schemas["output schema"] = tool.output_schema
    where = f"{tool.name} ({tool.source})" if tool.source else tool.name
    found: list[Finding] = []
    for rule in RULES:
        try:
            phrases = list(rule.find(tool, schemas))
        except Exception as exception:
            # A tool made by a source of the site's own may have anything for a schema.
            phrases = [f"its schemas cannot be read ({cut(repr(exception), 200)})"]
        found += (Finding(rule=rule, message=f"{where}: {phrase}.") for phrase in phrases)
    return found


def budget(tool: Tool) -> int:
    """Return the bytes of the tool's definition in ``tools/list`` at the latest revision."""
    return size_of(sent_definition(tool, LATEST))


def tokens(size: int) -> int:
    """Return about how many tokens of a model's context so many bytes take."""
    return -(-size // _BYTES_PER_TOKEN)


def _rule(*, id: str, hint: str, is_minor: bool = False) -> Callable[[_Find], _Find]:
    def add(find: _Find) -> _Find:
        RULES.append(Rule(id=id, hint=hint, find=find, is_minor=is_minor))
        return find

    return add


@_rule(
    id="mcp_bridge.W003",
    hint="Several clients refuse such tools: put the choice into a parameter.",
)
def _combinators(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    found = [keyword for keyword in _COMBINATORS if keyword in tool.input_schema]
    if found:
        yield f"its input schema has {', '.join(found)} at the root"


@_rule(
    id="mcp_bridge.W004",
    hint="No client fetches schemas: put what is referred to into $defs.",
)
def _references(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        document = SchemaDocument(schema)
        for reference in dict.fromkeys([*document.external, *document.unresolved]):
            yield f"its {name} refers to {cut(reference, 200)!r}, which it does not hold"


@_rule(
    id="mcp_bridge.W005",
    hint="MCP's arguments and structured results are objects: say so at the root.",
)
def _roots(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        if schema.get("type") != "object":
            yield f"its {name} is not of type object at the root"


@_rule(
    id="mcp_bridge.W006",
    hint="Large clients refuse the name, and some the whole list with it: give another.",
)
def _names(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    if not _NAME.fullmatch(tool.name):
        yield "its name has more than 64 characters, or others than A-Z a-z 0-9 _ and -"


@_rule(
    id="mcp_bridge.W007",
    hint="Only tools that write can destroy: drop one of the two hints.",
)
def _hints(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    if tool.annotations.get("readOnlyHint") and tool.annotations.get("destructiveHint"):
        yield "it says that it only reads (readOnlyHint) and that it destroys (destructiveHint)"


@_rule(
    id="mcp_bridge.W008",
    hint="A client that sends the default is refused: change it, or the schema.",
)
def _defaults(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        document = SchemaDocument(json.loads(json.dumps(schema)))
        document.localize()
        validator = Bounded(document.root, registry=Registry(), format_checker=_FORMATS)
        for part in document.subschemas:
            if "default" not in part:
                continue
            try:
                if validator.evolve(schema=part).is_valid(part["default"]):
                    continue
            except Exception:
                # A schema that cannot be enforced is no matter of its default.
                continue
            default, title = cut(repr(part["default"]), 100), part.get("title")
            of = f" of {cut(title, 100)!r}" if isinstance(title, str) else ""
            yield f"in its {name} the default {default}{of} breaks its own schema"


@_rule(
    id="mcp_bridge.W009",
    hint="Some clients refuse deep schemas, and models lose their way: make it flatter.",
)
def _depths(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        depth = depth_of(schema)
        if depth > MAX_DEPTH:
            yield f"its {name} is {depth} levels deep, more than {MAX_DEPTH}"


@_rule(
    id="mcp_bridge.W010",
    hint="Models read it with each request: leave out what they do not need.",
)
def _sizes(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        size = size_of(schema)
        if size > MAX_BYTES:
            yield f"its {name} has {size} bytes, more than {MAX_BYTES}"


@_rule(
    id="mcp_bridge.W014",
    hint='Many clients refuse or misread it: write {"anyOf": [{"type": ...}, {"type": "null"}]}.',
)
def _types(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        for part in SchemaDocument(schema).subschemas:
            if isinstance(part.get("type"), list):
                yield f"its {name} has a list of types, {cut(json.dumps(part['type']), 100)}"
            elif "type" in part and part["type"] != "null" and None in part.get("enum", ()):
                yield f"its {name} has null among the values of the type {part['type']!r}"


@_rule(
    id="mcp_bridge.I001",
    hint="Say in the docstring (or by Annotated) what it means: a model sees nothing else.",
    is_minor=True,
)
def _parameters(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in tool.input_schema.get("properties", {}).items():
        if not (isinstance(schema, Mapping) and str(schema.get("description", "")).strip()):
            yield f"its parameter {cut(name)!r} has no description"

"""
What strict clients refuse, or models trip over, in the definition of a tool.

``lint()`` is a pure function over a Tool. Its findings are Warnings of ``manage.py check``, and
what ``manage.py mcp_tools --lint`` fails on; ``budget()`` says how much of a model's context the
definition takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import FormatChecker
from referencing import Registry

from mcp_bridge.features.tools import Tool
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.validation.keywords import FORMATS, Bounded
from mcp_bridge.schemas.validation.structure import Structure
from mcp_bridge.schemas.validation.validator import MAX_BYTES, MAX_DEPTH

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_COMBINATORS: Final = ("oneOf", "anyOf", "allOf", "not", "if")
# What of a model's context a byte of JSON takes: a rule of thumb.
_BYTES_PER_TOKEN: Final = 4

# Times without a zone are of no format that JSON Schema has, and hints may take them.
_FORMATS: Final = FormatChecker(formats=())
_FORMATS.checkers = {
    name: check for name, check in FORMATS.checkers.items() if name not in ("date-time", "time")
}

_Schemas = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that is asked of every tool; ``find`` gives what breaks it, in phrases."""

    id: str
    hint: str
    find: Callable[[Tool, _Schemas], Iterator[str]]
    # Worth a word where somebody asks for it, and not on each start of the site.
    is_minor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A tool breaks a rule; ``message`` is the whole sentence, the tool's name in it."""

    rule: Rule
    message: str


def lint(tool: Tool) -> list[Finding]:
    """Everything that the rules have to say of the tool, in the order of the rules."""
    schemas = {"input schema": tool.input_schema}
    if tool.output_schema is not None:
        schemas["output schema"] = tool.output_schema
    where = f"{tool.name} ({tool.source})" if tool.source else tool.name
    return [
        Finding(rule=rule, message=f"{where}: {phrase}.")
        for rule in RULES
        for phrase in _phrases(rule, tool, schemas)
    ]


def _phrases(rule: Rule, tool: Tool, schemas: _Schemas) -> list[str]:
    try:
        return list(rule.find(tool, schemas))
    except Exception as exception:
        # A tool made by a source of the site's own may have anything for a schema.
        return [f"its schemas cannot be read ({cut(repr(exception), 200)})"]


def budget(tool: Tool) -> int:
    """The bytes of the tool's definition, as ``tools/list`` sends it at the latest revision."""
    return Structure.size_of(tool.definition(LATEST))


def tokens(size: int) -> int:
    """About how many tokens of a model's context that many bytes take."""
    return -(-size // _BYTES_PER_TOKEN)


def _combinators(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    found = [keyword for keyword in _COMBINATORS if keyword in tool.input_schema]
    if found:
        yield f"its input schema has {', '.join(found)} at the root"


def _references(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        anatomy = Structure(schema)
        for reference in dict.fromkeys([*anatomy.external, *anatomy.unresolved]):
            yield f"its {name} refers to {cut(reference, 200)!r}, which it does not hold"


def _roots(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        if schema.get("type") != "object":
            yield f"its {name} is not of type object at the root"


def _names(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    if not _NAME.fullmatch(tool.name):
        yield "its name has more than 64 characters, or others than A-Z a-z 0-9 _ and -"


def _hints(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    if tool.annotations.get("readOnlyHint") and tool.annotations.get("destructiveHint"):
        yield "it says that it only reads (readOnlyHint) and that it destroys (destructiveHint)"


def _defaults(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        anatomy = Structure(schema)
        validator = Bounded(schema, registry=Registry(), format_checker=_FORMATS)
        for subschema, resolver in zip(anatomy.subschemas, anatomy.resolvers, strict=True):
            if "default" in subschema and _breaks(validator, subschema, resolver):
                default = cut(repr(subschema["default"]), 100)
                title = subschema.get("title")
                of = f" of {cut(title, 100)!r}" if isinstance(title, str) else ""
                yield f"in its {name} the default {default}{of} breaks its own schema"


def _breaks(validator: Any, subschema: Mapping[str, Any], resolver: Any) -> bool:
    try:
        return any(validator.descend(subschema["default"], subschema, resolver=resolver))
    except Exception:
        # A schema that cannot be enforced is no matter of its default.
        return False


def _depths(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        depth = Structure.depth_of(schema)
        if depth > MAX_DEPTH:
            yield f"its {name} is {depth} levels deep, more than {MAX_DEPTH}"


def _sizes(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in schemas.items():
        size = Structure.size_of(schema)
        if size > MAX_BYTES:
            yield f"its {name} has {size} bytes, more than {MAX_BYTES}"


def _parameters(tool: Tool, schemas: _Schemas) -> Iterator[str]:
    for name, schema in tool.input_schema.get("properties", {}).items():
        if not (isinstance(schema, Mapping) and str(schema.get("description", "")).strip()):
            yield f"its parameter {cut(name)!r} has no description"


RULES: Final = (
    Rule(
        id="mcp_bridge.W003",
        hint="Several clients refuse such tools: put the choice into a parameter.",
        find=_combinators,
    ),
    Rule(
        id="mcp_bridge.W004",
        hint="No client fetches schemas: put what is referred to into $defs.",
        find=_references,
    ),
    Rule(
        id="mcp_bridge.W005",
        hint="MCP's arguments and structured results are objects: say so at the root.",
        find=_roots,
    ),
    Rule(
        id="mcp_bridge.W006",
        hint="Large clients refuse the name, and some the whole list with it: give another.",
        find=_names,
    ),
    Rule(
        id="mcp_bridge.W007",
        hint="Only tools that write can destroy: drop one of the two hints.",
        find=_hints,
    ),
    Rule(
        id="mcp_bridge.W008",
        hint="A client that sends the default is refused: change it, or the schema.",
        find=_defaults,
    ),
    Rule(
        id="mcp_bridge.W009",
        hint="Some clients refuse deep schemas, and models lose their way: make it flatter.",
        find=_depths,
    ),
    Rule(
        id="mcp_bridge.W010",
        hint="Models read it with each request: leave out what they do not need.",
        find=_sizes,
    ),
    Rule(
        id="mcp_bridge.I001",
        hint="Say in the docstring (or by Annotated) what it means: a model sees nothing else.",
        find=_parameters,
        is_minor=True,
    ),
)

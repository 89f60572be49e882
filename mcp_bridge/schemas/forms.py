"""Make and check the flat schemas of forms that a client shows its user (MCP, "Elicitation")."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel

from mcp_bridge.features.secrets import names_secret
from mcp_bridge.protocol import JSONSchema
from mcp_bridge.schemas.walk import SchemaDocument

# The keywords of MCP's form schemas by type (MCP schema, PrimitiveSchemaDefinition).
_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "format", "enum", "oneOf"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
    "array": ("items", "minItems", "maxItems"),
}
_FORMATS: Final = ("date", "date-time", "email", "uri")


@lru_cache(maxsize=256)
def form_schema(model: type[BaseModel]) -> dict[str, object]:
    """Return the model's schema for a form. Raises TypeError that names an unsupported field."""
    document = SchemaDocument(model.model_json_schema())
    fields: dict[str, object] = {}
    for name, schema in document.root.get("properties", {}).items():
        _check_secret(document, schema, name, f"{model.__name__}.{name}")
        if (field := _field(document, schema)) is None:
            raise TypeError(
                f"{model.__name__}.{name} is not supported in a form: use str, int, float, bool, "
                "dates, choices of strings (Literal, Enum), lists of such choices, or any of them "
                "or None"
            )
        fields[name] = field
    required = document.root.get("required")
    return {"type": "object", "properties": fields} | ({"required": required} if required else {})


def check_form(schema: JSONSchema) -> None:
    """Raise TypeError for an explicit schema that is not flat, or that requests a secret."""
    document = SchemaDocument(schema)
    for name, each in schema.get("properties", {}).items():
        _check_secret(document, each, name, f"the field {name!r}")
        kind = each.get("type")
        items = each.get("items", {})
        if kind not in _KEYWORDS or (kind == "array" and not {"enum", "anyOf"} & items.keys()):
            raise TypeError(
                f"the field {name!r} is not supported in a form: its type must be string, integer, "
                "number or boolean, or array for choices of strings (items with enum or anyOf)"
            )


def _check_secret(document: SchemaDocument, schema: JSONSchema, name: str, field: str) -> None:
    found = flat(document, schema)
    is_marked = found.get("writeOnly") is True or found.get("format") == "password"
    if is_marked or names_secret(name):
        raise TypeError(
            f"{field} is a secret by its name, which a form must not request: raise InputRequired "
            "with a URLElicitRequest to a page of the site, or rename the field if it is not a "
            "secret"
        )


def _field(document: SchemaDocument, schema: JSONSchema) -> JSONSchema | None:
    """Return a field without keywords that forms do not support; None if it is unsupported."""
    found = flat(document, schema)
    kind = found.get("type", "")
    if kind not in _KEYWORDS or (kind != "string" and "enum" in found):
        return None
    names = ("title", "description", "default", *_KEYWORDS[kind])
    kept = {name: found[name] for name in names if found.get(name) is not None}
    if kept.get("format", "uri") not in _FORMATS:
        del kept["format"]
    if not all(isinstance(each, str) for each in kept.get("enum", ())):
        return None
    if kind == "array":
        items = flat(document, kept.get("items", {}))
        if items.get("type") != "string" or "enum" not in items:
            return None
        kept["items"] = {"type": "string", "enum": items["enum"]}
    return {"type": kind, **kept}


def flat(document: SchemaDocument, schema: Any, seen: frozenset[int] = frozenset()) -> JSONSchema:
    """Return a schema with references resolved, ``const`` as ``enum``, and without null."""
    found, seen = document.merged(schema, seen)
    branches = [each for each in found.get("anyOf", ()) if each != {"type": "null"}]
    if len(branches) == 1:
        del found["anyOf"]
        found = {**flat(document, branches[0], seen), **found}
    if "const" in found:
        found["enum"] = [found["const"]]
    return found

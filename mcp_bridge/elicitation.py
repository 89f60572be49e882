"""A typed question to the client's user in the middle of a call."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from mcp_bridge.exceptions import Declined, InputRequired
from mcp_bridge.features import Context
from mcp_bridge.features.secrets import names_secret
from mcp_bridge.protocol import JSONSchema
from mcp_bridge.protocol.input_requests import FormElicitRequest
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.strictness import strict_validator
from mcp_bridge.schemas.walk import SchemaDocument

M = TypeVar("M", bound=BaseModel)

# The keywords that MCP's form schemas have for each type (MCP schema, PrimitiveSchemaDefinition).
_TEXTS: Final = ("title", "description", "default")
_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "format", "enum", "oneOf"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
    "array": ("items", "minItems", "maxItems"),
}
_FORMATS: Final = ("date", "date-time", "email", "uri")


def elicit(context: Context, message: str, model: type[M]) -> M:
    """
    Return the user's answer to a question, as an instance of a flat model.

    Raises InputRequired where there is no answer yet: let it pass, and the tool runs again from its
    beginning when there is one. Raises Declined where the user did not want to answer, and
    TypeError for a model that no form can show or may ask for (MCP, "Elicitation").
    """
    schema = form_schema(model)
    # A key that only this very question has, so that no answer counts for another one. The same
    # question asked twice in a call is two questions.
    key = f"{model.__name__}-{hashlib.sha256(encode([message, schema])).hexdigest()[:16]}"
    times = context.scratch[elicit, key] = context.scratch.get((elicit, key), 0) + 1
    if times > 1:
        key += f"-{times}"
    response = context.input_responses.get(key)
    if response is not None:
        if response["action"] != "accept":
            raise Declined(
                f"The user was asked “{cut(message, 300)}” and did not answer: "
                f"{response['action']}. Do not call the tool again unless the user wants it.",
                response["action"],
            )
        try:
            return cast("M", _validator(model).validate_json(encode(response.get("content", {}))))
        except ValidationError as refused:
            errors = refused.errors(include_url=False, include_context=False)[:10]
            lines = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors)
            explained = cut("\n".join(lines), 1000)
            message += f"\n\nThe last answer could not be taken:\n{explained}"
    raise InputRequired({key: FormElicitRequest(message, schema)}, tool_state=context.tool_state)


@lru_cache(maxsize=256)
def form_schema(model: type[BaseModel]) -> dict[str, object]:
    """Return the model's schema as a form can show it. Raises TypeError that names the field."""
    document = SchemaDocument(model.model_json_schema())
    fields: dict[str, object] = {}
    for name, schema in document.root.get("properties", {}).items():
        if names_secret(name) or _is_marked(document, schema):
            raise TypeError(
                f"{model.__name__}.{name} is a secret, which no form may ask for: raise "
                "InputRequired with a URLElicitRequest that leads to a page of the site, or, if it "
                "is none, give it another name"
            )
        field = _field(document, schema)
        if field is None:
            raise TypeError(
                f"{model.__name__}.{name} cannot stand in a form: its fields are str, int, float, "
                "bool, dates, choices of strings (Literal, Enum), lists of such choices, and any "
                "of them or None"
            )
        fields[name] = field
    required = document.root.get("required")
    schema = {"type": "object", "properties": fields}
    return {**schema, "required": required} if required else schema


def _field(document: SchemaDocument, schema: JSONSchema) -> JSONSchema | None:
    """Return a field as a form shows it, without keywords that forms lack; None if none can."""
    flat = _flat(document, schema)
    kind = flat.get("type", "")
    if kind not in _KEYWORDS or (kind != "string" and "enum" in flat):
        return None
    names = (*_TEXTS, *_KEYWORDS[kind])
    kept = {name: flat[name] for name in names if flat.get(name) is not None}
    if kept.get("format", "uri") not in _FORMATS:
        del kept["format"]
    if not all(isinstance(each, str) for each in kept.get("enum", ())):
        return None
    if kind == "array":
        items = _flat(document, kept.get("items", {}))
        if items.get("type") != "string" or "enum" not in items:
            return None
        kept["items"] = {"type": "string", "enum": items["enum"]}
    return {"type": kind, **kept}


def _is_marked(document: SchemaDocument, schema: JSONSchema) -> bool:
    flat = _flat(document, schema)
    return flat.get("writeOnly") is True or flat.get("format") == "password"


def _flat(document: SchemaDocument, schema: JSONSchema) -> JSONSchema:
    """Return a schema with its references followed, and without the branch for null."""
    found = dict(document.merged(schema)[0])
    branches = [each for each in found.get("anyOf", ()) if each.get("type") != "null"]
    if len(branches) == 1:
        del found["anyOf"]
        found = {**_flat(document, branches[0]), **found}
    if "const" in found:
        found["enum"] = [found["const"]]
    return found


@lru_cache(maxsize=256)
def _validator(model: type[BaseModel]) -> SchemaValidator:
    return strict_validator(TypeAdapter(model).core_schema)

"""A typed question to the client's user in the middle of a call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import SchemaValidator

from mcp_bridge.exceptions import Declined, InputRequired
from mcp_bridge.features.context import Context
from mcp_bridge.protocol.input_requests import FormElicitRequest
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.strictness import strict_validator

M = TypeVar("M", bound=BaseModel)

# What MCP's form schemas have of each type of a field (MCP schema, PrimitiveSchemaDefinition).
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
    The user's answer to a question, as an instance of a flat model.

    Raises InputRequired where there is no answer yet: let it pass, and the tool runs again from its
    beginning when there is one. Raises Declined where the user did not want to answer, and
    TypeError for a model that no form can show (MCP, "Elicitation").
    """
    schema = form_schema(model)
    key = _key(context, message, model, schema)
    response = context.input_responses.get(key)
    if response is None:
        raise InputRequired(
            {key: FormElicitRequest(message, schema)}, tool_state=context.tool_state
        )
    if response["action"] != "accept":
        raise Declined(
            f"The user was asked “{cut(message, 300)}” and did not answer: {response['action']}. "
            "Do not call the tool again unless the user wants it.",
            response["action"],
        )
    try:
        answer = _validator(model).validate_json(encode(response.get("content", {})))
    except ValidationError as refused:
        again = f"{message}\n\nThe last answer could not be taken:\n{_explained(refused)}"
        request = {key: FormElicitRequest(again, schema)}
        raise InputRequired(request, tool_state=context.tool_state) from None
    return cast("M", answer)


@lru_cache(maxsize=256)
def form_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's schema as a form can show it. Raises TypeError that names the field."""
    whole = model.model_json_schema()
    shared = whole.get("$defs", {})
    fields = {
        name: _field(f"{model.__name__}.{name}", each, shared)
        for name, each in whole.get("properties", {}).items()
    }
    required = [name for name in whole.get("required", ()) if name in fields]
    schema = {"type": "object", "properties": fields}
    return {**schema, "required": required} if required else schema


def _field(where: str, schema: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """One field, without what forms have no word for: that is checked when the answer comes."""
    flat = _opened(schema, shared)
    kind = flat.get("type", "")
    if kind not in _KEYWORDS or (kind != "string" and "enum" in flat):
        raise _unfit(where)
    names = (*_TEXTS, *_KEYWORDS[kind])
    kept = {name: flat[name] for name in names if flat.get(name) is not None}
    if "format" in kept and kept["format"] not in _FORMATS:
        del kept["format"]
    if not all(isinstance(each, str) for each in kept.get("enum", ())):
        raise _unfit(where)
    if kind == "array":
        items = _opened(kept.get("items", {}), shared)
        if items.get("type") != "string" or "enum" not in items:
            raise _unfit(where)
        kept["items"] = {"type": "string", "enum": items["enum"]}
    return {"type": kind, **kept}


def _opened(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with references followed, and without the branch for null."""
    found = dict(schema)
    if "$ref" in found:
        target = shared.get(found.pop("$ref").rpartition("/")[2], {})
        found = {**_opened(target, shared), **found}
    branches = [each for each in found.get("anyOf", ()) if each.get("type") != "null"]
    if len(branches) == 1:
        del found["anyOf"]
        found = {**_opened(branches[0], shared), **found}
    if "const" in found:
        found["enum"] = [found["const"]]
    return found


def _unfit(where: str) -> TypeError:
    return TypeError(
        f"{where} cannot stand in a form: its fields are str, int, float, bool, dates, choices of "
        "strings (Literal, Enum), lists of such choices, and any of them or None"
    )


@lru_cache(maxsize=256)
def _validator(model: type[BaseModel]) -> SchemaValidator:
    return strict_validator(model.__pydantic_core_schema__)


def _key(context: Context, message: str, model: type[BaseModel], schema: object) -> str:
    """
    A key that only this very question has, so that no answer counts for another one.

    The same question asked twice in a call is two questions.
    """
    digest = hashlib.sha256(encode([message, schema])).hexdigest()[:16]
    key = f"{model.__name__}-{digest}"
    times = context.scratch[elicit, key] = context.scratch.get((elicit, key), 0) + 1
    return key if times == 1 else f"{key}-{times}"


def _explained(refused: ValidationError) -> str:
    errors: Iterable[Any] = refused.errors(include_url=False, include_context=False)[:10]
    lines = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors)
    return cut("\n".join(lines), 1000)

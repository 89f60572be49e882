"""Documents of one operation, and the tool that it becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.schemas.validation import SchemaValidator
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Document, Unmappable

STRING = {"type": "string"}


def document(operation: dict[str, Any], path: str = "/things", **more: Any) -> Document:
    method = more.pop("method", "post")
    version = more.pop("version", "3.0.3")
    item = {method: operation, **more.pop("item", {})}
    return Document({"openapi": version, "paths": {path: item}, **more})


def mapped(operation: dict[str, Any], path: str = "/things", **more: Any) -> MappedOperation:
    """Return the one operation of a document, whose schemas are valid and within the bounds."""
    options = more.pop("options", {})
    made = document(operation, path, **more)
    [found] = made.operations()
    result = map_operation(made, found, **options)
    for schema in filter(None, (result.input_schema, result.output_schema)):
        Draft202012Validator.check_schema(schema)
        SchemaValidator(schema, "schema")
    return result


def json_body(schema: Any, **more: Any) -> dict[str, Any]:
    return {
        "requestBody": {"required": True, **more, "content": {"application/json": schema_(schema)}}
    }


def schema_(schema: Any) -> dict[str, Any]:
    return {"schema": schema}


def parameter(name: str, where: str = "query", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": more.pop("schema", STRING), **more}


def of_object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def components(**schemas: Any) -> dict[str, Any]:
    return {"components": {"schemas": schemas}}


def sent(tool: MappedOperation, arguments: dict[str, Any]) -> Any:
    return json.loads(tool.request(arguments).body)


def refused(tool: MappedOperation, arguments: dict[str, Any]) -> str:
    with pytest.raises(InvalidArguments) as raised:
        tool.request(arguments)
    return str(raised.value)


def unmappable(operation: dict[str, Any], path: str = "/things", **more: Any) -> str:
    with pytest.raises(Unmappable) as raised:
        mapped(operation, path, **more)
    return str(raised.value)

"""A document with any part replaced by a value of the wrong kind."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcp_bridge.sources.operations.mapping import map_operation
from mcp_bridge.sources.operations.read import Document, Unmappable
from tests.sources.operations.documents import STRING, of_object, parameter

REFERENCE = {"$ref": "#/components/schemas/Thing"}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "paths": {
        "/things/{id}": {
            "parameters": [parameter("id", "path", required=True)],
            "post": {
                "operationId": "things",
                "summary": "Do it",
                "tags": ["a"],
                "parameters": [
                    parameter("q", style="deepObject", explode=True, schema={"type": "object"}),
                    {"name": "j", "in": "query", "content": {"application/json": {"schema": {}}}},
                ],
                "requestBody": {
                    "required": True,
                    "content": {
                        "multipart/form-data": {
                            "schema": {"allOf": [REFERENCE, of_object("a", a=STRING)]},
                            "encoding": {"a": {"contentType": "text/plain"}},
                        }
                    },
                },
                "responses": {"200": {"content": {"application/json": {"schema": REFERENCE}}}},
            },
        }
    },
    "components": {
        "schemas": {
            "Thing": {
                "type": "object",
                "required": ["file", "kind"],
                "properties": {
                    "file": {"type": "string", "format": "binary"},
                    "kind": {"type": "string", "enum": ["a", None], "nullable": True},
                    "number": {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
                    "any": {"anyOf": [{"type": "array", "items": REFERENCE}, {"not": STRING}]},
                    "code": {"type": "string", "pattern": "^a$", "readOnly": True},
                },
                "additionalProperties": False,
            }
        }
    },
}
META = Draft202012Validator(Draft202012Validator.META_SCHEMA)
ARGUMENTS = {"id": "x", "q": {"a": [1]}, "j": 1, "a": "b", "file": "data:,x", "body": {"a": "b"}}


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    listed = enumerate(value) if isinstance(value, list) else ()
    for key, each in value.items() if isinstance(value, dict) else listed:
        yield from places(each, *path, key)


@pytest.mark.parametrize("other", [None, "x", [None], {"x": {}}], ids=repr)
def test_malformed_parts_are_mapped_or_refused(other: Any) -> None:
    for path in places(DOCUMENT):
        data = deepcopy(DOCUMENT)
        parent: Any = data
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = other
        try:
            document = Document(data)
        except ValueError:
            assert path[0] in ("openapi", "paths")
            continue
        for operation in document.operations():
            try:
                tool = map_operation(document, operation, output_schema=True)
            except Unmappable:
                continue
            assert META.is_valid(tool.input_schema)
            assert tool.request(ARGUMENTS | {"path_id": "x"}).body is not None

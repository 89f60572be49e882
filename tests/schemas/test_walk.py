"""The subschemas of a schema, and the targets of its references."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema_specifications import REGISTRY

from mcp_bridge.schemas import walk
from mcp_bridge.schemas.walk import LISTED, NAMED, SINGLE, SchemaDocument, subschemas
from tests.support import network

unreachable = network.unreachable

FOUND = {"title": "found"}
DEFINITIONS: dict[str, Any] = {
    "a": FOUND,
    "a/b~ %": FOUND,
    "anchored": {"$anchor": "here", **FOUND},
    "dynamic": {"$dynamicAnchor": "there", **FOUND},
    "named": {"$id": "urn:named", **FOUND, "$defs": {"inner": {"$anchor": "inner", **FOUND}}},
    "relative": {"$id": "deeper/schema.json", **FOUND},
}


def document(reference: str, keyword: str = "$ref") -> SchemaDocument:
    """Return a document whose one property refers to something."""
    return SchemaDocument(
        {
            "$id": "https://example.com/root.json",
            "properties": {"value": {keyword: reference}},
            "$defs": DEFINITIONS,
            "own": [FOUND],
        }
    )


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/a",
        "#/%24defs/a",
        "#/$defs/a~1b~0%20%25",
        "#here",
        "#there",
        "urn:named",
        "urn:named#",
        "urn:named#inner",
        "urn:named#/$defs/inner",
        "deeper/schema.json",
        "https://example.com/deeper/schema.json",
        "root.json#here",
        "#/own/0",
    ],
)
def test_reference_leads_to_a_schema_of_the_document(reference: str, keyword: str) -> None:
    found = document(reference, keyword)
    (target,) = found.targets(found.root["properties"]["value"]).values()
    assert isinstance(target, dict)
    assert target["title"] == "found"
    assert any(each is target for each in found.subschemas)
    assert (found.external, found.unresolved) == ([], [])


@pytest.mark.parametrize(
    "reference", ["#gone", "#/$defs/gone", "#/$id", "#/own", "#/own/x", "#/own/5"]
)
def test_reference_can_be_broken(reference: str) -> None:
    found = document(reference)
    assert (found.external, found.unresolved) == ([], [reference])
    assert found.targets(found.root["properties"]["value"]) == {}


@pytest.mark.parametrize("reference", ["https://example.com/other", "file:///etc/passwd", "other"])
def test_nothing_is_ever_fetched(reference: str, unreachable: None) -> None:
    found = document(reference)
    assert (found.external, found.unresolved) == ([reference], [])


def test_pointer_is_relative_to_the_nearest_id() -> None:
    inner = {"$id": "urn:x", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"title": "inner"}}}
    found = SchemaDocument({"properties": {"x": inner}, "$defs": {"a": {"title": "outer"}}})
    assert found.merged(inner["items"])[0] == {"title": "inner"}


def test_every_keyword_with_subschemas_is_known() -> None:
    known: dict[str, frozenset[str]] = {"single": SINGLE, "array": LISTED, "object": NAMED}
    holding: dict[str, set[str]] = {kind: set() for kind in known}
    for name in ("applicator", "unevaluated", "content", "core"):
        metaschema = REGISTRY.contents(f"https://json-schema.org/draft/2020-12/meta/{name}")
        for keyword, schema in metaschema["properties"].items():
            if "$dynamicRef" in schema:
                holding["single"].add(keyword)
            elif schema.get("$ref") == "#/$defs/schemaArray":
                holding["array"].add(keyword)
            elif "$dynamicRef" in schema.get("additionalProperties", {}):
                holding["object"].add(keyword)
    assert holding == {**known, "object": known["object"] - {"definitions"}}


def test_schema_like_values_are_not_schemas() -> None:
    schema = {
        "properties": {"$ref": {"type": "string"}, "properties": {"type": "string"}},
        "const": {"$ref": "#gone"},
        "enum": [{"items": {"$ref": "#gone"}}],
        "default": {"$ref": "#gone"},
        "examples": [{"$ref": "#gone"}],
    }
    found = SchemaDocument(schema)
    assert len(found.subschemas) == 3
    assert found.unresolved == []


@pytest.mark.parametrize(
    "schema", [{"properties": []}, {"allOf": 5}, {"$defs": {"a": {"anyOf": 1}}}]
)
def test_invalid_schema_document_raises(schema: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        SchemaDocument(schema)


def test_older_dialect_is_read_where_compatible() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"items": [{"$ref": "#/definitions/b"}, {"type": "null"}]}},
        "definitions": {"b": FOUND},
    }
    found = SchemaDocument(old)
    assert found.merged(old["properties"]["a"]["items"][0])[0] == FOUND
    assert len(found.subschemas) == 5


def test_number_of_subschemas_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MOST_READ", 10)
    SchemaDocument({"allOf": [{} for _ in range(9)]})
    with pytest.raises(ValueError, match="more than 10 subschemas"):
        SchemaDocument({"allOf": [{} for _ in range(10)]})


def test_deep_document_is_read_without_recursion() -> None:
    deep: dict[str, Any] = {"$ref": "#"}
    for _ in range(5000):
        deep = {"items": deep}
    assert len(SchemaDocument(deep).subschemas) == 5001


def test_circular_references_terminate() -> None:
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"$ref": "#/$defs/b", "title": "a"},
            "b": {"$ref": "#/$defs/a", "type": "null"},
        },
    }
    found = SchemaDocument(schema)
    merged, seen = found.merged(schema)
    assert merged == {"$ref": "#/$defs/a", "title": "a", "type": "null", "$defs": schema["$defs"]}
    assert len(seen) == 2
    assert found.merged({"$ref": "#"})[0] == {"$ref": "#"}


@pytest.mark.parametrize(("schema", "merged"), [(True, {}), (False, {"not": {}}), ({}, {})])
def test_boolean_schema_is_merged_as_its_object(schema: Any, merged: Any) -> None:
    assert SchemaDocument({}).merged(schema) == (merged, frozenset())


def test_subschema_has_its_location() -> None:
    schema = {"items": {}, "anyOf": [True], "properties": {"a": {}}, "title": "x"}
    assert [(each.keyword, each.key) for each in subschemas(schema)] == [
        ("items", None),
        ("anyOf", 0),
        ("properties", "a"),
    ]

"""OpenAPI's schemas as those of JSON Schema 2020-12."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.sources.operations.mapping import map_operation
from mcp_bridge.sources.operations.read import (
    Document,
    Unmappable,
)
from tests.sources.operations.documents import (
    STRING,
    components,
    json_body,
    mapped,
    of_object,
    parameter,
    schema_,
    sent,
    unmappable,
)
from tests.support import network

unreachable = network.unreachable

# Schemas


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {"anyOf": [STRING, {"type": "null"}]}),
        (
            {
                "allOf": [{"$ref": "#/components/schemas/Kind"}],
                "nullable": True,
                "description": "K",
            },
            {
                "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}],
                "description": "K",
            },
        ),
        (
            {"type": "integer", "enum": [1, 1, 2]},
            {"type": "integer", "enum": [1, 2]},
        ),
        (
            {"enum": [1, True, "1", 1]},
            {"enum": [1, True, "1"]},
        ),
        (
            {"type": "string", "nullable": True, "enum": ["a", None, "a", None]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        (
            {"type": "string", "nullable": True, "enum": ["a", None]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        ({"type": ["string", "null"]}, {"anyOf": [STRING, {"type": "null"}]}),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            {"type": "integer", "exclusiveMinimum": 1},
        ),
        (
            {"type": "integer", "exclusiveMaximum": False, "maximum": 3},
            {"type": "integer", "maximum": 3},
        ),
        (
            {"type": "string", "format": "date", "enum": ["today", "2024-05-01"]},
            {"type": "string", "enum": ["today", "2024-05-01"]},
        ),
        (
            {"type": "string", "format": "uuid", "const": "none"},
            {"type": "string", "const": "none"},
        ),
        (
            {"type": "string", "format": "date", "enum": ["2024-05-01"]},
            {"type": "string", "format": "date", "enum": ["2024-05-01"]},
        ),
        ({"type": "string", "format": "byte"}, {"type": "string", "contentEncoding": "base64"}),
        (
            {"type": "string", "example": "x", "xml": {}, "x-own": 1, "externalDocs": {}, "$id": 3},
            STRING,
        ),
        ({"type": "string", "title": "Member", "minLength": "3", "maxLength": -1}, STRING),
        ({"type": "any", "multipleOf": 0, "maximum": "9"}, {}),
        ({"type": ""}, {}),
        ({"type": ["", "any"]}, {}),
        ({"type": []}, {}),
        ({"type": "array", "items": [STRING]}, {"type": "array", "prefixItems": [STRING]}),
        ({"$ref": "#/components/schemas/a~1b%20c"}, {"type": "boolean"}),
        (
            {"$ref": "#/components/schemas/Kind", "description": "Beside"},
            {"type": "string", "enum": ["a"]},
        ),
        ({"$ref": "#/paths/~1things/post/x-schemas/0"}, {"type": "number"}),
        (True, {}),
    ],
)
def test_schemas_are_converted_to_2020_12(schema: Any, expected: Any) -> None:
    operation = {"x-schemas": [{"type": "number"}], **json_body(of_object(member=schema))}
    kind = {"type": "string", "enum": ["a"], "title": "Kind"}
    tool = mapped(operation, **components(Kind=kind, **{"a/b c": {"type": "boolean"}}))
    assert tool.input_schema["properties"]["member"] == expected


def test_one_of_becomes_any_of() -> None:
    schema = {
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
        "discriminator": {"propertyName": "kind"},
    }
    tool = mapped(
        json_body(of_object(pet=schema)),
        **components(Cat=of_object(name=STRING), Dog=of_object(name=STRING)),
    )
    assert tool.input_schema["properties"]["pet"] == {
        "anyOf": [{"type": "object", "properties": {"name": STRING}}] * 2
    }


@pytest.mark.parametrize("pattern", ["^(?!x)a", r"^\p{L}+$"])
def test_unportable_pattern_is_described_but_not_enforced(pattern: str) -> None:
    tool = mapped(json_body(of_object(code={"type": "string", "pattern": pattern})))
    assert tool.input_schema["properties"]["code"] == {
        "type": "string",
        "description": f"It must match the pattern {pattern}",
    }
    assert "described but not enforced" in tool.notes[0]


def test_member_without_letters_has_no_title() -> None:
    tool = mapped(json_body(of_object(a=of_object(**{"_": STRING}))))
    assert tool.input_schema["properties"]["a"]["properties"] == {"_": STRING}


def test_recursive_schemas_stay_references() -> None:
    node = of_object(
        name=STRING, children={"type": "array", "items": {"$ref": "#/components/schemas/Node"}}
    )
    leaf = {"$ref": "#/components/schemas/Leaf"}
    tool = mapped(
        json_body(of_object(tree={"$ref": "#/components/schemas/Node"}, leaf=leaf)),
        **components(Node=node, Leaf=of_object(x=STRING)),
    )
    assert tool.input_schema["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    assert list(tool.input_schema["$defs"]) == ["Node"]
    assert tool.input_schema["properties"]["leaf"]["properties"] == {"x": STRING}


def test_recursive_body_is_flat() -> None:
    node = of_object(name=STRING, next={"$ref": "#/components/schemas/Node"})
    tool = mapped(json_body({"$ref": "#/components/schemas/Node"}), **components(Node=node))
    assert tool.input_schema["properties"]["next"] == {"$ref": "#/$defs/Node"}
    assert sent(tool, {"name": "a", "next": {"name": "b"}}) == {"name": "a", "next": {"name": "b"}}


def test_large_schemas_keep_their_definitions() -> None:
    big = of_object(
        **{f"member{number}": {**STRING, "description": "x" * 300} for number in range(60)}
    )
    used = {f"part{number}": {"$ref": "#/components/schemas/Big"} for number in range(4)}
    tool = mapped(json_body(of_object(**used)), **components(Big=big))
    assert tool.input_schema["properties"]["part0"] == {"$ref": "#/$defs/Big"}


def test_schema_too_large_with_definitions_is_skipped() -> None:
    big = of_object(
        **{f"member{number}": {**STRING, "description": "x" * 3000} for number in range(60)}
    )
    assert "larger than 65536 bytes" in unmappable(
        json_body(of_object(a={"$ref": "#/components/schemas/Big"})), **components(Big=big)
    )
    assert "bytes, but at most 65536 are allowed" in unmappable(json_body(big))


def test_schema_of_a_thousand_levels_is_refused() -> None:
    deep: dict[str, Any] = STRING
    for _ in range(1000):
        deep = {"type": "array", "items": deep}
    assert "more than 32 levels deep" in unmappable(json_body(of_object(a=deep)))
    chain = {
        f"S{n}": {"type": "array", "items": {"$ref": f"#/components/schemas/S{n + 1}"}}
        for n in range(450)
    }
    tool = mapped(
        json_body(of_object(a={"$ref": "#/components/schemas/S0"})),
        **components(**chain, S450=STRING),
    )
    assert len(tool.input_schema["$defs"]) == 451


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("#/components/schemas/Missing", "which its document does not contain"),
        ("other.json#/Thing", "outside its document, which is not fetched"),
        ("#/components/schemas/Round", "are circular"),
        (3, "outside its document"),
    ],
)
def test_broken_reference_is_reported(reference: Any, why: str) -> None:
    round_ = {"$ref": "#/components/schemas/Round"}
    for body in (json_body({"$ref": reference}), json_body(of_object(a={"$ref": reference}))):
        assert why in unmappable(body, **components(Round=round_))


@pytest.mark.requirement("schema.no-fetching")
@pytest.mark.parametrize(
    "reference",
    ["https://example.com/api.json#/Thing", "//example.com/api.json", "file:///etc/hostname"]
    + ["other.json#/Thing", "other.json"],
)
def test_nothing_outside_the_document_is_fetched(reference: str, unreachable: None) -> None:
    outside = {"$ref": reference}
    operations: list[dict[str, Any]] = [
        json_body(outside),
        json_body(of_object(a=outside)),
        {"requestBody": outside},
        {"parameters": [outside]},
        {"parameters": [parameter("a", schema=outside)]},
        {"responses": {"200": outside}},
    ]
    why = f"it refers to '{reference}', outside its document, which is not fetched"
    for operation in operations:
        assert why in unmappable(operation)
    found = Document({"openapi": "3.1.0", "paths": {"/a": outside}})
    assert (list(found.operations()), len(found.errors)) == ([], 1)
    assert why in found.errors[0]
    # The schema of answers is not needed, so a broken one is dropped.
    answer = {"200": {"content": {"application/json": schema_(outside)}}}
    tool = mapped({"responses": answer}, options={"output_schema": True})
    assert (tool.output_schema, tool.notes) == (None, (f"It lacks an output schema: {why}.",))


def test_broken_reference_does_not_affect_other_operations() -> None:
    made = Document(
        {
            "openapi": "3.1.0",
            "paths": {
                "/a": {"$ref": "#/components/pathItems/A"},
                "/b": {"$ref": "#/nowhere"},
                "/c": {"get": {"parameters": [{"$ref": "#/nowhere"}]}},
                "/d": {"get": None},
            },
            "components": {"pathItems": {"A": {"get": {"operationId": "a"}}}},
        }
    )
    assert [(each.path, each.error is None) for each in made.operations()] == [
        ("/a", True),
        ("/c", False),
        ("/d", False),
    ]
    assert made.operation("GET", "/a").operation_id == "a"
    assert made.errors == [
        "The path '/b' cannot be read: it refers to '#/nowhere', which its document does not "
        "contain."
    ]
    with pytest.raises(Unmappable, match="does not contain"):
        map_operation(made, made.operation("get", "/c"))


@pytest.mark.parametrize(
    "data", [{}, {"swagger": "2.0"}, {"openapi": 3}, {"openapi": "3.0.0", "paths": []}]
)
def test_invalid_document_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"not OpenAPI|'paths' is not an object"):
        Document(data)


def test_undescribed_path_parameter_skips_the_operation() -> None:
    assert "{id}, which is not described" in unmappable({}, "/things/{id}")


# Output schemas


def answers(**content: Any) -> dict[str, Any]:
    return {"responses": {"200": {"content": content}}}


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        (
            {"200": {"type": "array", "items": STRING}},
            {"result": {"type": "array", "items": STRING}},
        ),
        ({"200": of_object(a=STRING)}, {"a": STRING}),
        ({"200": {}}, None),
        ({"200": of_object(a=STRING), "201": of_object(b=STRING)}, None),
        ({"200": of_object(a=STRING), "204": None}, None),
        ({"200": {"anyOf": [of_object(a=STRING), {"type": "string"}]}}, None),
        ({}, None),
    ],
)
def test_output_schema_fits_every_answer(responses: Any, expected: Any) -> None:
    given = {
        status: {"content": {"application/json": schema_(each)} if each is not None else {}}
        for status, each in responses.items()
    }
    tool = mapped({"responses": given}, options={"output_schema": True})
    found = tool.output_schema
    assert (found and found["properties"]) == expected
    assert mapped({"responses": given}).output_schema is None

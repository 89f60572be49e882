from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.schemas import examples as ex
from tests.support.schemas import input_schema, output_schema
from tests.support.serving import giving, taking
from tests.support.values import label

INTEGER = {"type": "integer"}
NODE = {
    "type": "object",
    "properties": {
        "value": INTEGER,
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["value", "children"],
    "additionalProperties": False,
}


def references(schema: Any) -> set[str]:
    """Return all references of a schema."""
    if isinstance(schema, list):
        return {found for each in schema for found in references(each)}
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*(references(each) for each in schema.values()))


def test_recursive_type_is_a_reference() -> None:
    schema = input_schema(taking(ex.Node))
    assert schema["properties"] == {"value": {"$ref": "#/$defs/Node"}}
    assert schema["$defs"] == {"Node": NODE}


@pytest.mark.parametrize(
    ("hint", "definitions"),
    [
        (ex.Node, {"Node"}),
        (ex.Linked, {"Linked"}),
        (ex.Hen, {"Hen", "Egg"}),
        (ex.Egg | None, {"Hen", "Egg"}),
        (ex.Tree, {"Tree"}),
        (ex.Folder, {"Folder"}),
        (list[ex.Folder], {"Folder"}),
        (dict[str, ex.Hen | ex.Node], {"Hen", "Egg", "Node"}),
        (ex.Forest, {"Node"}),
        (ex.Point, set()),
        (ex.Payment, set()),
        (list[ex.Point | ex.Book] | None, set()),
    ],
    ids=label,
)
def test_only_recursive_types_are_definitions(hint: Any, definitions: set[str]) -> None:
    for schema in (input_schema(taking(hint)), output_schema(giving(hint, None))):
        assert schema is not None
        Draft202012Validator.check_schema(schema)
        assert set(schema.get("$defs", {})) == definitions
        assert references(schema) == {f"#/$defs/{name}" for name in definitions}
        # A type with many references to others does not repeat their definitions.
        assert len(str(schema)) < 1000


def test_recursive_result_has_an_object_at_its_root() -> None:
    assert output_schema(giving(ex.Node, None)) == {**NODE, "$defs": {"Node": NODE}}


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({"value": 1, "children": []}, True),
        ({"value": 1, "children": [{"value": 2, "children": []}]}, True),
        ({"value": 1, "children": [{"value": "2", "children": []}]}, False),
        ({"value": 1, "children": [{"value": 2}]}, False),
        ({"value": 1, "children": [{"value": 2, "children": [], "more": 1}]}, False),
    ],
)
def test_recursive_schema_describes_every_level(value: Any, fits: bool) -> None:
    schema = input_schema(taking(ex.Node))
    assert Draft202012Validator(schema).is_valid({"value": value}) is fits


def test_definitions_do_not_name_modules() -> None:
    class Node(ex.BaseModel):
        """Another class of the same name."""

        next: Node | None = None

    Node.model_rebuild(_types_namespace={"Node": Node})

    def function(one, other):  # type: ignore[no-untyped-def]
        ...

    function.__annotations__ = {"one": ex.Node, "other": Node}
    schema = input_schema(function)
    assert len(schema["$defs"]) == 2
    assert "tests" not in str(schema)

from __future__ import annotations

from typing import Annotated, Any

from tests.schemas import examples as ex
from tests.schemas.kinds import STRING
from tests.schemas.kinds_classes import POINT
from tests.support.schemas import input_schema
from tests.support.serving import taking


def test_parameters_without_a_default_are_required_in_order() -> None:
    def function(b: int, a: int, c: int = 1, *, d: int, e: int = 2) -> None: ...

    schema = input_schema(function)
    assert schema["required"] == ["b", "a", "d"]
    assert list(schema["properties"]) == ["b", "a", "c", "d", "e"]


def test_description_of_a_parameter_is_not_shared() -> None:
    def function(
        first: Annotated[ex.Point, "from"],
        second: Annotated[ex.Point, "to"],
        third: ex.Point,
        fourth: Annotated[str, "text"],
        fifth: str,
    ) -> None: ...

    assert input_schema(function)["properties"] == {
        "first": {**POINT, "description": "from"},
        "second": {**POINT, "description": "to"},
        "third": POINT,
        "fourth": {**STRING, "description": "text"},
        "fifth": STRING,
    }


def titles(schema: Any) -> list[str]:
    """Return every title in a schema, including properties with that name."""
    if isinstance(schema, list):
        return [title for each in schema for title in titles(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema["title"]] if isinstance(schema.get("title"), str) else []
    return own + [title for each in schema.values() for title in titles(each)]


def test_schemas_omit_generated_titles() -> None:
    def function(some_name: ex.Book, other_name: ex.Forest, kind: ex.Colour) -> None: ...

    assert titles(input_schema(function)) == []


def test_schemas_keep_explicit_titles() -> None:
    assert titles(input_schema(taking(ex.Closed))) == ["A closed thing"]

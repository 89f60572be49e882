from __future__ import annotations

from typing import Annotated, Any

from tests.schemas import examples as ex
from tests.schemas.kinds import STRING
from tests.schemas.kinds_classes import POINT
from tests.support.schemas import input_schema
from tests.support.serving import taking


def test_required_are_the_parameters_without_a_default_in_their_order() -> None:
    def function(b: int, a: int, c: int = 1, *, d: int, e: int = 2) -> None: ...

    schema = input_schema(function)
    assert schema["required"] == ["b", "a", "d"]
    assert list(schema["properties"]) == ["b", "a", "c", "d", "e"]


def test_a_text_on_one_parameter_is_on_no_other() -> None:
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
    """Every title in a schema; a property may be called so as well."""
    if isinstance(schema, list):
        return [title for each in schema for title in titles(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema["title"]] if isinstance(schema.get("title"), str) else []
    return own + [title for each in schema.values() for title in titles(each)]


def test_schemas_hold_no_generated_titles() -> None:
    def function(some_name: ex.Book, other_name: ex.Forest, kind: ex.Colour) -> None: ...

    assert titles(input_schema(function)) == []


def test_schemas_hold_the_titles_that_were_given() -> None:
    assert titles(input_schema(taking(ex.Closed))) == ["A closed thing"]

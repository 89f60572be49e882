"""Null is the last branch of an anyOf and occurs once, for every source of a schema."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from pydantic import Field, WithJsonSchema
from typing_extensions import TypeAliasType

from mcp_bridge.schemas import Inputs, Outputs, Signature
from tests.schemas import examples as ex
from tests.schemas.kinds import INTEGER, STRING
from tests.support.serving import taking
from tests.support.values import label

NULL: dict[str, Any] = {"type": "null"}
Maybe = TypeAliasType("Maybe", Optional[int])  # noqa: UP045
Nested = TypeAliasType("Nested", Union[Maybe, str, None])  # noqa: UP007


class Answer(enum.Enum):
    """An answer, or none."""

    YES = "yes"
    NONE = None


def either(*branches: Any, **beside: Any) -> dict[str, Any]:
    return {"anyOf": [*branches, NULL], **beside}


def given(**schema: Any) -> Any:
    """Return a hint whose schema the site has written itself."""
    return Annotated[Any, WithJsonSchema(schema)]


HINTS: list[tuple[Any, dict[str, Any]]] = [
    (None | int, either(INTEGER)),
    (int | None | str, either(INTEGER, STRING)),
    (Annotated[int | str, Field(description="x")] | None, either(INTEGER, STRING, description="x")),
    (
        Annotated[int, Field(title="T", description="x")] | None,
        either(INTEGER, title="T", description="x"),
    ),
    (
        Annotated[Annotated[int, "x"] | None, Field(description="y")],
        either(INTEGER, description="y"),
    ),
    (Nested, either(INTEGER, STRING)),
    (Maybe | str, either(INTEGER, STRING)),
    (Literal["a", None], either({**STRING, "enum": ["a"]})),
    (Literal[1, 2, None], either({**INTEGER, "enum": [1, 2]})),
    (
        Literal["a"] | Literal["b"] | None,
        either({**STRING, "const": "a"}, {**STRING, "const": "b"}),
    ),
    (Answer, either({**STRING, "enum": ["yes"]}, description="An answer, or none.")),
    (ex.Colour | None, either({**STRING, "enum": ["red", "blue"]})),
    (
        given(type=["string", "null"], maxLength=3, title="T"),
        either({**STRING, "maxLength": 3}, title="T"),
    ),
    (given(type=["string", "integer"]), {"anyOf": [STRING, INTEGER]}),
    (given(type=["null", "string"], enum=["a", None]), either({**STRING, "enum": ["a"]})),
    (given(type=["null", "string"], enum=["a"]), {**STRING, "enum": ["a"]}),
    (given(type=["string", "null"], const="a"), {**STRING, "const": "a"}),
    (given(type=["integer"]), INTEGER),
    (given(type="string", enum=["a", None]), {**STRING, "enum": ["a"]}),
    (given(enum=[None]), {"enum": [None]}),
    (given(type=["null"], enum=["a"]), {"type": ["null"], "enum": ["a"]}),
    (given(anyOf=[NULL, True, NULL]), either(True)),
    (
        given(type=["string", "null"], **{"not": {"const": "a"}}),
        {"anyOf": [{**STRING, "not": {"const": "a"}}, {**NULL, "not": {"const": "a"}}]},
    ),
]


@pytest.mark.parametrize(("hint", "schema"), HINTS, ids=label)
def test_null_is_the_last_branch_and_unique(hint: Any, schema: dict[str, Any]) -> None:
    assert Inputs(Signature.of(taking(hint))).schema["properties"] == {"value": schema}
    assert (Outputs(hint).schema or {})["properties"] == {"result": schema}

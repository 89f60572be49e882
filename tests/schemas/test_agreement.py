"""What a schema says and what is enforced are the same thing, for values of every kind."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import Field, JsonValue, Strict

from mcp_bridge.arguments import typed_checker
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.schemas import Inputs, Signature
from tests.conftest import label
from tests.schemas import configured as conf
from tests.schemas import examples as ex
from tests.serving import taking

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 5, 6, 2**60, 1.0, 2.0, 0.5, -0.0, 1e300),
    *("", "a", "ab", "abc", "1", "2", "true", "yes", "null", "red", "RED", "card", "\x00", "é"),
    *("2024-02-29", "2023-02-29", "10:00", "12345678-1234-5678-1234-567812345678"),
    *([], [1], [1.0], [True], ["1"], [None], [1, 1], [1, 2], ["a", "a"], [1, "a"], ["a", 1]),
    *([[1]], [{}], [{"x": 1}], [{"x": "1"}], [1, "a", 2], [2, 1, 3]),
    *({}, {"x": 1}, {"x": 1.0}, {"x": "1"}, {"x": True}, {"x": 1, "y": 2}, {"x": 1, "z": 2}),
    *({"a": 1}, {"a": 1, "b": "x"}, {"a": 1, "b": 2}, {"a": "1"}, {"a": None}, {"a": []}),
    *({"title": "t"}, {"title": "too long"}, {"title": "t", "year": "1"}, {"title": "t", "z": 1}),
    *({"method": "card", "amount": 1}, {"method": "card", "amount": "1"}, {"method": "cash"}),
    *({"method": "cash", "kind": "x"}, {"method": "cheque"}, {"method": "card", "kind": "x"}),
    *({"value": 1, "children": []}, {"value": 1, "children": [{"value": 1}]}, {"next": None}),
    *({"next": {"next": {}}}, {"next": {"next": {"next": 1}}}, {"next": [], "more": 1}),
]
EXACT: list[Any] = [
    *(int, str, float, bool, None, Any, list, dict, list[int], list[list[int]], list[Any]),
    *(dict[str, int], dict[str, Any], set[int], tuple[int, ...], tuple[int, str]),
    *(Literal["a", "b"], Literal[1, 2], Literal[0], Literal[True], Literal[1, "a", None]),
    *(ex.Colour, ex.Level, ex.Kind, ex.Mixed, ex.Point, ex.Options, ex.Book, ex.Closed),
    *(ex.Named, ex.Node, ex.Linked, ex.Folder, ex.Tree, ex.Card | ex.Cash, ex.Payment),
    *(int | None, int | str, int | float, float | str, str | None, list[int] | dict[str, int]),
    *(ex.Point | None, ex.Point | ex.Options, list[ex.Point | int], Literal["a"] | None),
    *(
        Annotated[int, Field(ge=1, le=5)],
        Annotated[int, Field(gt=0)],
        Annotated[float, Field(lt=1)],
    ),
    *(Annotated[int, Field(multiple_of=2)], Annotated[str, Field(max_length=1)]),
    *(Annotated[str, Field(min_length=1, pattern="^a")], Annotated[int | None, Field(ge=1)]),
    *(
        Annotated[list[int], Field(min_length=1, max_length=2)],
        Annotated[dict, Field(max_length=1)],
    ),
]
CONFIGURED: list[Any] = [
    *(conf.Lax, conf.LaxField, conf.LaxDataclass, conf.OpenDataclass, conf.OpenDict, conf.Partial),
    *(conf.Numbers, conf.Aliased, conf.Box[int], conf.Half, conf.Truth, conf.ByFunction),
    *(conf.Checked, conf.Prepared, conf.Tricky, list[conf.Lax], conf.Lax | None, conf.Lax | str),
    *(Annotated[int, Strict(False)], Annotated[int, Field(strict=False)], JsonValue),
    *(set[int] | None, frozenset[int], set[str] | str, list[ex.Level], ex.Level | None),
    *(ex.Level | str, Literal[1] | str, Literal[0] | None, Literal[1, True], int | bool),
    *(Sequence[int], Mapping[str, int], dict[Literal["a", "b"], int], dict[ex.Colour, int]),
    *(Annotated[set[int], Field(min_length=2)], Annotated[int, Field(default=5)]),
]
FORMATS: list[Any] = [datetime.date, uuid.UUID, datetime.date | None, list[datetime.date]]


def disagreements(hint: Any, **options: Any) -> list[tuple[Any, bool, bool]]:
    """The values on which schema and checker differ: the value, valid, accepted."""
    inputs = Inputs(Signature.of(taking(hint)))
    validator = Draft202012Validator(inputs.schema, **options)
    check = typed_checker(inputs)
    found = []
    for value in VALUES:
        valid = validator.is_valid({"value": value})
        try:
            check({"value": value})
            accepted = True
        except InvalidArguments:
            accepted = False
        if valid != accepted:
            found.append((value, valid, accepted))
    return found


@pytest.mark.parametrize("hint", [*EXACT, *CONFIGURED], ids=label)
def test_what_fits_the_schema_is_accepted_and_nothing_else(hint: Any) -> None:
    assert disagreements(hint) == []


@pytest.mark.parametrize("hint", FORMATS, ids=label)
def test_what_fits_the_format_is_accepted_and_nothing_else(hint: Any) -> None:
    checker = Draft202012Validator.FORMAT_CHECKER
    assert disagreements(hint, format_checker=checker) == []


def test_a_default_reaches_the_procedure_as_it_is() -> None:
    checked = typed_checker(Inputs(Signature.of(taking(conf.Tricky))))({"value": {}})
    assert checked["value"].spec == {"type": "date", "strict": False}

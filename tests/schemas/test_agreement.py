"""A schema and its enforcement agree, for values of every kind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, JsonValue, Strict, Tag

from mcp_bridge.calls.arguments import typed_checker
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.schemas import Inputs, Signature
from tests.schemas import configured as conf
from tests.schemas import examples as ex
from tests.schemas.test_kinds import KINDS, valid
from tests.support.serving import taking
from tests.support.values import label

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 5, 6, 2**60, 1.0, 2.0, 0.5, -0.0, 1e300),
    *("", "a", "ab", "abc", "1", "2", "true", "yes", "null", "red", "RED", "card", "é"),
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
    *(kind.hint for kind in KINDS if not kind.differs),
    *(list[Any], dict[str, Any], Literal[0], ex.Linked, ex.Folder, ex.Tree, ex.Payment),
    *(float | str, list[int] | dict[str, int], ex.Point | ex.Options, list[ex.Point | int]),
    *(list[dt.date], list[Decimal]),
]
CONFIGURED: list[Any] = [
    *(conf.Lax, conf.LaxField, conf.LaxDataclass, conf.OpenDataclass, conf.OpenDict, conf.Partial),
    *(conf.Numbers, conf.Aliased, conf.Box[int], conf.Half, conf.Truth, conf.ByFunction),
    *(conf.Checked, conf.Prepared, conf.Tricky, list[conf.Lax], conf.Lax | None, conf.Lax | str),
    *(Annotated[int, Strict(False)], Annotated[int, Field(strict=False)], JsonValue),
    *(set[int] | None, frozenset[int], set[str] | str, list[ex.Level], ex.Level | None),
    *(ex.Level | str, Literal[1] | str, Literal[0] | None, Literal[1, True], int | bool),
    *(Mapping[str, int], dict[Literal["a", "b"], int]),
    *(Annotated[int, Field(default=5)], Annotated[dt.date, Tag("day")] | Literal[1]),
]


def disagreements(hint: Any) -> list[tuple[Any, bool, bool]]:
    """Return the values on which schema and checker differ: the value, valid, accepted."""
    inputs = Inputs(Signature.of(taking(hint)))
    fits = valid(inputs.schema)
    check = typed_checker(inputs)
    found = []
    for value in VALUES:
        is_optional = "value" not in inputs.schema.get("required", ())
        # Null for optional members is omitted.
        fitting = fits({"value": value}) or (value is None and is_optional)
        try:
            check({"value": value})
            accepted = True
        except InvalidArguments:
            accepted = False
        if fitting != accepted:
            found.append((value, fitting, accepted))
    return found


@pytest.mark.parametrize("hint", [*EXACT, *CONFIGURED], ids=label)
def test_schema_and_enforcement_accept_the_same_values(hint: Any) -> None:
    assert disagreements(hint) == []


def test_default_reaches_the_procedure_unchanged() -> None:
    checked = typed_checker(Inputs(Signature.of(taking(conf.Tricky))))({"value": {}})
    assert checked["value"].spec == {"type": "date", "strict": False}

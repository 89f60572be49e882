"""What a check against a schema given by hand may cost, whatever schema and value hold."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from typing import Any

import pytest
from pydantic import BaseModel, computed_field

from mcp_bridge.handmade import Handmade, Uncheckable
from tests.conftest import CheckedClient, text_of
from tests.serving import giving, serve, taking


def of(**value: Any) -> dict[str, Any]:
    """An input schema with one parameter, ``value``."""
    return {"type": "object", "properties": {"value": value}}


def doubled(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"a{levels}": {"type": "integer"}}
    for level in range(levels):
        definitions[f"a{level}"] = {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2}
    return {**of(**{"$ref": "#/$defs/a0"}), "$defs": definitions}


BRANCHES = [{"items": {"$ref": "#/properties/value"}, "maxItems": count} for count in (1, 2)]
WORST = {
    "nested quantifiers": (of(pattern="^(a+)+$"), "a" * 29 + "!"),
    "nested quantifiers and a long text": (of(type="string", pattern="^(a+)+$"), "a" * 900_000),
    "three stars": (of(pattern="a*a*a*b"), "a" * 900_000),
    "unique objects": (of(uniqueItems=True), [{"a": number} for number in range(8000)]),
    "unique colliding": (of(uniqueItems=True), [n * (2**61 - 1) for n in range(25_000)]),
    "doubled choices": (doubled(18), "x"),
    "choices in depth": (of(type="array", anyOf=BRANCHES), json.loads("[" * 60 + "]" * 60)),
    "a long text of a wrong type": (of(type="integer"), "x" * 889_000),
    "many complaints of a large value": (
        {"allOf": [of(type="string")] * 300},
        ["ab"] * 150_000,
    ),
    "many items": (of(items={"minimum": 0}), list(range(150_000))),
    "many values to compare with": (of(items={"enum": list(range(8000))}), [-1] * 90_000),
    "many properties": (
        of(items={"properties": {f"p{number}": True for number in range(3000)}}),
        [{}] * 90_000,
    ),
    "many patterns": (
        of(patternProperties={f"^{number}$": True for number in range(900)}),
        {f"k{number}": 1 for number in range(50_000)},
    ),
    "formats": (of(items={"format": "regex"}), ["(a|b)" * 390] * 500),
    "an endless number": (of(multipleOf=0.5), 10**400),
}


@pytest.mark.parametrize(("schema", "value"), WORST.values(), ids=WORST)
def test_the_worst_cases_are_settled_within_a_second(schema: Any, value: Any) -> None:
    handmade = Handmade(schema, "input_schema")
    begun = time.thread_time()
    with contextlib.suppress(Uncheckable):
        handmade.violations({"value": value})
    # Coverage traces each line of it.
    assert time.thread_time() - begun < (1 if sys.gettrace() is None else 5)


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (of(multipleOf=0.5), int("9" * 309), "/: could not be checked; send simpler values"),
        (of(items={"minimum": 0}), [1] * 100_000, "/: cannot be checked: it is too large"),
    ],
    ids=["overflow", "large"],
)
def test_what_cannot_be_checked_is_an_argument_error_logged_once(
    schema: Any, value: Any, said: str, modern: CheckedClient, settings: Any, caplog: Any
) -> None:
    serve(settings, taking(Any), input_schema=schema)
    for _ in range(2):
        result = modern.call_tool("take", {"value": value})
        assert result["isError"]
        assert text_of(result).startswith(said)
    logged = [each for each in caplog.records if each.name == "mcp_bridge.schemas"]
    assert [each.levelno for each in logged] == [logging.WARNING]


class Numbered(BaseModel):
    numbers: set[int]

    @computed_field
    def count(self) -> int:
        return len(self.numbers)


def test_many_unique_values_of_a_result_take_no_second(
    modern: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(Numbered, Numbered(numbers=set(range(20_000)))))
    begun = time.thread_time()
    assert modern.call_tool("give")["structuredContent"]["count"] == 20_000
    assert time.thread_time() - begun < (1 if sys.gettrace() is None else 5)

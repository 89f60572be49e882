"""The cost of validation against an explicit schema is bounded for every schema and value."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pydantic import BaseModel, computed_field

from mcp_bridge.schemas.validation import (
    LEAST_STEPS,
    MAX_STEPS,
    Bounded,
    SchemaValidator,
    UncheckableError,
)
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.profiling import calls
from tests.support.serving import giving, taking


def of(**value: Any) -> dict[str, Any]:
    """Return an input schema with one parameter, ``value``."""
    return {"type": "object", "properties": {"value": value}}


def doubled(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"a{levels}": {"type": "integer"}}
    for level in range(levels):
        definitions[f"a{level}"] = {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2}
    return {**of(**{"$ref": "#/$defs/a0"}), "$defs": definitions}


class LoudText(str):
    """A string that must not be formatted, as jsonschema does in its messages."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise AssertionError("a long text is written out")


class LoudList(list[Any]):
    """A list of that sort."""

    def __repr__(self) -> str:
        raise AssertionError("a long list is written out")


BRANCHES = [{"items": {"$ref": "#/properties/value"}, "maxItems": count} for count in (1, 2)]
# A tenth of the permitted steps, and values of a tenth of a request's maximum size.
STEPS = MAX_STEPS // 10
TOO_LARGE = "cannot be checked: it is too large or too deep; send less"
WORST = {
    "nested quantifiers": (of(pattern="^(a+)+$"), "a" * 29 + "!", 1),
    "nested quantifiers and a long text": (of(type="string", pattern="^(a+)+$"), "a" * 90_000, 0),
    "three stars": (of(pattern="a*a*a*b"), "a" * 90_000, 1),
    "unique objects": (of(uniqueItems=True), [{"a": number} for number in range(1000)], 0),
    "unique colliding": (of(uniqueItems=True), [n * (2**61 - 1) for n in range(2000)], 0),
    "doubled choices": (doubled(15), "x", TOO_LARGE),
    "choices in depth": (of(type="array", anyOf=BRANCHES), json.loads("[" * 60 + "]" * 60), 0),
    "a long text of a wrong type": (of(type="integer"), LoudText("x" * 90_000), 1),
    "many errors of a large value": (
        {"allOf": [of(type="string")] * 300},
        LoudList(["ab"] * 15_000),
        300,
    ),
    "many items": (of(items={"minimum": 0}), list(range(15_000)), TOO_LARGE),
    "many values to compare with": (
        of(items={"enum": list(range(8000))}),
        [-1] * 9000,
        TOO_LARGE,
    ),
    "many properties": (
        of(items={"properties": {f"p{number}": True for number in range(3000)}}),
        [{}] * 9000,
        TOO_LARGE,
    ),
    "many patterns": (
        of(patternProperties={f"^{number}$": True for number in range(900)}),
        {f"k{number}": 1 for number in range(5000)},
        TOO_LARGE,
    ),
    "formats": (of(items={"format": "regex"}), ["(a|b)" * 390] * 500, TOO_LARGE),
    "an endless number": (of(multipleOf=0.7), 7 * 10**400, 0),
}


@pytest.mark.requirement("schema.bounds")
@pytest.mark.parametrize(("schema", "value", "outcome"), WORST.values(), ids=WORST)
def test_worst_cases_take_little_work(
    schema: Any, value: Any, outcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_bridge.schemas.validation.MAX_STEPS", STEPS)
    validator = SchemaValidator(schema, "input_schema")

    def outcome_of() -> int | str:
        try:
            return len(validator.errors({"value": value}))
        except UncheckableError as why:
            return str(why)

    # A pattern that takes exponential time is not counted here, but it would not end either.
    work, found = calls(outcome_of)
    assert found == outcome
    assert work < 40 * STEPS


def test_repeatedly_read_value_takes_little_work() -> None:
    schema = {"contains": {"$ref": "#"}, "minContains": 0, "unevaluatedItems": False}
    validator = SchemaValidator(schema, "input_schema")

    def outcome_of() -> str:
        with pytest.raises(UncheckableError) as why:
            validator.errors(json.loads("[" * 20 + "]" * 20))
        return str(why.value)

    work, found = calls(outcome_of)
    assert found == TOO_LARGE
    # It is about 9 a step: that of MAX_STEPS would be 5 times as much.
    assert work < 15 * LEAST_STEPS


KINDS = [
    {"allOf": [{"$ref": "#/$defs/base"}], "properties": {"kind": {"const": f"k{number}"}}}
    for number in range(100)
]
BASE = {"properties": {f"p{number}": {"maxLength": 9} for number in range(30)}}
ENOUGH = {
    "long texts of a format": (
        of(items={"format": "uri"}),
        [f"https://example.com/{'a' * 200}"] * 100,
    ),
    "many branches with one base": (
        {**of(items={"oneOf": KINDS}), "$defs": {"base": BASE}},
        [{"kind": f"k{number}"} for number in range(25)],
    ),
    "many values to compare with": (of(items={"enum": list(range(8000))}), [7] * 90),
}


@pytest.mark.parametrize(("schema", "value"), ENOUGH.values(), ids=ENOUGH)
def test_value_with_costly_keywords_has_enough_steps(
    schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator = SchemaValidator(schema, "input_schema")
    assert validator.errors({"value": value}) == []
    monkeypatch.setattr("mcp_bridge.schemas.validation.MAX_STEPS", LEAST_STEPS)
    with pytest.raises(UncheckableError):
        validator.errors({"value": value})


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (
            of(allOf=[{"anyOf": [{"not": {"not": {"items": {"$ref": "#/properties/value"}}}}]}]),
            json.loads("[" * 55 + "]" * 55),
            "/: could not be checked; send simpler values",
        ),
        (
            of(items={"anyOf": [{"minimum": 0}]}),
            [1] * 10_000,
            "/: cannot be checked: it is too large",
        ),
    ],
    ids=["deep", "large"],
)
def test_uncheckable_value_is_an_error_logged_once(
    schema: Any, value: Any, said: str, modern: CheckedClient, settings: Any, caplog: Any
) -> None:
    serve(settings, taking(Any), input_schema=schema)
    for _ in range(2):
        result = modern.call_tool("take", {"value": value})
        assert result["isError"]
        assert text_of(result).startswith(said)
    logged = [each for each in caplog.records if each.name == "mcp_bridge.schemas"]
    assert [each.levelno for each in logged] == [logging.WARNING]


def test_subschema_has_one_validator_for_all_values(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    evolve = Bounded.evolve

    def counted(self: Any, **changes: Any) -> Any:
        made.append(changes["schema"])
        return evolve(self, **changes)

    # This tests ``descend``, which is not public in jsonschema and may change.
    monkeypatch.setattr(Bounded, "evolve", counted)
    schema = {**of(items={"$ref": "#/$defs/a"}), "$defs": {"a": {"anyOf": [{"minimum": 0}]}}}
    validator = SchemaValidator(schema, "input_schema")
    for count in (10, 100):
        assert validator.errors({"value": [1] * count}) == []
        assert len(made) == 4


class Numbered(BaseModel):
    numbers: set[int]

    @computed_field
    def count(self) -> int:
        return len(self.numbers)


def test_many_unique_values_of_a_result_take_little_work(
    modern: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(Numbered, Numbered(numbers=set(range(2000)))))
    work, result = calls(lambda: modern.call_tool("give"))
    assert result["structuredContent"]["count"] == 2000
    assert work < 150 * 2000

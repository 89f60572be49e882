"""
Advertised schemas and their enforcement, compared with generated values.

Some examples a kind, the same in every run; ``make fuzz`` tries ten thousand, by its seed. Intended
differences are listed in docs/tools/schemas.md.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
from collections.abc import Callable
from random import Random
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from jsonschema import Draft202012Validator
from pydantic import AwareDatetime, Field, NaiveDatetime
from typing_extensions import TypedDict

from mcp_bridge.calls.arguments import typed_checker
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.schemas import Inputs, Signature
from tests.schemas import structures
from tests.schemas.drawing import days, fitting, mutated
from tests.schemas.test_agreement import CONFIGURED, EXACT, VALUES
from tests.schemas.test_kinds import valid
from tests.support.serving import taking
from tests.support.values import label


class Awkward(TypedDict):
    """Its members have the names that pydantic's core schemas use."""

    type: Literal[1]
    default: Literal[1]
    strict: int
    ref: Literal[0]
    fields: set[int]
    choices: NotRequired[datetime.date]


class Tagged(TypedDict):
    type: Literal["default"]
    serialization: Literal[1]


class OtherwiseTagged(TypedDict):
    type: Literal["type"]
    config: int


AWKWARD: list[Any] = [Awkward, Annotated[Tagged | OtherwiseTagged, Field(discriminator="type")]]
# Generating a value takes longer than changing it.
CHANGES = 5
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "10"))
some = settings(
    max_examples=EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
clocks = st.times().map("{:%H:%M:%S.%f}".format)
texts = st.builds("{}{}{}".format, days, st.sampled_from("Tt "), clocks)
zones = st.sampled_from(["Z", "z", "+05:30", "-00:00", "+14:00"])
# jsonschema does not check these, so only one direction can be tested: fitting values are accepted.
# The format of times requires an offset, which these may, must or must not have.
ONE_WAY: list[Any] = [
    *((hint, None) for hint in (datetime.datetime, datetime.time, datetime.timedelta, bytes)),
    *((hint, None) for hint in (list[bytes], datetime.datetime | None, dict[str, datetime.time])),
    *((NaiveDatetime, texts), (AwareDatetime, st.builds("{}{}".format, texts, zones))),
]

# From docs/tools/schemas.md: all of these fit the schema if formats are annotations.
DIFFERENCES: list[Any] = [
    (datetime.datetime, "2024-02-29T14:30:00", True),
    (datetime.time, "14:30:00", True),
    (datetime.datetime, "a word", False),
    (datetime.datetime, "2016-12-31T23:59:60Z", False),
    (datetime.date, "0000-01-01", False),
    (bytes, "no base64", False),
    (bytes, "-_-_", True),
    (bytes, "YQ", True),
    (Annotated[bytes, Field(max_length=1)], "YWE=", False),
    (NaiveDatetime, "2024-02-30T00:00:00", False),
    (Annotated[decimal.Decimal, Field(ge=0)], "-1", False),
    (Annotated[decimal.Decimal, Field(decimal_places=2)], 1.234, False),
    (Annotated[decimal.Decimal, Field(max_digits=3)], "1e9", False),
    (structures.Item, {"name": "a", "count": 13}, False),
]


def judges(hint: Any) -> tuple[dict[str, Any], Callable[[Any], bool], Callable[[Any], bool]]:
    """Return the schema of a parameter; whether a value fits it; whether it is accepted."""
    inputs = Inputs(Signature.of(taking(hint)))
    check = typed_checker(inputs)

    def accepted(arguments: Any) -> bool:
        try:
            check(arguments)
        except InvalidArguments:
            return False
        return True

    fits = valid(inputs.schema)
    if "value" in inputs.schema.get("required", ()):
        return inputs.schema, fits, accepted
    # Null for optional members is omitted.
    return inputs.schema, lambda sent: sent == {"value": None} or fits(sent), accepted


@pytest.mark.parametrize("hint", [*EXACT, *CONFIGURED, *AWKWARD], ids=label)
def test_generated_values_are_accepted_if_they_fit(hint: Any) -> None:
    schema, fits, accepted = judges(hint)

    @some
    @given(
        fitting({"$defs": schema.get("$defs", {}), **schema["properties"]["value"]}),
        st.integers(0, 2**32),
    )
    def agree(value: Any, seed: int) -> None:
        assert fits({"value": value}), "the strategy is wrong"
        assert accepted({"value": value})
        random = Random(seed)
        for changed in (mutated(value, random, VALUES) for _ in range(CHANGES)):
            assert accepted({"value": changed}) == fits({"value": changed}), changed

    agree()


def test_generated_texts_contain_no_nul() -> None:
    values = [{}, {"type": "string"}, {"type": "string", "pattern": "^b"}]
    names = {"pattern": "^a"}
    members = {"propertyNames": names, "additionalProperties": {"anyOf": values}}
    with pytest.raises(NoSuchExample):
        find(
            fitting({"type": "object", **members}),
            lambda value: r"\u0000" in json.dumps(value),
            settings=settings(some, max_examples=200),
        )


@pytest.mark.parametrize(("hint", "drawn"), ONE_WAY, ids=label)
def test_generated_values_are_accepted(hint: Any, drawn: Any) -> None:
    schema, _, accepted = judges(hint)

    @some
    @given(fitting(schema["properties"]["value"]) if drawn is None else drawn)
    def agree(value: Any) -> None:
        assert accepted({"value": value})

    agree()


@pytest.mark.parametrize(("hint", "value", "taken"), DIFFERENCES, ids=label)
def test_documented_differences_exist(hint: Any, value: Any, taken: bool) -> None:
    schema, _, accepted = judges(hint)
    assert Draft202012Validator(schema).is_valid({"value": value})
    assert accepted({"value": value}) is taken

"""Results written by custom serializers: only a return hint gives them a type."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import (
    BaseModel,
    PlainSerializer,
    RootModel,
    WrapSerializer,
    field_serializer,
    model_serializer,
)

from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.schemas import ASSERTED
from tests.support.serving import giving
from tests.support.values import label

DAY = dt.date(2024, 1, 1)


class Event(BaseModel):
    day: dt.date

    @field_serializer("day")
    def german(self, day):  # type: ignore[no-untyped-def]
        return day.strftime("%d.%m.%Y")


class Parts(BaseModel):
    day: dt.date | None

    @field_serializer("day", mode="wrap")
    def parted(self, day, handler):  # type: ignore[no-untyped-def]
        return handler(day).split("-")


class Summary(BaseModel):
    day: dt.date

    @model_serializer
    def summary(self):  # type: ignore[no-untyped-def]
        return {"year": self.day.year}


class Days(RootModel[list[Event]]):
    pass


class Hinted(BaseModel):
    day: dt.date

    @field_serializer("day")
    def ordinal(self, day) -> int:  # type: ignore[no-untyped-def]
        return int(day.toordinal())


Year = Annotated[dt.date, PlainSerializer(lambda day: day.year)]
Short = Annotated[dt.date, WrapSerializer(lambda day, handler: {"of": handler(day)})]


def result(client: CheckedClient, settings: Any, hint: Any, value: Any) -> tuple[Any, Any]:
    """Return the output schema of a tool that returns the value, and the value as sent."""
    serve(settings, giving(hint, value))
    schema = client.list_tools()[0]["outputSchema"]
    answer = client.call_tool("give")
    assert answer["isError"] is False, answer
    structured = answer["structuredContent"]
    Draft202012Validator(schema, format_checker=ASSERTED).validate(structured)
    return schema, structured


OWN: list[tuple[Any, Any, Any]] = [
    (Event, Event(day=DAY), {"day": "01.01.2024"}),
    (list[Event], [Event(day=DAY)], {"result": [{"day": "01.01.2024"}]}),
    (Parts, Parts(day=DAY), {"day": ["2024", "01", "01"]}),
    (Summary, Summary(day=DAY), {"result": {"year": 2024}}),
    (Days, Days([Event(day=DAY)]), {"result": [{"day": "01.01.2024"}]}),
    (dict[str, Year], {"a": DAY}, {"a": 2024}),
    (Short, DAY, {"result": {"of": "2024-01-01"}}),
]


@pytest.mark.parametrize(("hint", "value", "expected"), OWN, ids=label)
def test_serializers_without_a_return_hint_have_no_type(
    hint: Any, value: Any, expected: Any, modern: CheckedClient, settings: Any
) -> None:
    schema, structured = result(modern, settings, hint, value)
    assert structured == expected
    assert "format" not in str(schema)


def test_return_hint_of_a_serializer_is_the_type(modern: CheckedClient, settings: Any) -> None:
    schema, structured = result(modern, settings, Hinted, Hinted(day=DAY))
    assert schema["properties"]["day"] == {"type": "integer"}
    assert structured == {"day": DAY.toordinal()}

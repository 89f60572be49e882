"""Choices as values and as names of objects: each once, and names as strings."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from django.db.models import IntegerChoices, TextChoices
from jsonschema import Draft202012Validator

from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.values import label


class Code(enum.Enum):
    OK = 1
    FINE = 1
    BAD = 2


class Word(enum.StrEnum):
    YES = "yes"
    YEP = "yes"


class Level(enum.IntEnum):
    LOW = 1
    SMALL = 1
    HIGH = 2


class Grade(IntegerChoices):
    FIRST = 1, "First"
    LAST = 2, "Last"


class Size(TextChoices):
    SMALL = "s", "Small"
    LARGE = "l", "Large"


@dataclass
class Both:
    codes: list[Level]
    of: dict[Level, Level]


@dataclass
class Outer:
    both: Both
    levels: dict[Level, Both]
    more: list[Level] | None = None


def enums(schema: Any) -> list[list[Any]]:
    """Return every list of values in a schema."""
    if isinstance(schema, list):
        return [found for each in schema for found in enums(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema["enum"]] if "enum" in schema else []
    return own + [found for each in schema.values() for found in enums(each)]


def passed(client: CheckedClient, settings: Any, hint: Any, value: Any) -> dict[str, Any]:
    """Have a tool take and return the value; returns its definition, which both have to fit."""

    def echo(value):  # type: ignore[no-untyped-def]
        """Return the value."""
        return value

    echo.__annotations__ = {"value": hint, "return": hint}
    serve(settings, echo)
    [tool] = client.list_tools()
    Draft202012Validator(tool["inputSchema"]).validate({"value": value})
    answer = client.call_tool("echo", {"value": value})
    assert answer["isError"] is False, answer
    assert answer["structuredContent"] in (value, {"result": value})
    Draft202012Validator(tool["outputSchema"]).validate(answer["structuredContent"])
    return tool


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Code, 1),
        (list[Code], [1, 2]),
        (Word, "yes"),
        (Level | None, 1),
        (Grade, 2),
        (dict[str, Level], {"a": 1}),
        (dict[Level, int], {"1": 1}),
        (Literal[Level.LOW, Level.HIGH, 1], 2),
        (Both, {"codes": [1], "of": {"2": 1}}),
        (
            list[Outer],
            [
                {
                    "both": {"codes": [1], "of": {"2": 1}},
                    "levels": {"1": {"codes": [], "of": {}}},
                    "more": [2],
                }
            ],
        ),
    ],
    ids=label,
)
def test_each_value_of_an_enum_is_named_once(
    hint: Any, value: Any, modern: CheckedClient, settings: Any
) -> None:
    tool = passed(modern, settings, hint, value)
    found = enums(tool)
    assert found
    assert [each for each in found if len(set(map(json.dumps, each))) < len(each)] == []


@pytest.mark.parametrize(
    ("hint", "value", "names"),
    [
        (dict[Grade, int], {"1": 5}, ["1", "2"]),
        (dict[Level, list[Level]], {"2": [1]}, ["1", "2"]),
        (dict[Literal[1, 2], int], {"2": 5}, ["1", "2"]),
        (dict[Literal[1, "a"], int], {"a": 5, "1": 2}, ["1", "a"]),
        (dict[Literal[True, False], int], {"true": 5}, ["true", "false"]),
        (dict[Size, int], {"s": 5}, ["s", "l"]),
        (list[dict[Code, str]], [{"1": "a"}], ["1", "2"]),
    ],
    ids=label,
)
def test_choice_names_are_strings(
    hint: Any, value: Any, names: list[str], modern: CheckedClient, settings: Any
) -> None:
    tool = passed(modern, settings, hint, value)
    schemas = [
        tool["inputSchema"]["properties"]["value"],
        tool["outputSchema"].get("properties", {}).get("result", tool["outputSchema"]),
    ]
    objects = [each.get("items", each) for each in schemas]
    assert [each["propertyNames"]["enum"] for each in objects] == [names] * 2
    wrong = [{"x": 1}] if isinstance(value, list) else {"x": next(iter(value.values()))}
    assert modern.call_tool("echo", {"value": wrong})["isError"] is True


def test_choice_names_are_received_as_members(modern: CheckedClient, settings: Any) -> None:
    received: list[Any] = []

    def take(grades: dict[Grade, int], levels: dict[Literal[1, 2], str]) -> None:
        """Take both."""
        received.extend([grades, levels])

    serve(settings, take)
    modern.call_tool("take", {"grades": {"1": 3}, "levels": {"2": "b"}})
    assert received == [{Grade.FIRST: 3}, {2: "b"}]
    assert type(next(iter(received[0]))) is Grade

"""
The cost of one call is bounded for any arguments.

Bounds are ratios of processor time to a harmless call of the same size, generous enough that only
quadratic or faster growth exceeds them.
"""

from __future__ import annotations

import datetime
import decimal
import json
import time
import tracemalloc
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import pytest
from django import forms
from django.db import models
from django.test.utils import isolate_apps
from pydantic import BaseModel, Field, create_model
from typing_extensions import TypedDict

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Section
from tests.calls.test_arguments import errors_of
from tests.support.serving import served, taking

pytestmark = pytest.mark.alone

# The modulus of the hashes of all of Python's numbers.
PRIME = 2**61 - 1
MANY = 9000
COLLIDING = [number * PRIME for number in range(1, MANY + 1)]
RANDOM = [number * 1_234_567 + 10**18 for number in range(MANY)]
LARGE = [{}] * 150_000


@dataclass(frozen=True)
class Place:
    x: int
    y: int


class Pair(NamedTuple):
    first: int
    second: str


def identifier(number: int) -> str:
    return str(uuid.UUID(int=number))


def keys(make: Callable[[int], Any]) -> Callable[[list[int]], Any]:
    return lambda numbers: {str(make(each)): 1 for each in numbers}


def items(make: Callable[[int], Any]) -> Callable[[list[int]], Any]:
    return lambda numbers: [make(each) for each in numbers]


def wide(*, count: int = 20) -> Any:
    """Return a model with many members that have to be sent."""
    members: dict[str, Any] = {f"m{number}": (int, ...) for number in range(count)}
    return create_model("Wide", __config__={"extra": "forbid"}, **members)


class One(BaseModel):
    a: int
    b: int


class Two(BaseModel):
    c: int
    d: int


class Three(BaseModel):
    e: int


class Node(BaseModel):
    name: str
    child: Node | list[Any] | None = None


class Left(BaseModel, extra="forbid"):
    child: Left | Right | None = None


class Right(BaseModel, extra="forbid"):
    child: Left | Right | None = None


class LeftDict(TypedDict, total=False):
    children: list[LeftDict | RightDict]


class RightDict(TypedDict, total=False):
    children: list[LeftDict | RightDict]


def nested(depth: int, value: Any, **others: Any) -> Any:
    for _ in range(depth):
        value = {"child": value, **others}
    return value


def listed(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = {"children": [value]}
    return value


def cost(client: CheckedClient, value: Any) -> tuple[float, dict[str, Any]]:
    """Return the processor time of a call, and its result."""
    before = time.process_time()
    result = client.call_tool("take", {"value": value})
    return time.process_time() - before, result


def affordable(client: CheckedClient, value: Any, harmless: Any) -> dict[str, Any]:
    """Return the result of a call that takes no more than some times what a harmless one takes."""
    spent, _ = cost(client, harmless)
    # The least of several: other threads and the garbage collector take processor time too.
    found = [cost(client, value) for _ in range(3)]
    assert min(more for more, _ in found) < 8 * spent + 1
    return found[0][1]


HASHED: list[Any] = [
    (set[int], items(int)),
    (frozenset[int | None], items(int)),
    (set[Any], items(int)),
    (set[uuid.UUID], items(identifier)),
    (set[decimal.Decimal], items(str)),
    (set[tuple[int, ...]], items(lambda number: [number])),
    (frozenset[Pair], items(lambda number: [number, "a"])),
    (set[Place], items(lambda number: {"x": number, "y": 0})),
    (dict[int, int], keys(int)),
    (dict[uuid.UUID, int], keys(identifier)),
    (OrderedDict[int, int], keys(int)),
    (Counter[int], keys(int)),
    (list[set[int]], lambda numbers: [numbers]),
]


@pytest.mark.parametrize(("hint", "make"), HASHED, ids=[str(hint) for hint, _ in HASHED])
def test_values_with_equal_hashes_are_refused(
    hint: Any, make: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    assert not cost(modern, make(RANDOM))[1]["isError"]
    result = affordable(modern, make(COLLIDING), make(RANDOM))
    assert [kind for _, kind in errors_of(result)] == ["hashes_alike"]


def test_values_with_accidental_hash_collisions_are_accepted(
    modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(set[tuple[int, int, int]]))
    pairs = [[a, b, c] for a in (-1, -2) for b in (-1, -2) for c in (-1, -2)]
    assert not cost(modern, pairs)[1]["isError"]


@pytest.mark.parametrize(
    ("hint", "value", "keyword"),
    [
        (set[int], list(range(10_001)), "maxItems"),
        (frozenset[tuple[str, int]], [["a", n] for n in range(10_001)], "maxItems"),
        (dict[int, int], {str(n): n for n in range(10_001)}, "maxProperties"),
    ],
)
def test_bound_of_hashed_values_is_advertised_and_enforced(
    hint: Any, value: Any, keyword: str, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    assert served("take").input_schema["properties"]["value"][keyword] == 10_000
    assert errors_of(cost(modern, value)[1]) == [("/value", "too_long")]
    value.popitem() if isinstance(value, dict) else value.pop()
    assert not cost(modern, value)[1]["isError"]


@pytest.mark.parametrize(
    ("hint", "bound"),
    [
        (set[str], None),
        (dict[str, int], None),
        (dict[Any, Any], None),
        (set[datetime.date | None], None),
        (Annotated[set[int], Field(max_length=20_000)], 20_000),
        (Annotated[set[int], Field(max_length=2)], 2),
    ],
    ids=str,
)
def test_strings_and_bounded_values_get_no_extra_bound(
    hint: Any, bound: int | None, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    schema = served("take").input_schema["properties"]["value"]
    assert schema.get("maxItems", schema.get("maxProperties")) == bound


class SectionsForm(forms.Form):
    sections = forms.ModelMultipleChoiceField(Section.objects.all())
    # By default it accepts fewer than the number whose hashes cost time.
    sections.max_length = 50_000  # type: ignore[attr-defined]


def test_row_keys_with_equal_hashes_are_refused(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(SectionsForm))
    result = affordable(modern, {"sections": COLLIDING}, {"sections": [1] * MANY})
    assert errors_of(result) == [("/value/sections", "hashes_alike")]


def test_instance_keys_with_equal_hashes_are_refused(modern: CheckedClient, settings: Any) -> None:
    with isolate_apps("testproject.newsroom"):

        class Numbered(models.Model):
            id = models.UUIDField(primary_key=True)

            class Meta:
                app_label = "newsroom"

        serve(settings, taking(list[Numbered]))
        result = cost(modern, [identifier(number) for number in COLLIDING])[1]
    assert errors_of(result) == [("/value", "hashes_alike")]


def test_same_key_can_be_sent_many_times(modern: CheckedClient, settings: Any) -> None:
    section = Section.objects.create(name="Sport", slug="sport")
    serve(settings, taking(list[Section]))
    assert not cost(modern, [section.pk] * 1000)[1]["isError"]


WRONG: dict[str, Any] = {
    "list of a union": (list[One | Two | Three], LARGE, "/value/0"),
    "tuple of a union": (tuple[One | Two | Three, ...], LARGE, "/value/0"),
    "list in a list": (list[list[One | Two]], [LARGE], "/value/0/0"),
    "dict of a union": (
        dict[str, One | Two | Three],
        {str(number): {} for number in range(40_000)},
        "/value/0",
    ),
    "a large value where another is wanted": (One | Two | Three | int, LARGE, "/value"),
    "many members beside a large value": (wide(), {"z": LARGE}, "/value/m0"),
    "members at every depth around it": (Node, nested(50, LARGE), "/value/child"),
}


@pytest.mark.parametrize(("hint", "value", "path"), WRONG.values(), ids=WRONG)
def test_large_invalid_values_cost_as_much_as_valid(
    hint: Any, value: Any, path: str, modern: CheckedClient, settings: Any
) -> None:
    def other(value: Any) -> None:
        """Take anything."""

    serve(settings, taking(hint), other)
    before = time.process_time()
    modern.call_tool("other", {"value": value})
    spent = time.process_time() - before
    more, result = cost(modern, value)
    assert errors_of(result)[0][0].startswith(path)
    assert more < 8 * spent + 1


def test_small_values_get_all_errors(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(list[One]))
    wrong = [{"a": 1, "b": "x"}, {"a": 1, "b": 2}, {"b": 2}]
    paths = [path for path, _ in errors_of(cost(modern, wrong)[1])]
    assert paths == ["/value/0/b", "/value/2/a"]


def test_large_values_get_one_error_per_array(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(tuple[list[int], dict[str, int]]))
    wrong = [[1.0, *range(400), "x", "y"], {"a": 1, "b": "x", "c": "y"}]
    assert errors_of(cost(modern, wrong)[1]) == [("/value/0/401", "int_type")]


TREES: dict[str, Any] = {
    "models": (Left, lambda depth: nested(depth, None), lambda: nested(30, 1)),
    "typed dicts": (LeftDict, lambda depth: listed(depth, {}), lambda: listed(28, {"x": 1})),
}


@pytest.mark.parametrize(("hint", "right", "wrong"), TREES.values(), ids=TREES)
def test_recursive_union_is_read_within_bounds(
    hint: Any, right: Any, wrong: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    assert not cost(modern, right(8))[1]["isError"]
    for value in (right(28), wrong()):
        result = affordable(modern, value, right(8))
        assert errors_of(result) == [("", "uncheckable")]
        assert text_of(result).endswith("cannot be checked: it is too large or too deep; send less")


def test_many_recursive_union_values_are_accepted(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(list[Left | Right]))
    assert not cost(modern, [nested(2, None)] * 10_000)[1]["isError"]


def test_content_of_strings_is_not_counted(modern: CheckedClient, settings: Any) -> None:
    def take(value: Left | Right | list[Left | Right], note: str) -> str:
        """Take a tree with a note."""
        return note[:1]

    serve(settings, take)
    for commas in (10, 500_000):
        sent = {"value": nested(28, 1), "note": ',"\\' + "," * commas}
        before = time.process_time()
        result = modern.call_tool("take", sent)
        assert time.process_time() - before < 3
        assert errors_of(result) == [("", "uncheckable")]
    sent = {"value": [1.5, 2.5], "note": ",[{" * 1000}
    # A small value gets all errors, even beside a long string.
    assert len([path for path, _ in errors_of(modern.call_tool("take", sent))]) > 0


def test_large_recursive_union_value_takes_at_most_a_second(
    modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(list[Left | Right]))
    spent, result = cost(modern, [nested(7, None)] * 12_000)
    assert errors_of(result) == [("", "uncheckable")]
    assert spent < 4


LONG = "k" * 900_000
NAMED: dict[str, Any] = {
    "a list of models": (dict[str, list[wide()]], {LONG: [{}] * 60}, "/value"),
    "a list of numbers": (dict[str, list[int]], {LONG: ["x"] * 250}, "/value"),
    "a dict in a dict": (
        dict[str, dict[str, int]],
        {LONG: {str(number): "x" for number in range(250)}},
        "/value",
    ),
    "quotation marks": (dict[str, list[int]], {'"\\' * 600: ["x"]}, "/value"),
    "an item of a list": (list[dict[str, int]], [{"a": 1}, {"b" * 1001: 1}], "/value/1"),
}


@pytest.mark.parametrize(("hint", "value", "path"), NAMED.values(), ids=NAMED)
def test_overlong_name_is_refused_before_it_reaches_errors(
    hint: Any, value: Any, path: str, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    cost(modern, {})
    tracemalloc.start()
    try:
        result = modern.call_tool("take", {"value": value})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert errors_of(result) == [(path, "name_too_long")]
    assert "more than 1000 bytes of JSON; send a shorter name" in text_of(result)
    assert most < 50_000_000


def test_overlong_keyword_argument_name_is_refused(modern: CheckedClient, settings: Any) -> None:
    def closed(value: int) -> None:
        """Take a number."""

    def take(**values: list[int]) -> None:
        """Take lists by name."""

    serve(settings, closed, take)
    result = modern.call_tool("take", {LONG: ["x"] * 250})
    assert errors_of(result) == [("", "name_too_long")]
    kinds = [kind for _, kind in errors_of(modern.call_tool("closed", {LONG: 1}))]
    assert sorted(kinds) == ["extra_forbidden", "missing"]


def test_names_as_long_as_an_address_are_accepted(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(dict[str, int]))
    name = "https://example.com/" + "a" * 980
    assert not cost(modern, {name: 1, 'b"' * 300: 2})[1]["isError"]
    # Long values are not names.
    serve(settings, taking(dict[str, str]))
    assert not cost(modern, {"a": "b" * 5000, "c": ':"' * 2000})[1]["isError"]


def test_long_names_get_one_error_per_array(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(dict[str, dict[str, list[wide()]]]))
    for count, errors in ((1, 25), (3, 20)):
        value: Any = {"a": {}}
        for number in range(count):
            value[f"{number}" * 900] = {"b" * 900: [{}] * 5}
        result = cost(modern, value)[1]
        assert len([kind for _, kind in errors_of(result) if kind == "missing"]) <= errors


def test_short_request_never_has_a_long_answer(modern: CheckedClient, settings: Any) -> None:
    one, two, three = (
        create_model(
            f"Wide{n}",
            **dict.fromkeys((f"{'m' * 40}{n}_{number}" for number in range(20)), (int, ...)),
        )
        for n in range(3)
    )
    serve(settings, taking(list[one | two | three]))
    result = cost(modern, [{}] * 15)[1]
    errors = errors_of(result)
    assert errors[-1][1] == "more"
    assert 1 < len(errors) < 15
    assert len(text_of(result)) < 9000
    assert f"and {15 - len(errors) + 1} more errors like these" in text_of(result)
    spent, result = cost(modern, [{}] * 80)
    assert errors_of(result) == [("", "many")]
    assert spent < 1


@pytest.mark.parametrize("digits", [1000, 1001, 500_000])
def test_decimal_digits_are_bounded(digits: int, modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(decimal.Decimal))
    schema = served("take").input_schema["properties"]["value"]
    assert schema["anyOf"][1]["maxLength"] == 1000
    result = cost(modern, "9" * digits)[1]
    assert result["isError"] is (digits > 1000)


NUL: list[Any] = [
    ({"value": "a\0b"}, ["/value"]),
    ({"value": ["a", {"b": ["\0"]}]}, ["/value/1/b/0"]),
    ({"value": {"a\0": {"b": "\0"}}}, ["/value"]),
    ({"value\0": 1}, [""]),
]


@pytest.mark.parametrize(("arguments", "paths"), NUL)
@pytest.mark.parametrize("given", [None, {"type": "object", "additionalProperties": True}])
def test_nul_is_refused_with_its_place(
    given: Any, arguments: Any, paths: list[str], modern: CheckedClient, settings: Any
) -> None:
    options = {} if given is None else {"input_schema": given}
    serve(settings, taking(Any), **options)
    result = modern.call_tool("take", arguments)
    assert errors_of(result) == [(path, "nul") for path in paths]
    assert "U+0000" in text_of(result)


def test_escaped_nul_lookalikes_are_accepted(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(str))
    result = modern.call_tool("take", {"value": r"\u0000"})
    assert text_of(result) == json.dumps(repr(r"\u0000"))[1:-1].replace("\\\\\\\\", "\\\\")

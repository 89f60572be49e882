from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterable
from dataclasses import astuple, dataclass, is_dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from mcp_bridge import Context
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.schemas import examples as ex
from tests.support import site
from tests.support.serving import served, taking
from tests.support.values import label

ERRORS = "mcp-bridge/errors"
UUID = "12345678-1234-5678-1234-567812345678"


def errors_of(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the path and type of every error of a refused call."""
    assert result["isError"] is True
    assert "structuredContent" not in result
    errors = result["_meta"][ERRORS]
    assert text_of(result) == "\n".join(f"{e['path'] or '/'}: {e['message']}" for e in errors)
    return [(error["path"], error["type"]) for error in errors]


RECEIVED: list[Any] = [
    (int, 5, 5),
    (int, 2.0, 2),
    (int, -0.0, 0),
    (int, 1e300, int(1e300)),
    (int, 2**60, 2**60),
    (float, 1, 1.0),
    (float, 1.5, 1.5),
    (bool, True, True),
    (str, "", ""),
    (str, "\\u0000", "\\u0000"),
    (None, None, None),
    (Any, {"a": [1, None]}, {"a": [1, None]}),
    (int | None, None, None),
    (int | float, 1, 1),
    (int | float, 1.5, 1.5),
    (int | str, "1", "1"),
    (list[int], [1.0, 2], [1, 2]),
    (dict[str, int], {"a": 1.0}, {"a": 1}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 2], {1, 2}),
    (Literal["a", 1], "a", "a"),
    (Literal["a", 1], 1, 1),
    (ex.Colour, "red", ex.Colour.RED),
    (ex.Level, 2, ex.Level.HIGH),
    (ex.Kind, "a", ex.Kind.A),
    (datetime.date, "2024-02-29", datetime.date(2024, 2, 29)),
    (datetime.time, "10:30:00", datetime.time(10, 30)),
    (datetime.timedelta, "P1DT2H", datetime.timedelta(days=1, hours=2)),
    (uuid.UUID, UUID, uuid.UUID(UUID)),
    (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    (decimal.Decimal, 1.1, decimal.Decimal("1.1")),
    (bytes, "+/8=", b"\xfb\xff"),
    (ex.Point, {"x": 1}, ex.Point(1, 0)),
    (ex.Options, {"a": 1}, {"a": 1}),
    (ex.Book, {"title": "t"}, ex.Book(title="t")),
    (list[ex.Point], [{"x": 1, "y": 2.0}], [ex.Point(1, 2)]),
    (ex.Node, {"value": 1, "children": []}, ex.Node(1, [])),
    (ex.Payment, {"method": "cash", "kind": "x"}, ex.Cash(method="cash", kind="x")),
    (ex.Card | ex.Cash, {"method": "card", "amount": 1}, ex.Card(method="card", amount=1)),
]


@pytest.mark.parametrize(
    ("hint", "sent", "received"),
    RECEIVED,
    ids=label,
)
def test_procedure_receives_the_python_value(
    hint: Any, sent: Any, received: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    assert text_of(modern.call_tool("take", {"value": sent})) == repr(received)


@dataclass
class Counted:
    kind: Literal["counted"]
    count: int
    ratio: float = 0.5
    anything: Any = None


@dataclass
class Measured:
    kind: Literal["measured"]
    count: Any
    steps: int = 0


MIXED: list[Any] = [
    (Counted, {"kind": "counted", "count": 1.0, "ratio": 2.0, "anything": 2.0}, (1, 2.0, 2.0)),
    (list[int | dict[str, Any]], [1.0, {"a": 2.0}], [1, {"a": 2.0}]),
    (dict[str, int | list[float]], {"a": 1.0, "b": [2.0]}, {"a": 1, "b": [2.0]}),
    (tuple[int, float, Any], [1.0, 2.0, [3.0]], (1, 2.0, [3.0])),
    (int | str, 3.0, 3),
    (int | float, 3.0, 3.0),
    (int | Any, 3.0, 3.0),
    (Annotated[int, Field(ge=1, le=5)], 3.0, 3),
    (set[int], [1.0, 2.0], {1, 2}),
    (dict[int, int], {"1": 1.0}, {1: 1}),
    (bool | int, 1.0, 1),
    (Literal[1, "a"], 1.0, 1),
    (ex.Level, 2.0, ex.Level.HIGH),
    (ex.Node, {"value": 1.0, "children": [{"value": 2.0, "children": []}]}, (1, [(2, [])])),
    (Counted | Measured, {"kind": "counted", "count": 1.0, "anything": 2.0}, (1, 0.5, 2.0)),
    (Counted | Measured, {"kind": "measured", "count": 1.0, "steps": 2.0}, (1.0, 2)),
]


def plain(value: Any) -> Any:
    """Return the value, or those of a dataclass but for its kind."""
    if isinstance(value, ex.Node):
        return (value.value, [plain(each) for each in value.children])
    return astuple(value)[1:] if is_dataclass(value) else value


@pytest.mark.parametrize("by_hand", [False, True], ids=["hints", "by hand"])
@pytest.mark.parametrize(("hint", "sent", "received"), MIXED, ids=label)
def test_whole_floats_become_integers_only_for_integer_hints(
    hint: Any, sent: Any, received: Any, by_hand: bool, modern: CheckedClient, settings: Any
) -> None:
    def take(value, count: int, ratio: float, anything: Any, rest: Any = None):  # type: ignore[no-untyped-def]
        """Take values of all kinds."""
        return repr((plain(value), count, ratio, anything, rest))

    take.__annotations__["value"] = hint
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}}
    serve(settings, take, **({"input_schema": schema} if by_hand else {}))
    rest = {"count": 1.0, "ratio": 2.0, "anything": 2.0, "rest": {"a": [4.0]}}
    result = modern.call_tool("take", {"value": sent, **rest})
    assert text_of(result) == repr((received, 1, 2.0, 2.0, {"a": [4.0]}))


def test_whole_floats_are_integers_in_errors(modern: CheckedClient, settings: Any) -> None:
    def take(few: Annotated[int, Field(le=5)], count: int, word: str) -> None:
        """Take three values."""

    serve(settings, take)
    result = modern.call_tool("take", {"few": 7.0, "count": 1.0, "word": 1.0})
    assert errors_of(result) == [("/few", "less_than_equal"), ("/word", "string_type")]
    result = modern.call_tool("take", {"few": 1.5, "count": True, "word": ""})
    assert errors_of(result) == [("/count", "int_type"), ("/few", "int_type")]


def test_datetime_keeps_its_zone(modern: CheckedClient, settings: Any) -> None:
    def when(at: datetime.datetime) -> str:
        return f"{at.isoformat()} {at.utcoffset()}"

    serve(settings, when)
    sent = {"at": "2024-01-02T03:04:05+02:00"}
    assert text_of(modern.call_tool("when", sent)) == "2024-01-02T03:04:05+02:00 2:00:00"


@pytest.mark.requirement("tools.inputs-validated")
@pytest.mark.parametrize(
    ("hint", "sent"),
    [
        *((int, value) for value in ("5", True, False, 2.5, None, [], {}, "")),
        *((float, value) for value in ("1.5", True, None, "NaN")),
        *((bool, value) for value in (1, 0, "yes", "true", "", None, 1.0)),
        *((str, value) for value in (1, True, None, [], ["a"])),
        *((None, value) for value in (0, "", False, "null")),
        *((Literal[1, 2], value) for value in ("1", 3, True, None)),
        *((Literal["a"], value) for value in ("A", "b", 1, None, ["a"])),
        *((ex.Colour, value) for value in ("RED", "green", 1, None)),
        *((ex.Level, value) for value in ("1", "LOW", 3, True)),
        *((datetime.date, value) for value in ("2023-02-29", "2024-1-1", "0", "5", 0, "", "x")),
        *((datetime.datetime, value) for value in ("2024-01-01", "5", "1700000000", 5, 1.5, "x")),
        *((datetime.time, value) for value in ("25:00", 5, "x")),
        *((datetime.timedelta, value) for value in ("1 day ago", 5, "5")),
        *((uuid.UUID, value) for value in ("x", UUID[:-1], 5)),
        *((decimal.Decimal, value) for value in ("x", "NaN", "Infinity", True, "")),
        *((bytes, value) for value in ("!!", 5, [1])),
        *((list[int], value) for value in ({}, "1", 1, None, "[1]")),
        *((dict[str, int], value) for value in ([], "{}", None)),
        *((tuple[int, str], value) for value in ([1], [1, "a", 2], ["a", 1])),
        *((set[int], value) for value in ([1, 1], ["1"])),
        *((Iterable[int], value) for value in (["1"], [True], 5)),
        *((int | str, value) for value in (True, 1.5, None)),
        *((ex.Point, value) for value in ([], "x", None, [1, 2])),
    ],
    ids=label,
)
def test_values_outside_the_schema_are_not_converted(
    hint: Any, sent: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    errors = errors_of(modern.call_tool("take", {"value": sent}))
    assert all(path.startswith("/value") for path, _ in errors)


@pytest.mark.requirement("tools.input-errors")
def test_refused_arguments_are_a_tool_result_in_every_revision(client: CheckedClient) -> None:
    assert errors_of(client.call_tool("add", {"a": "5"})) == [("/a", "int_type")]
    assert client.response.status_code == 200


@pytest.mark.requirement("tools.inputs-validated")
def test_refused_arguments_do_not_run_the_tool(modern: CheckedClient) -> None:
    site.CALLS.clear()
    modern.call_tool("add", {"a": 1, "b": True})
    assert site.CALLS == []
    modern.call_tool("add", {"a": 1})
    assert site.CALLS == ["add"]


@pytest.mark.parametrize("params", [{}, {"arguments": None}, {"arguments": {}}])
def test_missing_arguments_are_an_empty_object(
    params: dict[str, Any], client: CheckedClient
) -> None:
    result = client.post("tools/call", name="shop_orders_find", **params)
    assert json.loads(text_of(result)) == ["None"] * 10


def test_non_object_arguments_are_a_protocol_error(client: CheckedClient) -> None:
    for arguments in ([], [1], "", "{}", 0, 5, True, False):
        with pytest.raises(MCPError, match="arguments must be an object") as raised:
            client.post("tools/call", name="add", arguments=arguments)
        assert raised.value.error["code"] == -32602
        assert client.response.status_code == 200


def test_missing_arguments_get_their_default(modern: CheckedClient) -> None:
    assert modern.call_tool("add", {"a": 2})["structuredContent"] == {"result": 3}


def test_mutable_default_is_passed_as_is(modern: CheckedClient, settings: Any) -> None:
    default: list[int] = []

    def grow(value: list[int] = default) -> bool:
        return value is default

    serve(settings, grow)
    assert modern.call_tool("grow")["structuredContent"] == {"result": True}


def test_default_inside_a_hint_matches_the_schema(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(Annotated[int, Field(default=5)]))
    result = modern.call_tool("take", {})
    if "value" in served("take").input_schema.get("required", []):
        assert errors_of(result) == [("/value", "missing")]
    else:
        assert text_of(result) == "5"


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ({"a": 1}, [1, 2, 3]),
        ({"a": 1, "b": 5}, [1, 5, 3]),
        ({"a": 1, "c": 9}, [1, 2, 9]),
        ({"c": 9, "b": 8, "a": 7}, [7, 8, 9]),
    ],
)
def test_positional_parameters_are_sent_by_name(
    sent: dict[str, int], received: list[int], modern: CheckedClient
) -> None:
    assert modern.call_tool("positional", sent)["structuredContent"] == {"result": received}


def test_context_can_be_positional(modern: CheckedClient, settings: Any) -> None:
    def whose(context: Context, /, word: str) -> str:
        return f"{context.user} {word}"

    serve(settings, whose)
    assert text_of(modern.call_tool("whose", {"word": "x"})) == "ada x"


def test_parameters_can_have_names_illegal_for_fields(modern: CheckedClient, settings: Any) -> None:
    def odd(schema: int, model_config: int, _private: int, self: int, p0: int) -> list[int]:
        return [schema, model_config, _private, self, p0]

    serve(settings, odd)
    sent = {"p0": 5, "self": 4, "_private": 3, "model_config": 2, "schema": 1}
    assert modern.call_tool("odd", sent)["structuredContent"] == {"result": [1, 2, 3, 4, 5]}


@pytest.mark.parametrize("name", ["a", "p0", "model_config", "__class__", "self", "", "a/b"])
def test_keyword_parameters_accept_any_name(name: str, modern: CheckedClient) -> None:
    assert modern.call_tool("open_ended", {name: 1})["structuredContent"] == {name: 1}


def test_keyword_parameters_are_validated_by_their_hint(modern: CheckedClient) -> None:
    assert errors_of(modern.call_tool("open_ended", {"a": "1", "b": 2})) == [("/a", "int_type")]


def test_rpc_passes_raw_values(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(datetime.date))
    body = {"jsonrpc": "2.0", "id": 1, "method": "take", "params": ["2024-01-02"]}
    response = modern.http.post("/rpc", body, format="json")
    assert response.json()["result"] == "'2024-01-02'"

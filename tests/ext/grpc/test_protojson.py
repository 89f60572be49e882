"""Arguments are read as ProtoJSON is published, and hints as services publish them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mcp_bridge.testing.checked import CheckedClient
from tests.ext.grpc.conftest import Offer
from tests.ext.grpc.echo import ECHO, PUBLIC, structured, told
from tests.support.protobuf import compiled, proto3

TYPES = compiled(
    proto3(f"""
service Types {{
  // Say it again.
  rpc Of(All) returns (All) {{ {PUBLIC} }}
}}
message All {{
  bytes data = 1;
  repeated bytes more = 2;
  map<string, bytes> named = 3;
  All inner = 4;
  google.protobuf.BytesValue wrapped = 5;
  double number = 6;
  repeated float numbers = 7;
  int32 whole = 8;
  string text = 9;
  repeated All children = 10;
  map<string, All> by_name = 11;
  google.protobuf.Value value = 12;
  google.protobuf.Struct struct = 13;
  google.protobuf.NullValue nothing = 14;
  google.protobuf.Timestamp moment = 15;
  repeated google.protobuf.Value values = 16;
  oneof choice {{ string left = 17; int32 right = 18; }}
}}
""")
)


@pytest.fixture
def received(offer: Offer) -> list[Any]:
    """The requests that the service has received."""
    requests: list[Any] = []

    def of(request: Any, sent: Any, context: Any) -> Any:
        requests.append(request)
        return request

    offer(TYPES, {"Of": of})
    return requests


@pytest.mark.parametrize("text", ["-_-_", "+/+/", "+_-/", "-_8=", "-_8", "+/8", "_w==", "_w", ""])
@pytest.mark.parametrize("place", ["data", "more", "named", "inner", "wrapped", "children"])
def test_bytes_are_accepted_in_either_alphabet(text: str, place: str, received: list[Any]) -> None:
    shaped = {
        "more": [text],
        "named": {"-_": text},
        "inner": {"data": text},
        "children": [{"inner": {"data": text}}],
    }
    structured("types_of", **{place: shaped.get(place, text)})
    (request,) = received
    found = {
        "data": lambda: request.data,
        "more": lambda: request.more[0],
        "named": lambda: request.named["-_"],
        "inner": lambda: request.inner.data,
        "wrapped": lambda: request.wrapped.value,
        "children": lambda: request.children[0].inner.data,
    }[place]()
    expected = {"-_-_": b"\xfb\xff\xbf", "+/+/": b"\xfb\xff\xbf", "+_-/": b"\xfb\xff\xbf"}
    expected |= dict.fromkeys(("-_8=", "-_8", "+/8"), b"\xfb\xff")
    assert found == ({"_w==": b"\xff", "_w": b"\xff", "": b""} | expected)[text]


@pytest.mark.parametrize("text", ["a", "ab c", "a===", "!!", "abcde", "é"])
def test_invalid_base64_is_refused(text: str, received: list[Any]) -> None:
    assert "/data: must be base64" in told("types_of", data=text)
    assert "/inner/more/0: must be base64" in told("types_of", inner={"more": [text]})
    assert received == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": None},
        {"more": None},
        {"named": None},
        {"inner": None},
        {"wrapped": None, "number": None, "whole": None, "moment": None, "struct": None},
        {"values": None},
        {"left": None, "right": None},
    ],
)
@pytest.mark.parametrize("place", ["", "inner", "children", "by_name"])
def test_null_leaves_a_field_unset(
    arguments: dict[str, Any], place: str, received: list[Any]
) -> None:
    wrapped = {"inner": arguments, "children": [arguments], "by_name": {"a": arguments}}
    structured("types_of", **({place: wrapped[place]} if place else arguments))
    (request,) = received
    message = {
        "": lambda: request,
        "inner": lambda: request.inner,
        "children": lambda: request.children[0],
        "by_name": lambda: request.by_name["a"],
    }[place]()
    assert message.ListFields() == []


@pytest.mark.parametrize(
    ("arguments", "is_set"),
    [
        ({"value": None}, lambda request: request.value.WhichOneof("kind") == "null_value"),
        ({"values": [None, 1]}, lambda request: len(request.values) == 2),
        ({"struct": {"a": None}}, lambda request: "a" in request.struct.fields),
        ({"left": "x", "right": None}, lambda request: request.left == "x"),
    ],
)
def test_null_value_is_kept(arguments: dict[str, Any], is_set: Any, received: list[Any]) -> None:
    structured("types_of", **arguments)
    assert is_set(received[0])


@pytest.mark.parametrize(
    "arguments", [{"more": [None]}, {"children": [None]}, {"by_name": {"a": None}}]
)
def test_null_among_items_is_refused(arguments: dict[str, Any], received: list[Any]) -> None:
    assert told("types_of", **arguments)
    assert received == []


@pytest.mark.parametrize(
    ("text", "is_it"),
    [
        ("NaN", math.isnan),
        ("Infinity", lambda number: number == math.inf),
        ("-Infinity", lambda number: number == -math.inf),
    ],
)
def test_non_json_numbers_have_names(text: str, is_it: Any, received: list[Any]) -> None:
    answer = structured("types_of", number=text, numbers=[text, 1.5])
    assert (answer["number"], answer["numbers"]) == (text, [text, 1.5])
    assert is_it(received[0].number)
    assert is_it(received[0].numbers[0])
    assert "/number" in told("types_of", number=text.lower())


HINTS = """
import "google/api/annotations.proto";
service Hinted {
  // It.
  rpc It(Asked) returns (Told) { option (mcp_bridge.tool) = {public: true %s}; %s }
}
"""
GET = 'option (google.api.http) = {get: "/it"};'


@pytest.mark.parametrize(
    ("marks", "options", "hints"),
    [
        ("", "", {}),
        ("", "option idempotency_level = NO_SIDE_EFFECTS;", {"readOnlyHint": True}),
        ("", "option idempotency_level = IDEMPOTENT;", {"idempotentHint": True}),
        ("", "option idempotency_level = IDEMPOTENCY_UNKNOWN;", {}),
        ("", GET, {"readOnlyHint": True}),
        ("", 'option (google.api.http) = {post: "/it" body: "*"};', {}),
        (
            "",
            'option (google.api.http) = {put: "/it" body: "*"};',
            {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
        ),
        (
            "",
            'option (google.api.http) = {delete: "/it"};',
            {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
        ),
        (", destructive: true", GET, {"destructiveHint": True}),
        (", read_only: false", GET, {"readOnlyHint": False}),
        (", open_world: false", GET, {"readOnlyHint": True, "openWorldHint": False}),
        (
            "",
            f"{GET} option idempotency_level = IDEMPOTENT;",
            {"readOnlyHint": True, "idempotentHint": True},
        ),
    ],
)
def test_hints_come_from_the_service(
    marks: str, options: str, hints: dict[str, bool], offer: Offer
) -> None:
    offer(compiled(proto3(HINTS % (marks, options), ECHO)))
    (tool,) = CheckedClient().list_tools()
    assert tool.get("annotations", {}) == hints

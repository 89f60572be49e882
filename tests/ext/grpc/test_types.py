"""Schemas of messages accept what protobuf reads and describe what it writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.ext.grpc.descriptors import Descriptors
from mcp_bridge.ext.grpc.requests import request_checker, result_encoder
from mcp_bridge.ext.grpc.schemas import input_schema, output_schema
from mcp_bridge.schemas.validation import SchemaValidator
from tests.schemas.drawing import texts
from tests.support.protobuf import compiled, proto3

EVERY = proto3("""
service Types { rpc Of(Everything) returns (Everything); }
enum Kind { KIND_UNSPECIFIED = 0; SMALL = 1; LARGE = 2; }
message Everything {
  int32 i32 = 1;
  uint32 u32 = 2;
  int64 i64 = 3;
  uint64 u64 = 4;
  sint32 s32 = 5;
  sint64 s64 = 6;
  fixed32 x32 = 7;
  fixed64 x64 = 8;
  sfixed32 y32 = 9;
  sfixed64 y64 = 10;
  float f32 = 11;
  double f64 = 12;
  bool truth = 13;
  string text = 14;
  bytes data = 15;
  Kind kind = 16;
  map<int32, string> by_number = 17;
  map<bool, int64> by_truth = 18;
  map<string, Everything> by_name = 19;
  repeated int64 many = 20;
  repeated Everything children = 21;
  optional int32 maybe = 22;
  oneof choice { string left = 23; int32 right = 24; }
  google.protobuf.Timestamp moment = 25;
  google.protobuf.Duration length = 26;
  google.protobuf.FieldMask mask = 27;
  google.protobuf.Struct struct = 28;
  google.protobuf.Value value = 29;
  google.protobuf.ListValue list = 30;
  google.protobuf.StringValue text_or_null = 31;
  google.protobuf.Int64Value number_or_null = 32;
  google.protobuf.Empty empty = 33;
  google.protobuf.NullValue nothing = 34;
  google.protobuf.Any any = 35;
  repeated Kind kinds = 36;
}
""")
DESCRIPTORS = Descriptors(compiled(EVERY))
(METHOD,) = DESCRIPTORS.methods()
MESSAGE = METHOD.input_type
MAKE = GetMessageClass(MESSAGE)
INPUT = input_schema(DESCRIPTORS, MESSAGE)
OUTPUT = output_schema(DESCRIPTORS, MESSAGE, is_stream=False)
CHECK = request_checker(DESCRIPTORS, MESSAGE, INPUT)
ENCODE = result_encoder(DESCRIPTORS, MESSAGE)
SENT, TOLD = (SchemaValidator(dict(each), "schema") for each in (INPUT, OUTPUT))
# Values that the schema accepts and only protobuf refuses: ranges that a schema cannot express, and
# times of other calendars and zones.
LOOSER = {"i64", "u64", "s64", "x64", "y64", "f32", "many", "number_or_null", "by_number"}
LOOSER |= {"by_truth", "moment", "length", "mask", "any", "struct", "value", "list"}
# Each is the value of a field and its ProtoJSON, or None if that is not written.
WHOLE = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | texts(max_size=5) | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=3), inner),
    max_leaves=5,
)
STAMP = st.datetimes().map(lambda each: each.isoformat(timespec="microseconds") + "Z")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("i32", "s32", "y32", "maybe", "right"), st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(("u32", "x32"), st.integers(0, 2**32 - 1)),
    **dict.fromkeys(("i64", "s64", "y64"), WHOLE | WHOLE.map(str)),
    **dict.fromkeys(("u64", "x64"), st.integers(0, 2**64 - 1)),
    "f32": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "f64": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60),
    "truth": st.booleans(),
    **dict.fromkeys(("text", "left"), texts(max_size=9)),
    "data": st.sampled_from(["", "AA==", "AAA=", "AAAA", "+/+/"]),
    "kind": st.sampled_from(["SMALL", "LARGE"]),
    "kinds": st.lists(st.sampled_from(["SMALL", "LARGE"]), max_size=3),
    "by_number": st.dictionaries(st.integers(-(2**31), 2**31 - 1).map(str), texts(max_size=3)),
    "by_truth": st.dictionaries(st.sampled_from(["true", "false"]), WHOLE),
    "by_name": st.dictionaries(texts(max_size=3), st.just({"i32": 1}), max_size=2),
    "many": st.lists(WHOLE | WHOLE.map(str), max_size=3),
    "children": st.lists(st.just({"children": [{"text": "a"}]}), max_size=2),
    "moment": STAMP,
    "length": st.sampled_from(["0s", "3.5s", "-1.000000001s", "315576000000s"]),
    "mask": st.sampled_from(["", "displayName", "a,b.cD"]),
    "struct": st.dictionaries(texts(max_size=3), JSON, max_size=3),
    "value": JSON,
    "list": st.lists(JSON, max_size=3),
    "text_or_null": st.none() | texts(max_size=3),
    "number_or_null": st.none() | WHOLE,
    "empty": st.just({}),
    "nothing": st.none(),
    "any": st.just({"@type": "type.googleapis.com/tested.Everything", "i32": 1}),
}
JUNK = st.sampled_from(
    [None, True, 0, -1, 2**31, 2**32, 2**63, 2**64, 10**30, 1.5, 2.0, 1e39, 1e308]
    + ["", "a", "1", "-1", "01", "1e3", str(2**64), "NaN", "SMALL", "KIND_UNSPECIFIED", "!!"]
    + ["2020-02-30T00:00:00Z", "2020-01-01T00:00:00+01:00", "1.0000000001s", "a_b", "true"]
    + [[], [None], [1, "2"], {}, {"a": None}, {"1": "a"}, {"true": 1}, {"@type": "x"}, [{}]]
)


def read(arguments: dict[str, Any]) -> Any:
    """Return the message that protobuf itself makes of them; it raises what it raises."""
    copied = json.loads(json.dumps(arguments))
    return ParseDict(copied, MAKE(), descriptor_pool=DESCRIPTORS.pool)


def test_table_covers_every_field() -> None:
    assert VALUES.keys() == {each.name for each in MESSAGE.fields}


def test_schemas_are_valid_with_recursion_in_definitions() -> None:
    for schema in (INPUT, OUTPUT):
        Draft202012Validator.check_schema(schema)
        assert list(schema["$defs"]) == ["tested.Everything"]
        assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/tested.Everything"}


@settings(max_examples=60, deadline=None)
@given(arguments=st.fixed_dictionaries({}, optional=VALUES))
def test_valid_arguments_round_trip_through_both_schemas(arguments: dict[str, Any]) -> None:
    if "left" in arguments:
        arguments.pop("right", None)
    message = CHECK(arguments)["request"]
    expected = ParseDict(
        json.loads(json.dumps(arguments)), MAKE(), descriptor_pool=DESCRIPTORS.pool
    )
    assert message == expected
    result = ENCODE(message)
    answer = json.loads(result.structured)
    assert TOLD.errors(answer) == []
    assert json.loads(result.content[0].text) == answer
    # Answers can be sent as arguments, except for values that mean "not set".
    again = CHECK(json.loads(json.dumps(answer)))["request"]
    assert again == message


@settings(max_examples=300, deadline=None)
@given(field=st.sampled_from(sorted(VALUES)), value=JUNK | JSON)
def test_schema_is_as_strict_as_protobuf(field: str, value: Any) -> None:
    arguments = {field: value}
    try:
        is_read = read(arguments) is not None
    except Exception:
        is_read = False
    is_accepted = not SENT.errors(arguments)
    assert is_read or not is_accepted or field in LOOSER
    refused = None
    try:
        request = CHECK(arguments)["request"]
    except InvalidArguments as exception:
        refused = exception
    if refused is None:
        # Null and other spellings of base64 are read too, as protobuf reads them.
        assert request == read(arguments)
    else:
        assert not (is_read and is_accepted)
        assert refused.errors[0].path.startswith(f"/{field}") or field == "any"


@settings(max_examples=100, deadline=None)
@given(seed=st.binary(max_size=60))
def test_every_answer_matches_the_output_schema(seed: bytes) -> None:
    message = MAKE()
    try:
        message.ParseFromString(seed)
        MessageToDict(message, descriptor_pool=DESCRIPTORS.pool)
    except Exception:
        # Invalid messages, or those with a time that JSON cannot express.
        return
    assert TOLD.errors(json.loads(ENCODE(message).structured)) == []


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"left": "a", "right": 1}, "/: at most one of left, right is allowed"),
        ({"children": [{}, {"left": "a", "right": 0}]}, "/children/1: at most one of"),
        ({"by_name": {"x": {"left": "a", "right": 0}}}, "/by_name/x: at most one of"),
        ({"f32": 1e39}, "/f32: "),
        ({"data": "!!"}, "/data: "),
        ({"text": "\ud800"}, "/text: "),
        ({"any": {"@type": "type.googleapis.com/none.Such"}}, "none.Such"),
        ({"any": {"@type": "type.googleapis.com/google.protobuf.Duration"}}, "/: cannot be read"),
        ({"kind": "KIND_UNSPECIFIED"}, "/kind: must be one of"),
        ({"kind": 1}, "/kind: must be one of"),
        ({"many": 1}, "/many: must be an array"),
        ({"many": {}}, "/many: must be an array"),
        ({"many": [None]}, "/many/0: "),
        ({"i64": str(2**63)}, "/i64: "),
        ({"byNumber": {}}, "/byNumber: is not a known member"),
    ],
)
def test_refusals_name_the_place(arguments: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        CHECK(arguments)
    assert where in str(refused.value)


def test_numbers_unsafe_in_javascript_are_strings() -> None:
    message = MAKE(i64=2**63 - 1, u64=2**64 - 1, f64=float("nan"), f32=float("-inf"))
    answer = json.loads(ENCODE(message).structured)
    assert answer == {
        "i64": str(2**63 - 1),
        "u64": str(2**64 - 1),
        "f64": "NaN",
        "f32": "-Infinity",
    }
    assert TOLD.errors(answer) == []
    assert TOLD.errors({"i64": 1}) != []


def test_unknown_message_in_any_keeps_its_type() -> None:
    message = MAKE()
    message.any.type_url, message.any.value = "type.googleapis.com/none.Such", b"\x08\x01"
    answer = json.loads(ENCODE(message).structured)
    assert answer == {"any": {"@type": "type.googleapis.com/none.Such"}}
    assert TOLD.errors(answer) == []


def test_unknown_enum_value_is_a_number() -> None:
    answer = json.loads(ENCODE(MAKE(kind=7)).structured)
    assert answer == {"kind": 7}
    assert TOLD.errors(answer) == []


@pytest.mark.parametrize(
    "kind", ["Value", "ListValue", "Struct", "StringValue", "Timestamp", "Any"]
)
@pytest.mark.parametrize("value", [{}, {"a": [1]}, ["a"], "2020-01-01T00:00:00Z", None, 2.5])
def test_other_answer_types_match_the_output_schema(kind: str, value: Any) -> None:
    service = f"service S {{ rpc Of(google.protobuf.{kind}) returns (google.protobuf.{kind}); }}"
    descriptors = Descriptors(compiled(proto3(service)))
    (method,) = descriptors.methods()
    message = method.output_type
    try:
        answer = ParseDict(value, GetMessageClass(message)())
    except Exception:
        return
    schema = output_schema(descriptors, message, is_stream=False)
    Draft202012Validator.check_schema(schema)
    written = json.loads(result_encoder(descriptors, message)(answer).structured)
    assert SchemaValidator(schema, "schema").errors(written) == [] or not value

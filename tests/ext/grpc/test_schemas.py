"""Comments, behaviour and rules of fields in descriptor sets, and sets of other projects."""

from __future__ import annotations

from typing import Any

import google.longrunning.operations_pb2 as longrunning
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_reflection.v1alpha import reflection_pb2
from jsonschema import Draft202012Validator

from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.ext.grpc.descriptors import Descriptors
from mcp_bridge.ext.grpc.requests import request_checker
from mcp_bridge.ext.grpc.schemas import input_schema, output_schema
from mcp_bridge.schemas.validation import SchemaValidator
from tests.support.protobuf import compiled, proto3


def described(fields: str, *more: str) -> tuple[Descriptors, Any]:
    """Return the set of a message with these fields, and the message."""
    data = compiled(proto3(*more, "message M {", fields, "} service S { rpc Of(M) returns (M); }"))
    descriptors = Descriptors(data)
    (method,) = descriptors.methods()
    return descriptors, method.input_type


def schemas(fields: str, *more: str) -> tuple[Any, Any]:
    descriptors, message = described(fields, *more)
    found = input_schema(descriptors, message), output_schema(descriptors, message, False)
    for each in found:
        Draft202012Validator.check_schema(each)
        SchemaValidator(each, "schema")
    return found


def test_comments_become_descriptions() -> None:
    sent, told = schemas(
        """
        // What it is called.
        //   Even so.
        string name = 1;  // At most once.
        // (-- For ourselves alone. --)
        int32 size = 2;
        // How large.
        Kind kind = 3;
        // Which fields.
        google.protobuf.FieldMask mask = 4;
        """,
        "enum Kind { NO_KIND_UNSPECIFIED = 0;\n// Fits a hand.\nSMALL = 1; LARGE = 2; }",
    )
    assert sent["properties"]["name"]["description"] == (
        "What it is called.\n  Even so.\nAt most once."
    )
    assert "description" not in sent["properties"]["size"]
    assert sent["properties"]["kind"]["description"] == "How large.\nSMALL: Fits a hand."
    assert "lowerCamelCase" in sent["properties"]["mask"]["description"]
    assert "default" in told["description"]


def test_annotations_override_comments() -> None:
    sent, told = schemas(
        """
        // For the team.
        string name = 1 [(mcp_bridge.argument) = {description: "For models.", required: true}];
        string trace = 2 [(mcp_bridge.argument).hidden = true];
        """
    )
    assert list(sent["properties"]) == sent["required"] == ["name"]
    assert sent["properties"]["name"]["description"] == "For models."
    assert list(told["properties"]) == ["name", "trace"]


def test_behaviour_of_fields_is_kept() -> None:
    sent, told = schemas(
        """
        string a = 1 [(google.api.field_behavior) = REQUIRED];
        string b = 2 [(google.api.field_behavior) = OUTPUT_ONLY];
        string c = 3 [(google.api.field_behavior) = INPUT_ONLY];
        string d = 4 [(google.api.field_behavior) = IMMUTABLE];
        """
    )
    assert list(sent["properties"]) == ["a", "c", "d"]
    assert sent["required"] == ["a"]
    assert sent["properties"]["d"]["description"] == "Cannot be changed later."
    assert list(told["properties"]) == ["a", "b", "d"]


def test_oneof_members_are_flat_and_described() -> None:
    sent, _ = schemas(
        """
        oneof which {
          string a = 1;
          M b = 2;
          string ours = 4 [(mcp_bridge.argument).hidden = true];
        }
        optional string alone = 3;
        """
    )
    for name in ("a", "b"):
        text = sent["properties"][name]["description"]
        assert text == "At most one of a, b may be sent."
    assert "description" not in sent["properties"]["alone"]
    assert not {"oneOf", "anyOf", "allOf", "not"} & set(sent)


RULES = {
    "string x = 1 [(buf.validate.field).string = {min_len: 2, max_len: 5}]": (
        {"minLength": 2, "maxLength": 5},
        True,
    ),
    "string x = 1 [(buf.validate.field).string.len = 3]": ({"minLength": 3, "maxLength": 3}, True),
    'string x = 1 [(buf.validate.field).string.pattern = "^a*$"]': ({"pattern": "^a*$"}, False),
    'string x = 1 [(buf.validate.field).string = {prefix: "a.b", suffix: "-"}]': (
        {"pattern": r"^a\.b", "description": "Must also match the pattern -$."},
        True,
    ),
    'string x = 1 [(buf.validate.field).string = {in: ["a", "b"]}]': ({"enum": ["a", "b"]}, True),
    'string x = 1 [(buf.validate.field).string.const = "a"]': ({"const": "a"}, True),
    'string x = 1 [(buf.validate.field).string.not_in = "a"]': (
        {"description": "Not one of a."},
        False,
    ),
    "string x = 1 [(buf.validate.field).string.uuid = true]": ({"format": "uuid"}, True),
    "optional string x = 1 [(buf.validate.field).string.email = true]": (
        {"format": "email"},
        False,
    ),
    "string x = 1 [(buf.validate.field).string.hostname = true]": (
        {"description": "Must be a host name."},
        False,
    ),
    "string x = 1 [(buf.validate.field).required = true]": ({"minLength": 1}, True),
    "int32 x = 1 [(buf.validate.field).int32 = {gt: 0, lte: 9}]": (
        {"exclusiveMinimum": 0, "maximum": 9},
        True,
    ),
    "int32 x = 1 [(buf.validate.field).int32 = {gte: 9, lt: 0}]": (
        {"description": "Not between 0 and 9."},
        False,
    ),
    "int32 x = 1 [(buf.validate.field).int32 = {in: [3, 4]}]": ({"enum": [3, 4]}, True),
    "double x = 1 [(buf.validate.field).double.gte = 0]": (
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]},
            ]
        },
        False,
    ),
    "bytes x = 1 [(buf.validate.field).bytes = {min_len: 1, max_len: 4}]": (
        {"minLength": 4, "maxLength": 8},
        True,
    ),
    "repeated string x = 1 [(buf.validate.field).repeated = {min_items: 1, unique: true}]": (
        {"minItems": 1, "uniqueItems": True},
        True,
    ),
    "repeated string x = 1 [(buf.validate.field).repeated.items.string.min_len = 1]": (
        {"items": {"type": "string", "minLength": 1}},
        False,
    ),
    "map<string, int32> x = 1 [(buf.validate.field).map = {max_pairs: 2, "
    "keys: {string: {min_len: 1}}, values: {int32: {gte: 0}}}]": (
        {"maxProperties": 2, "propertyNames": {"type": "string", "minLength": 1}},
        False,
    ),
    "string x = 1 [(buf.validate.field) = {ignore: IGNORE_ALWAYS, string: {min_len: 2}}]": (
        {},
        False,
    ),
    'string x = 1 [(buf.validate.field).cel = {id: "a", message: "Has no spaces.", '
    'expression: "true"}]': ({"description": "Has no spaces."}, False),
}


@pytest.mark.parametrize("field", RULES)
def test_static_rules_are_keywords(field: str) -> None:
    wanted, is_required = RULES[field]
    sent, told = schemas(f"{field};")
    found = sent["properties"]["x"]
    assert {name: found.get(name) for name in wanted} == wanted
    assert (sent.get("required") == ["x"]) is is_required
    plain = schemas(f"{field.partition('[')[0]};")[1]
    assert told == plain


def test_64_bit_rules_apply_to_the_integer_branch() -> None:
    sent, _ = schemas("int64 x = 1 [(buf.validate.field).int64.gt = 5];")
    integer, digits = sent["properties"]["x"]["anyOf"]
    assert integer["exclusiveMinimum"] == 5
    assert digits["type"] == "string"


def test_enum_rules_remove_names() -> None:
    kind = "enum Kind { NONE = 0; SMALL = 1; LARGE = 2; HUGE = 3; }"
    sent, _ = schemas("Kind x = 1 [(buf.validate.field).enum = {not_in: [0, 3]}];", kind)
    assert sent["properties"]["x"]["enum"] == ["SMALL", "LARGE"]
    assert sent["required"] == ["x"]


def test_nonlinear_pattern_is_described_only() -> None:
    sent, _ = schemas('string x = 1 [(buf.validate.field).string.pattern = "(?=a)b"];')
    assert sent["properties"]["x"] == {
        "type": "string",
        "description": "Must match the pattern (?=a)b",
    }


def test_cross_field_rules_are_checked_with_protovalidate() -> None:
    pytest.importorskip("protovalidate")
    descriptors, message = described(
        """
        repeated M lines = 1;
        string name = 2 [(buf.validate.field).cel = {
          id: "spaces", message: "has no spaces", expression: "!this.contains(' ')"
        }];
        """
    )
    check = request_checker(descriptors, message, input_schema(descriptors, message))
    check({"name": "ab"})
    with pytest.raises(InvalidArguments) as refused:
        check({"lines": [{}, {"name": "a b"}]})
    assert str(refused.value) == "/lines/1/name: has no spaces"


def test_proto2_required_fields_are_supported() -> None:
    data = compiled(
        """
        syntax = "proto2";
        package old;
        message M { required string a = 1; optional group G = 2 { optional int32 b = 3; } }
        service S { rpc Of(M) returns (M); }
        """
    )
    descriptors = Descriptors(data)
    (method,) = descriptors.methods()
    sent = input_schema(descriptors, method.input_type)
    assert sent["required"] == ["a"]
    check = request_checker(descriptors, method.input_type, sent)
    assert check({"a": "x", "g": {"b": 1}})["request"].g.b == 1


def test_editions_field_presence_is_supported() -> None:
    data = compiled(
        """
        edition = "2023";
        package new;
        message M {
          string a = 1 [features.field_presence = LEGACY_REQUIRED];
          N n = 2 [features.message_encoding = DELIMITED];
          Open kind = 3;
        }
        message N { int64 b = 1; }
        enum Open { OPEN_UNSPECIFIED = 0; SMALL = 1; }
        service S { rpc Of(M) returns (M); }
        """
    )
    descriptors = Descriptors(data)
    (method,) = descriptors.methods()
    sent = input_schema(descriptors, method.input_type)
    assert sent["required"] == ["a"]
    assert sent["properties"]["kind"]["enum"] == ["SMALL"]
    check = request_checker(descriptors, method.input_type, sent)
    assert check({"a": "x", "n": {"b": "5"}})["request"].n.b == 5


def chain(length: int, width: int) -> str:
    """Return messages, each with ``fields`` fields of the next one."""
    lines = [
        f"message C{each} {{ {' '.join(f'C{each + 1} f{n} = {n + 1};' for n in range(width))} }}"
        for each in range(length)
    ]
    return "\n".join([*lines, f"message C{length} {{ string end = 1; }}"])


@pytest.mark.parametrize(("length", "width"), [(14, 1), (100, 1), (30, 2)])
def test_large_schemas_keep_their_definitions(length: int, width: int) -> None:
    sent, _ = schemas("C0 first = 1;", chain(length, width))
    assert "$ref" in sent["properties"]["first"]


def test_small_schemas_are_inlined() -> None:
    sent, _ = schemas("C0 first = 1;", chain(3, 2))
    assert "$defs" not in sent


def test_schema_of_a_thousand_levels_is_refused() -> None:
    descriptors, message = described("C0 first = 1;", chain(1000, 1))
    with pytest.raises(ValueError, match="larger than 65536 bytes"):
        input_schema(descriptors, message)


@pytest.mark.parametrize(
    ("request_", "is_object"), [("Timestamp", False), ("StringValue", False), ("Struct", True)]
)
def test_request_must_be_an_object(request_: str, is_object: bool) -> None:
    data = compiled(
        proto3(f"service S {{ rpc Of(google.protobuf.{request_}) returns (google.protobuf.Any); }}")
    )
    descriptors = Descriptors(data)
    (method,) = descriptors.methods()
    if is_object:
        assert input_schema(descriptors, method.input_type)["type"] == "object"
    else:
        with pytest.raises(ValueError, match="not an object"):
            input_schema(descriptors, method.input_type)


def in_set(file: Any) -> bytes:
    """Return the descriptor set of a compiled module's file, and of all that it imports."""
    found: dict[str, FileDescriptorProto] = {}

    def add(each: Any) -> None:
        if each.name not in found:
            found[each.name] = FileDescriptorProto()
            each.CopyToProto(found[each.name])
            for other in each.dependencies:
                add(other)

    add(file)
    return FileDescriptorSet(file=found.values()).SerializeToString()


@pytest.mark.parametrize("module", [longrunning, reflection_pb2], ids=["operations", "reflection"])
def test_published_descriptor_sets_are_mapped(module: Any) -> None:
    descriptors = Descriptors(in_set(module.DESCRIPTOR))
    methods = list(descriptors.methods())
    assert methods
    for method in methods:
        for schema in (
            input_schema(descriptors, method.input_type),
            output_schema(descriptors, method.output_type, method.server_streaming),
        ):
            Draft202012Validator.check_schema(schema)
            SchemaValidator(schema, "schema")


@pytest.mark.parametrize(
    "name",
    ["google/rpc/error_details", "google/api/service", "google/rpc/context/attribute_context"],
)
def test_every_google_message_is_mapped(name: str) -> None:
    from importlib import import_module

    descriptors = Descriptors(in_set(import_module(name.replace("/", ".") + "_pb2").DESCRIPTOR))
    file = descriptors.pool.FindFileByName(f"{name}.proto")
    for message in file.message_types_by_name.values():
        for schema in (
            input_schema(descriptors, message),
            output_schema(descriptors, message, False),
        ):
            Draft202012Validator.check_schema(schema)
            SchemaValidator(schema, "schema")

"""Operations of OpenAPI as flat arguments: names, descriptions and bodies."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

import pytest

from mcp_bridge.sources.operations.read import (
    Operation,
    operation_name,
    tool_name,
)
from tests.sources.operations.documents import (
    STRING,
    components,
    json_body,
    mapped,
    of_object,
    parameter,
    sent,
    unmappable,
)

# The arguments and their names


def test_colliding_parameters_are_renamed_not_body_members() -> None:
    tool = mapped(
        {
            "parameters": [
                parameter("slug", "path", required=True),
                parameter("dryRun"),
                parameter("X-Trace", "header"),
            ],
            **json_body(of_object("slug", slug=STRING, dryRun=STRING, **{"X-Trace": STRING})),
        },
        "/things/{slug}",
    )
    assert set(tool.input_schema["properties"]) == {
        *("slug", "dryRun", "X-Trace"),
        *("path_slug", "query_dryRun", "header_X-Trace"),
    }
    assert tool.input_schema["required"] == ["slug", "path_slug"]
    request = tool.request(
        {"slug": "new", "path_slug": "old", "query_dryRun": "a b", "header_X-Trace": "t"}
    )
    assert request.path == {"slug": "old"}
    assert request.query == "dryRun=a%20b"
    assert request.headers == {"X-Trace": "t"}
    assert (request.body, request.content_type) == (b'{"slug":"new"}', "application/json")


def test_illegal_names_are_replaced_for_clients_only() -> None:
    tool = mapped(
        {
            "parameters": [
                parameter("filter[x]"),
                parameter("$top"),
                parameter("a.b"),
                parameter("é"),
            ]
        },
        method="get",
    )
    assert list(tool.input_schema["properties"]) == ["filter_x", "top", "a.b", "value"]
    query = tool.request({"filter_x": "1", "top": "2", "value": "3"}).query
    assert parse_qsl(query) == [("filter[x]", "1"), ("$top", "2"), ("é", "3")]


def test_equal_replacement_names_are_made_unique() -> None:
    tool = mapped({"parameters": [parameter("a[]"), parameter("a"), parameter("$a")]}, method="get")
    assert list(tool.input_schema["properties"]) == ["a", "query_a", "query_a_2"]
    assert tool.request({"a": "1", "query_a": "2"}).query == "a%5B%5D=1&a=2"


def test_operation_parameters_override_path_item_parameters() -> None:
    item = {"parameters": [{"$ref": "#/components/parameters/page"}, parameter("q")]}
    tool = mapped(
        {"parameters": [parameter("page", schema={"type": "integer"}, description="Which page")]},
        method="get",
        item=item,
        components={"parameters": {"page": parameter("page")}},
    )
    assert tool.input_schema["properties"] == {
        "page": {"type": "integer", "description": "Which page"},
        "q": STRING,
    }


def test_connection_and_credential_headers_are_not_arguments() -> None:
    names = ("Authorization", "Content-Type", "accept", "Host", "Cookie", "X-Own")
    tool = mapped({"parameters": [parameter(name, "header") for name in names]}, method="get")
    assert list(tool.input_schema["properties"]) == ["X-Own"]


def test_operation_requiring_a_cookie_is_skipped() -> None:
    assert "requires the cookie 'session'" in unmappable(
        {"parameters": [parameter("session", "cookie", required=True)]}
    )
    tool = mapped({"parameters": [parameter("session", "cookie")]})
    assert tool.notes == ("The cookie 'session' is not sent.",)


@pytest.mark.parametrize(
    ("operation_id", "name"),
    [
        ("repos/get", "repos_get"),
        ("Users.list:all", "Users_list_all"),
        (None, "get_v1_things_id"),
        ("...", "get_v1_things_id"),
    ],
)
def test_operation_has_a_legal_name(operation_id: str | None, name: str) -> None:
    operation = Operation(method="get", path="/v1/things/{id}", operation_id=operation_id)
    assert operation_name(operation) == name
    assert operation_name(operation, "x_") == f"x_{name}"


def test_long_names_are_shortened_deterministically() -> None:
    long = "a" * 70
    assert tool_name(long) == f"{'a' * 55}_{sha256(long.encode()).hexdigest()[:8]}"
    assert tool_name(long) != tool_name(long + "b")


# Descriptions


def test_equal_summary_and_description_are_not_repeated() -> None:
    both = mapped({"summary": "List things.", "description": "By name.", "tags": ["things"]})
    assert both.description == "List things.\n\nBy name."
    assert both.title == "List things."
    assert both.meta == {"mcp_bridge/tags": ["things"]}
    assert mapped({"summary": "List.", "description": "List all."}).description == "List all."


@pytest.mark.parametrize(
    ("method", "hints"),
    [
        ("get", {"readOnlyHint": True}),
        ("post", {}),
        ("put", {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}),
        ("patch", {"readOnlyHint": False, "destructiveHint": True}),
        ("delete", {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}),
    ],
)
def test_hints_follow_the_http_method(method: str, hints: dict[str, bool]) -> None:
    assert mapped({}, method=method).annotations == hints


# Bodies


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "integer"}},
        {"oneOf": [of_object(a=STRING), of_object(b=STRING)]},
        {"type": "object", "additionalProperties": STRING},
        {"type": "object"},
        {"nullable": True, **of_object(a=STRING)},
        {"not": {"type": "null"}},
        {},
        None,
    ],
)
def test_non_object_body_is_one_argument(schema: Any) -> None:
    tool = mapped(json_body(schema))
    assert list(tool.input_schema["properties"]) == ["body"]
    assert tool.input_schema["required"] == ["body"]
    assert sent(tool, {"body": [1, 2]}) == [1, 2]


def test_optional_body_with_required_members_is_one_argument() -> None:
    tool = mapped(json_body(of_object("a", a=STRING), required=False))
    assert "required" not in tool.input_schema
    assert tool.input_schema["properties"]["body"]["required"] == ["a"]
    assert tool.request({}).content_type is None
    assert sent(tool, {"body": {"a": "x"}}) == {"a": "x"}


def test_body_argument_differs_from_a_parameter_named_body() -> None:
    tool = mapped({"parameters": [parameter("body")], **json_body({"type": "array"})})
    request = tool.request({"body": [1], "query_body": "x"})
    assert (request.query, request.body) == ("body=x", b"[1]")


def test_required_empty_body_is_an_empty_object() -> None:
    assert mapped(json_body(of_object(a=STRING))).request({}).body == b"{}"
    optional = mapped(json_body(of_object(a=STRING), required=False))
    assert optional.request({}).content_type is None


def test_parts_of_an_allof_are_merged() -> None:
    schema = {
        "allOf": [
            {"$ref": "#/components/schemas/Base"},
            {"allOf": [of_object("b", b=STRING)]},
            {"required": ["c"]},
        ],
        "description": "All of it",
    }
    base = {**of_object("a", a=STRING, c=STRING), "additionalProperties": False}
    tool = mapped(json_body(schema), **components(Base=base))
    assert set(tool.input_schema["properties"]) == {"a", "b", "c"}
    assert set(tool.input_schema["required"]) == {"a", "b", "c"}


def test_allof_with_a_non_object_is_one_argument() -> None:
    tool = mapped(
        json_body({"allOf": [of_object(a=STRING), {"anyOf": [{}, {"minProperties": 1}]}]})
    )
    assert list(tool.input_schema["properties"]) == ["body"]


def test_read_only_members_are_omitted_through_references() -> None:
    schemas = {
        "Id": {"type": "integer", "readOnly": True},
        "Secret": {"type": "string", "writeOnly": True},
        "Thing": of_object(
            "id",
            "name",
            "secret",
            id={"$ref": "#/components/schemas/Id"},
            wrapped={"allOf": [{"$ref": "#/components/schemas/Id"}]},
            name=STRING,
            secret={"$ref": "#/components/schemas/Secret"},
            inner=of_object("at", at={**STRING, "readOnly": True}, note=STRING),
        ),
    }
    answer = {
        "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}
    }
    tool = mapped(
        {**json_body({"$ref": "#/components/schemas/Thing"}), "responses": answer},
        options={"output_schema": True},
        **components(**schemas),
    )
    assert tool.input_schema["required"] == ["name", "secret"]
    assert set(tool.input_schema["properties"]) == {"name", "secret", "inner"}
    assert tool.input_schema["properties"]["inner"] == {
        "type": "object",
        "properties": {"note": STRING},
    }
    assert tool.output_schema is not None
    assert tool.output_schema["required"] == ["id", "name"]
    assert "secret" not in tool.output_schema["properties"]


def test_member_made_read_only_by_allof_is_not_required() -> None:
    schemas = {"Needs": {"required": ["id", "name"]}}
    schema = {
        "allOf": [
            {"$ref": "#/components/schemas/Needs"},
            of_object(id={"type": "integer", "readOnly": True}, name=STRING),
        ]
    }
    tool = mapped(json_body(schema), **components(**schemas))
    assert tool.input_schema["required"] == ["name"]


def test_patch_has_no_required_members_and_no_defaults() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer", "default": 1}}}
    schema = of_object("a", a={"type": "string", "default": "x"}, inner=inner)
    tool = mapped(json_body(schema), method="patch")
    assert "required" not in tool.input_schema
    assert "default" not in json.dumps(tool.input_schema)
    assert "default" in json.dumps(mapped(json_body(schema), method="put").input_schema)

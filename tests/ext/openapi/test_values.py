"""Values on their way to a service: how its document describes them, and how they are written."""

from __future__ import annotations

import json
from email import message_from_bytes
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcp_bridge.testing import MCPClient, text_of
from tests.ext.openapi.calling import DOCUMENT, FILE, FORM, MULTIPART, Offer, body, called
from tests.sources.operations.documents import STRING, of_object, parameter
from tests.support.services import Received, send

OFFSETLESS = "2024-05-01T10:00:00"


def operation(offer: Offer, data: dict[str, Any], path: str = "/it", **more: Any) -> Any:
    """Return the service of a document with one operation, which is the tool ``it``."""
    method = more.pop("method", "post")
    paths = {path: {method: {"operationId": "it", **data}}}
    return offer(DOCUMENT | {"paths": paths, **more}, operations=["it"])


def schema_of(caller: MCPClient) -> Any:
    (tool,) = caller.list_tools()
    Draft202012Validator.check_schema(tool["inputSchema"])
    return tool["inputSchema"]["properties"]


def parts(received: Received) -> dict[str, tuple[str, bytes]]:
    """Return the parts of a multipart body: type and content by name."""
    head = f"Content-Type: {received.headers['content-type']}\r\n\r\n".encode()
    found: Any = message_from_bytes(head + received.body).get_payload()
    return {
        each.get_param("name", header="content-disposition"): (
            each.get_content_type(),
            each.get_payload(decode=True),
        )
        for each in found
    }


# Formats


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("date-time", OFFSETLESS),
        ("date-time", "2024-05-01 10:00"),
        ("time", "12:30:00"),
        ("time", "12:30"),
        ("date", "31/01/2024"),
        ("date", "today"),
        ("duration", "3 days"),
        ("uri", "https://de.example.org/Käse"),
        ("uri", "/relative"),
    ],
)
@pytest.mark.parametrize("where", ["query", "body"])
def test_formats_are_described_and_left_to_the_service(
    name: str, value: str, where: str, offer: Offer, caller: MCPClient
) -> None:
    schema = {"type": "string", "format": name}
    query = {"parameters": [parameter("when", schema=schema)]}
    service = operation(
        offer, query if where == "query" else {"requestBody": body(of_object("when", when=schema))}
    )
    assert schema_of(caller)["when"] == schema
    called(caller, "it", when=value)
    refusal = {"when": ["is no such value"]}
    service.answers["it"] = lambda received, handler: send(handler, refusal, status=400)
    result = caller.call_tool("it", {"when": value})
    assert (result["isError"], text_of(result)) == (True, "/when: is no such value")


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"format": "date-time", "enum": ["now", "later"]}, {"enum": ["now", "later"]}),
        ({"format": "uri", "enum": ["a b"]}, {"enum": ["a b"]}),
        ({"format": "date", "enum": ["2024-01-31"]}, None),
        ({"format": "uuid", "enum": ["", "x"]}, {"enum": ["", "x"]}),
        ({"format": "money", "enum": ["5"]}, None),
        (
            {"format": "email", "enum": ["a@b.example", "nobody"]},
            {"enum": ["a@b.example", "nobody"]},
        ),
    ],
)
def test_format_conflicting_with_the_enum_is_dropped(
    schema: dict[str, Any], told: Any, offer: Offer, caller: MCPClient
) -> None:
    operation(offer, {"parameters": [parameter("when", schema={"type": "string", **schema})]})
    assert schema_of(caller)["when"] == {"type": "string", **(told or schema)}
    called(caller, "it", when=schema["enum"][0])


# Bodies

VALUES = {
    "data": {"type": "object", "nullable": True},
    "tags": {"type": "array", "items": STRING},
    "flag": {"type": "boolean"},
    "note": {"type": "string", "nullable": True},
}


@pytest.mark.parametrize(
    "arguments",
    [
        {"data": {"a": [1]}},
        {"data": None, "note": None},
        {"tags": []},
        {"flag": False},
        {"tags": ["x"], "note": ""},
        {"file": None, "data": {"n": {"m": None}}},
    ],
)
def test_json_is_sent_if_no_file_is_given(
    arguments: dict[str, Any], offer: Offer, caller: MCPClient
) -> None:
    form = of_object(**VALUES, file={**FILE, "nullable": True})
    content = {MULTIPART: {"schema": form}, "application/json": {"schema": of_object(**VALUES)}}
    service = operation(offer, {"requestBody": {"required": True, "content": content}})
    got = called(caller, "it", **arguments)
    assert (got["type"], json.loads(got["body"])) == ("application/json", arguments)
    sayable = {name: each for name, each in arguments.items() if each not in (None, [])}
    if sayable != arguments:
        refused = caller.call_tool("it", {**arguments, "file": "aGk="})
        assert "in a form: leave it out" in text_of(refused) or "file" in arguments
    called(caller, "it", **{**sayable, "file": "aGk="})
    assert service.received[-1].headers["content-type"].startswith(MULTIPART)
    assert parts(service.received[-1])["file"][1] == b"hi"


@pytest.mark.parametrize(
    ("value", "schema", "encoding", "written"),
    [
        ({"a": [1]}, {"type": "object"}, None, b'{"a":[1]}'),
        (None, {"type": "object", "nullable": True}, None, b"null"),
        ([], {"type": "array", "items": STRING}, "application/json", b"[]"),
        ([1, None], {}, "application/json", b"[1,null]"),
        (None, {}, "application/json", b"null"),
        ("x", {}, "application/json", b'"x"'),
        ({}, {"type": "object"}, "application/vnd.x+json", b"{}"),
    ],
)
def test_json_member_of_multipart_is_json_text(
    value: Any, schema: Any, encoding: str | None, written: bytes, offer: Offer, caller: MCPClient
) -> None:
    given = body(of_object(file=FILE, data=schema), MULTIPART)
    if encoding:
        given["content"][MULTIPART]["encoding"] = {"data": {"contentType": encoding}}
    service = operation(offer, {"requestBody": given})
    called(caller, "it", file="aGk=", data=value)
    kind, content = parts(service.received[-1])["data"]
    assert (kind, content) == (encoding or "application/json", written)


# Numbers


@pytest.mark.parametrize(
    ("step", "fitting", "others"),
    [
        (0.01, [4.35, 19.99, 0.07, 1e22, -3, 0], [4.355, 0.001]),
        (0.1, [0.3, 0.7, 1.1, 123456789.1], [0.25]),
        (1e-7, [3e-7, 0.0000003], [2.5e-7]),
        (0.3, [0.9, 3, 1.2], [1, 0.1]),
        (3, [9, 9.0, 10**30 * 3], [10, 9.5]),
        (2.5, [7.5, 1e300], [7]),
    ],
)
def test_multiple_of_supports_decimals(
    step: float, fitting: list[float], others: list[float], offer: Offer, caller: MCPClient
) -> None:
    schema = {"type": "number", "multipleOf": step}
    operation(offer, {"requestBody": body(of_object("price", price=schema))})
    for number in fitting:
        assert json.loads(called(caller, "it", price=number)["body"]) == {"price": number}
    for number in others:
        result = caller.call_tool("it", {"price": number})
        assert text_of(result) == f"/price: must be a multiple of {step}"


# Schemas


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, 1, 2], [1, 2]),
        (["a", "b", "a", "a"], ["a", "b"]),
        ([1, 1.0, True], [1, True]),
        ([{"a": 1}, {"a": 1.0}], [{"a": 1}]),
        ([[1], [True], [1]], [[1], [True]]),
        ([0, False, 0.0, False], [0, False]),
    ],
)
@pytest.mark.parametrize("place", ["value", "list"])
def test_enum_names_each_value_once(
    values: list[Any], told: list[Any], place: str, offer: Offer, caller: MCPClient
) -> None:
    schema: dict[str, Any] = {"enum": values}
    if place == "list":
        schema = {"type": "array", "items": schema}
    operation(offer, {"requestBody": body(of_object("kind", kind=schema))})
    found = schema_of(caller)["kind"]
    found = found["items"]["enum"] if place == "list" else found["enum"]
    assert json.dumps(found) == json.dumps(told)


def test_duplicate_null_in_an_enum_is_removed(offer: Offer, caller: MCPClient) -> None:
    schema = {"type": "string", "nullable": True, "enum": ["a", None, "a", None]}
    operation(offer, {"requestBody": body(of_object(kind=schema))})
    branches = [{"type": "string", "enum": ["a"]}, {"type": "null"}]
    assert schema_of(caller)["kind"] == {"anyOf": branches}


LINKED = {
    "components": {"schemas": {"Name": {"type": "string", "minLength": 2, "description": "N."}}}
}


@pytest.mark.parametrize(
    "beside",
    [
        {"maxLength": 3},
        {"description": "Other."},
        {"nullable": True},
        {"default": 5},
        {"type": "integer", "minimum": 3},
        {"allOf": [{"maxLength": 1}]},
    ],
)
def test_openapi_30_ignores_siblings_of_a_reference(
    beside: dict[str, Any], offer: Offer, caller: MCPClient
) -> None:
    schema = {"$ref": "#/components/schemas/Name", **beside}
    data = {"requestBody": body(of_object("name", name=schema, names={"items": schema}))}
    operation(offer, data, **LINKED)
    plain = LINKED["components"]["schemas"]["Name"]
    found = schema_of(caller)
    assert (found["name"], found["names"]["items"]) == (plain, plain)
    called(caller, "it", name="a long name")


@pytest.mark.parametrize(
    ("beside", "wrong", "right"),
    [({"maxLength": 3}, "long", "abc"), ({"pattern": "^a"}, "bcd", "abc")],
)
def test_openapi_31_keeps_siblings_of_a_reference(
    beside: dict[str, Any], wrong: str, right: str, offer: Offer, caller: MCPClient
) -> None:
    schema = {"$ref": "#/components/schemas/Name", **beside}
    data = {"requestBody": body(of_object("name", name=schema))}
    operation(offer, data, openapi="3.1.0", **LINKED)
    assert caller.call_tool("it", {"name": wrong})["isError"]
    called(caller, "it", name=right)


# Paths


@pytest.mark.parametrize(
    ("value", "explode", "written"),
    [
        (["mon", "tue"], False, "mon,tue"),
        (["mon", "tue"], True, "mon,tue"),
        (["a,b", "c/d"], False, "a%2Cb,c%2Fd"),
        ({"a": 1, "b": "x"}, True, "a=1,b=x"),
        ({"a": 1, "b": "x"}, False, "a,1,b,x"),
        ({"a=": "x,y"}, True, "a%3D=x%2Cy"),
        ([1, True, None], False, "1,true,null"),
        ("mon,tue", False, "mon%2Ctue"),
        (["é ü"], False, "%C3%A9%20%C3%BC"),
    ],
)
def test_path_lists_and_objects_follow_rfc_6570(
    value: Any, explode: bool, written: str, offer: Offer, caller: MCPClient
) -> None:
    days = parameter("days", "path", required=True, explode=explode, schema={})
    operation(offer, {"parameters": [days]}, "/on/{days}/x", method="get")
    assert called(caller, "it", days=value)["path"] == f"/on/{written}/x"


@pytest.mark.parametrize("value", [["..", "x/../y"], ["a", ".."], {"..": ""}, [], [""], ".."])
def test_path_list_cannot_change_the_path(value: Any, offer: Offer, caller: MCPClient) -> None:
    days = parameter("days", "path", required=True, schema={})
    service = operation(offer, {"parameters": [days]}, "/on/{days}", method="get")
    result = caller.call_tool("it", {"days": value})
    for each in service.received:
        assert each.target.count("/") == 2
        assert each.target.removeprefix("/on/") not in ("", ".", "..")
    assert result.get("isError") or service.received


def test_forms_write_lists_unchanged(offer: Offer, caller: MCPClient) -> None:
    operation(offer, {"requestBody": body(of_object(a={"type": "array"}), FORM)})
    assert called(caller, "it", a=["x", "y"])["body"] == "a=x&a=y"

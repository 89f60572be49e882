"""Arguments as query strings, paths, headers, forms and files, and places in them."""

from __future__ import annotations

import json
from base64 import b64encode
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qsl

import pytest

from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.sources.operations.mapping import MappedOperation
from tests.sources.operations.documents import (
    STRING,
    components,
    json_body,
    mapped,
    of_object,
    parameter,
    refused,
    schema_,
    unmappable,
)

# Query strings, paths, headers

ARRAY = ["blue", "black brown"]
OBJECT = {"R": 100, "G": "a,b"}
NESTED = {"a": {"b": 1}, "list": ["x", "y"], "rows": [{"c": True}], "none": None}


# openapi-core 0.23.1 reads 222 generated values back from form, pipeDelimited and deepObject. It
# does not support exploded objects, supports exploded lists only for form, and spaces between items
# only as a literal "%20".
@pytest.mark.parametrize(
    ("style", "explode", "value", "query"),
    [
        (None, None, "a b+c&d=é", "p=a%20b%2Bc%26d%3D%C3%A9"),
        (None, None, True, "p=true"),
        (None, None, 1.5, "p=1.5"),
        (None, None, None, ""),
        (None, None, "", "p="),
        ("form", True, ARRAY, "p=blue&p=black%20brown"),
        ("form", False, ARRAY, "p=blue,black%20brown"),
        ("form", True, OBJECT, "R=100&G=a%2Cb"),
        ("form", False, OBJECT, "p=R,100,G,a%2Cb"),
        ("form", False, [], ""),
        ("spaceDelimited", False, ARRAY, "p=blue%20black%20brown"),
        ("pipeDelimited", False, ARRAY, "p=blue%7Cblack%20brown"),
        ("pipeDelimited", True, ARRAY, "p=blue&p=black%20brown"),
        ("deepObject", True, OBJECT, "p%5BR%5D=100&p%5BG%5D=a%2Cb"),
        (
            "deepObject",
            True,
            NESTED,
            "p%5Ba%5D%5Bb%5D=1&p%5Blist%5D%5B%5D=x&p%5Blist%5D%5B%5D=y&p%5Brows%5D%5B0%5D%5Bc%5D=true",
        ),
    ],
)
def test_query_parameter_styles_are_applied(
    style: str | None, explode: bool | None, value: Any, query: str
) -> None:
    given = {"style": style, "explode": explode}
    data = parameter("p", **{key: each for key, each in given.items() if each is not None})
    assert mapped({"parameters": [data]}, method="get").request({"p": value}).query == query


@pytest.mark.parametrize(
    ("explode", "value", "text", "encoded"),
    [
        (False, ["a", "b c"], "a,b c", "a,b%20c"),
        (True, ["a", "b"], "a,b", "a,b"),
        (False, {"R": 1, "G": 2}, "R,1,G,2", "R,1,G,2"),
        (True, {"R": 1, "G": 2}, "R=1,G=2", "R=1,G=2"),
    ],
)
def test_path_and_header_styles_are_applied(
    explode: bool, value: Any, text: str, encoded: str
) -> None:
    data = [parameter(name, name, required=True, explode=explode) for name in ("path", "header")]
    request = mapped({"parameters": data}, "/{path}", method="get").request(
        {"path": value, "header": value}
    )
    assert (request.path, request.headers) == ({"path": encoded}, {"header": text})


def test_parameters_with_a_media_type_are_sent_as_json() -> None:
    data = {
        "name": "q",
        "in": "query",
        "content": {"application/json": schema_({"type": "object"})},
    }
    tool = mapped({"parameters": [data]}, method="get")
    assert tool.input_schema["properties"]["q"] == {"type": "object"}
    assert tool.request({"q": {"a": [1]}}).query == "q=%7B%22a%22%3A%5B1%5D%7D"


@pytest.mark.parametrize("value", ["", ".", "..", "a/../b", "..\\x", "x/.", None, []])
def test_value_changing_the_path_is_refused(value: Any) -> None:
    tool = mapped({"parameters": [parameter("id", "path", required=True)]}, "/{id}", method="get")
    assert refused(tool, {"id": value}) == "/id: must not be empty or have a segment '.' or '..'"


@pytest.mark.parametrize("value", ["a\r\nX: y", "é", "a\0"])
def test_invalid_header_value_is_refused(value: str) -> None:
    tool = mapped({"parameters": [parameter("X-Own", "header")]}, method="get")
    assert refused(tool, {"X-Own": value}) == "/X-Own: must contain only printable ASCII characters"


def test_unknown_style_skips_the_operation() -> None:
    data = parameter("id", "path", required=True, style="matrix")
    assert (
        unmappable({"parameters": [data]}, "/{id}")
        == "its path parameter 'id' has the style 'matrix'"
    )


# Forms and files

PNG = b"\x89PNG"
FORM = "application/x-www-form-urlencoded"


def form_of(media: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media: {"schema": schema, **more}}}}


def parts(tool: MappedOperation, arguments: dict[str, Any]) -> list[tuple[Any, ...]]:
    request = tool.request(arguments)
    whole = b"Content-Type: " + str(request.content_type).encode() + b"\r\n\r\n" + request.body
    return [
        (
            each.get_param("name", header="content-disposition"),
            each.get_filename(),
            each.get("Content-Type"),
            each.get_payload(decode=True),
        )
        for each in message_from_bytes(whole).get_payload()  # type: ignore[union-attr]
    ]


def test_nested_values_of_a_form_have_brackets() -> None:
    tool = mapped(
        form_of(FORM, of_object(a=STRING, meta={"type": "object"}, rows={"type": "array"}))
    )
    request = tool.request(
        {"a": "x y", "meta": {"k": {"l": 1}, "on": False}, "rows": [{"sku": "s"}, {"sku": "t"}]}
    )
    assert request.content_type == FORM
    assert b"+" not in request.body
    assert parse_qsl(request.body.decode()) == [
        ("a", "x y"),
        ("meta[k][l]", "1"),
        ("meta[on]", "false"),
        ("rows[0][sku]", "s"),
        ("rows[1][sku]", "t"),
    ]


def test_lists_of_a_form_follow_its_encoding() -> None:
    schema = of_object(
        expand={"type": "array", "items": STRING}, tags={"type": "array", "items": STRING}
    )
    encoding = {"expand": {"style": "deepObject", "explode": True}}
    tool = mapped(form_of(FORM, schema, encoding=encoding))
    body = tool.request({"expand": ["a", "b"], "tags": ["c", "d"]}).body
    assert parse_qsl(body.decode()) == [
        *(("expand[]", "a"), ("expand[]", "b"), ("tags", "c"), ("tags", "d"))
    ]


def test_files_are_data_uris_or_base64() -> None:
    binary = {"type": "string", "format": "binary", "description": "The picture"}
    schema = of_object("photo", photo=binary, title=STRING, meta={"type": "object"})
    schema["properties"]["more"] = {"type": "array", "items": binary}
    tool = mapped(form_of("multipart/form-data", schema))
    properties = tool.input_schema["properties"]
    assert properties["photo_filename"] == STRING
    assert properties["photo"]["type"] == "string"
    assert properties["photo"]["description"].startswith("The picture\nA file: a data: URI")
    plain = b64encode(PNG).decode()
    assert parts(
        tool,
        {
            "photo": f"data:image/png;base64,{plain}",
            "photo_filename": 'a"b\r\n.png',
            "title": "Zoë",
            "meta": {"k": [1]},
            "more": [plain, "data:,a%20b"],
        },
    ) == [
        ("photo", "a%22b%0D%0A.png", "image/png", PNG),
        ("title", None, None, "Zoë".encode()),
        ("meta", None, "application/json", b'{"k":[1]}'),
        ("more", "more-1.bin", "application/octet-stream", PNG),
        ("more", "more-2.bin", "application/octet-stream", b"a b"),
    ]


def test_multipart_is_chosen_only_for_files() -> None:
    plain, files = of_object(a=STRING), of_object(a={"type": "string", "format": "binary"})
    for schema, kind in (
        (plain, "json"),
        (files, "multipart"),
        ({"$ref": "#/components/schemas/F"}, "multipart"),
    ):
        content = {
            each: schema_(schema) for each in ("application/json", FORM, "multipart/form-data")
        }
        tool = mapped({"requestBody": {"content": content}}, **components(F=files))
        assert tool.body is not None
        assert tool.body.media.kind == kind


@pytest.mark.parametrize(
    ("arguments", "is_json"),
    [
        ({"a": {"b": [1]}}, True),
        ({"a": [], "c": None}, True),
        ({}, True),
        ({"photo": None}, True),
        ({"more": []}, True),
        ({"photo": "aGk=", "c": "x"}, False),
        ({"more": ["aGk="]}, False),
    ],
)
@pytest.mark.parametrize("has_json", [True, False])
def test_json_is_written_unless_a_file_is_given(
    arguments: dict[str, Any], is_json: bool, has_json: bool
) -> None:
    binary = {"type": "string", "format": "binary"}
    values = {"a": {}, "c": {"type": "string", "nullable": True}}
    files = {"photo": {**binary, "nullable": True}, "more": {"type": "array", "items": binary}}
    # An entirely different body is not treated as the same one.
    other = of_object(url=STRING)
    json_schema = of_object(**values) if has_json else other
    content = {
        "application/json": schema_(json_schema),
        "multipart/form-data": schema_(of_object(**values, **files)),
    }
    tool = mapped({"requestBody": {"content": content, "required": True}})
    if not has_json and any(each in (None, []) for each in arguments.values()):
        with pytest.raises(InvalidArguments, match="in a form: leave it out"):
            tool.request(arguments)
        return
    request = tool.request(arguments)
    if is_json and has_json:
        assert request.content_type == "application/json"
        assert json.loads(request.body) == arguments
    else:
        assert str(request.content_type).startswith("multipart/form-data")


def test_nested_names_can_follow_drf() -> None:
    schema = of_object(address={"type": "object"}, lines={"type": "array"}, tags={"type": "array"})
    tool = mapped(form_of("multipart/form-data", schema), options={"is_dotted": True})
    arguments = {
        "address": {"city": "x"},
        "lines": [{"sku": 1, "of": {"a": 2}}],
        "tags": ["a", "b"],
    }
    assert [(each[0], each[3]) for each in parts(tool, arguments)] == [
        ("address.city", b"x"),
        ("lines[0]sku", b"1"),
        ("lines[0]of.a", b"2"),
        ("tags", b"a"),
        ("tags", b"b"),
    ]


@pytest.mark.parametrize("between", ["\n", "\r\n", "\r\n\r\n", "\x0b", "\t"])
def test_media_type_with_a_line_break_is_not_sent(between: str) -> None:
    binary = {"type": "string", "format": "binary"}
    sent = f"data:text/plain;{between}a=b,x"
    tool = mapped(form_of("multipart/form-data", of_object("photo", photo=binary)))
    assert parts(tool, {"photo": sent}) == [
        ("photo", "photo.bin", "application/octet-stream", b"x")
    ]
    raw = mapped(form_of("application/octet-stream", binary))
    assert raw.request({"body": sent}).content_type == "application/octet-stream"
    assert raw.request({"body": sent.replace(between, " ")}).content_type == "text/plain; a=b"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (
            "https://example.com/a.png",
            "is not valid base64; URLs other than data: are not opened",
        ),
        ("file:///etc/passwd", "is not valid base64; URLs other than data: are not opened"),
        ("data:image/png;base64,%%%", "is not valid base64"),
        ("data:image/png", "is not a data: URI: a comma must precede the data"),
        (3, "must be a file: a data: URI, or base64"),
    ],
)
def test_invalid_file_is_refused(value: Any, why: str) -> None:
    schema = of_object(photo={"type": "string", "contentMediaType": "image/png"})
    tool = mapped(form_of("multipart/form-data", schema), version="3.1.0")
    assert refused(tool, {"photo": value}) == f"/photo: {why}"


def test_filename_without_a_file_is_refused() -> None:
    schema = of_object(photo={"type": "string", "format": "binary"})
    tool = mapped(form_of("multipart/form-data", schema))
    assert refused(tool, {"photo_filename": "a"}).startswith(
        "/photo_filename: names a file that was"
    )


def test_bytes_and_text_can_be_whole_bodies() -> None:
    raw = mapped(form_of("application/octet-stream", {"type": "string", "format": "binary"}))
    request = raw.request({"body": b64encode(PNG).decode()})
    assert (request.body, request.content_type) == (PNG, "application/octet-stream")
    request = raw.request({"body": f"data:image/png;base64,{b64encode(PNG).decode()}"})
    assert request.content_type == "image/png"
    text = mapped(form_of("text/markdown", STRING)).request({"body": "# Zoë"})
    assert (text.body, text.content_type) == ("# Zoë".encode(), "text/markdown; charset=utf-8")


@pytest.mark.parametrize(
    ("types", "chosen"),
    [
        (["text/plain", "application/vnd.api+json"], "application/vnd.api+json"),
        (
            ["application/json-patch+json", "application/merge-patch+json"],
            "application/merge-patch+json",
        ),
        (["application/xml", "application/json; charset=utf-8"], "application/json; charset=utf-8"),
        (["*/*"], "application/json"),
    ],
)
def test_simplest_media_type_is_chosen(types: list[str], chosen: str) -> None:
    tool = mapped({"requestBody": {"content": {each: schema_({}) for each in types}}})
    assert tool.request({"body": 1}).content_type == chosen


def test_xml_only_body_skips_the_operation() -> None:
    assert "is application/xml, which is not supported" in unmappable(
        form_of("application/xml", {})
    )
    assert "lacks content" in unmappable({"requestBody": {"content": {}}})


# Places in a service's errors


def test_request_places_are_mapped_to_arguments() -> None:
    tool = mapped(
        {
            "parameters": [parameter("filter[x]"), parameter("slug", "path", required=True)],
            **json_body(of_object(slug=STRING, lines={"type": "array"})),
        },
        "/{slug}",
    )
    assert tool.argument_path("body", ("lines", 0, "sku")) == "/lines/0/sku"
    assert tool.argument_path("body", ("payload", "slug")) == "/slug"
    assert tool.argument_path("path", ("slug",)) == "/path_slug"
    assert tool.argument_path("query", ("filter[x]",)) == "/filter_x"
    assert tool.argument_path(None, ("filter[x]",)) == "/filter_x"
    assert tool.argument_path("query", ("y",)) is None
    whole = mapped(json_body({"type": "array"}))
    assert whole.argument_path("body", (0, "sku")) == "/body/0/sku"

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_bridge.admin.try_tool import MAX_FIELDS, ArgumentsForm
from tests.support.page import render
from tests.support.values import label

STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
NODE = {
    "type": "object",
    "properties": {
        "value": INTEGER,
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["value", "children"],
}
ADDRESS = {
    "type": "object",
    "title": "Where to",
    "properties": {
        "street": STRING,
        "lines": {"type": "array", "items": STRING},
        "sure": {"type": "boolean"},
        "floor": {"type": ["integer", "null"]},
    },
    "required": ["street", "lines", "sure", "floor"],
    "additionalProperties": False,
}
MAP = {"type": "object", "additionalProperties": INTEGER}
LINES = {"type": "array", "items": STRING}


def one(schema: Any, *, required: bool = False, **more: Any) -> dict[str, Any]:
    """Return a schema with the member v."""
    properties = {"properties": {"v": schema}, "required": ["v"] if required else []}
    return {"type": "object", **properties, "additionalProperties": False, **more}


def filled(schema: Mapping[str, Any], typed: Mapping[str, str]) -> ArgumentsForm:
    return ArgumentsForm(schema, {f"arguments-{name}": text for name, text in typed.items()})


def nullable(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": [kind, "null"], **more}


# The schema of v, whether v is required, the typed text, and the arguments sent.
TYPED: list[tuple[Any, bool, dict[str, str], dict[str, Any]]] = [
    (STRING, False, {}, {}),
    (STRING, False, {"v": ""}, {}),
    (STRING, False, {"v": '""'}, {"v": ""}),
    (STRING, False, {"v": " a\r\nb "}, {"v": " a\nb "}),
    (STRING, True, {"v": '"a"'}, {"v": '"a"'}),
    (STRING, True, {}, {}),
    ({**STRING, "default": "x"}, False, {"v": ""}, {}),
    ({**STRING, "format": "date"}, False, {"v": "2026-01-31"}, {"v": "2026-01-31"}),
    ({**STRING, "format": "date-time"}, False, {"v": "soon"}, {"v": "soon"}),
    ({**STRING, "format": "email"}, False, {"v": "a@b.example"}, {"v": "a@b.example"}),
    (nullable("string", default=None), False, {}, {}),
    (nullable("string"), True, {"v": ""}, {"v": None}),
    (nullable("string", default="x"), False, {"v": "null"}, {"v": None}),
    (nullable("string", default="x"), False, {"v": '"a"'}, {"v": "a"}),
    (INTEGER, False, {"v": " 3 "}, {"v": 3}),
    (INTEGER, False, {"v": "1.5"}, {"v": 1.5}),
    ({"type": "number"}, False, {"v": "1e3"}, {"v": 1000.0}),
    (nullable("integer"), True, {"v": ""}, {"v": None}),
    ({"type": "boolean"}, True, {}, {"v": False}),
    ({"type": "boolean"}, True, {"v": "on"}, {"v": True}),
    ({"type": "boolean"}, False, {"v": ""}, {}),
    ({"type": "boolean"}, False, {"v": "false"}, {"v": False}),
    (nullable("boolean"), True, {"v": "null"}, {"v": None}),
    ({"enum": [1, "1", True, None, [1]]}, False, {"v": '"1"'}, {"v": "1"}),
    ({"enum": [1, "1", True, None, [1]]}, False, {"v": "[1]"}, {"v": [1]}),
    ({"const": "card"}, True, {"v": '"card"'}, {"v": "card"}),
    (LINES, False, {"v": " \r\n"}, {}),
    (LINES, True, {"v": "[]"}, {"v": []}),
    (LINES, False, {"v": '["a"]'}, {"v": ["a"]}),
    (nullable("array", items=STRING), True, {"v": "null"}, {"v": None}),
    ({}, True, {"v": " "}, {}),
    ({}, True, {"v": '[{"a": null}]'}, {"v": [{"a": None}]}),
    ({"anyOf": [INTEGER, STRING]}, False, {"v": '"x"'}, {"v": "x"}),
    ({"anyOf": [STRING, True, NULL]}, False, {"v": "1"}, {"v": 1}),
    (MAP, False, {"v": '{"a": 1}'}, {"v": {"a": 1}}),
    (ADDRESS, True, {"v": '{"street": "s"}'}, {"v": {"street": "s"}}),
    ({"$ref": "#/$defs/Node"}, True, {"v": '{"value": 1}'}, {"v": {"value": 1}}),
    ({"$ref": "#/$defs/Again"}, False, {"v": "1"}, {"v": 1}),
    ({"$ref": "https://example.com/"}, False, {"v": "1"}, {"v": 1}),
]
DEFS = {"Node": NODE, "Again": {"anyOf": [{"$ref": "#/$defs/Again"}]}}


def apart(schema: Any) -> Any:
    """Return the same schema with null in a separate branch, as for type hints."""
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    about = {key: schema[key] for key in ("title", "default") if key in schema}
    rest = {key: value for key, value in schema.items() if key not in about}
    return {"anyOf": [{**rest, "type": kinds[0]}, NULL], **about}


WITH_NULL = [each for each in TYPED if apart(each[0]) != each[0]]


@pytest.mark.parametrize(("schema", "required", "typed", "sent"), WITH_NULL, ids=label)
def test_null_branch_makes_the_same_form(
    schema: Any, required: bool, typed: dict[str, str], sent: dict[str, Any]
) -> None:
    pages = []
    for each in (schema, apart(schema)):
        form = filled(one(each, required=required), typed)
        assert form.is_valid(), form.errors
        assert form.arguments() == sent
        pages.append(render("arguments", form=form).names())
    assert pages[0] == pages[1]


def test_choice_or_null_is_a_select() -> None:
    schema = {"anyOf": [{"type": "string", "enum": ["a", "b"]}, NULL], "default": None}
    form = filled(one(schema), {"v": '"b"'})
    assert form.is_valid()
    assert form.arguments() == {"v": "b"}
    widget: Any = filled(one(schema), {}).fields["v"].widget
    assert [text for _, text in widget.choices] == ["(not sent; default: null)", "a", "b", "null"]


@pytest.mark.parametrize(("schema", "required", "typed", "sent"), TYPED, ids=label)
def test_typed_text_is_sent_as_its_value(
    schema: Any, required: bool, typed: dict[str, str], sent: dict[str, Any]
) -> None:
    form = filled(one(schema, required=required, **{"$defs": DEFS}), typed)
    assert form.is_valid(), form.errors
    assert form.arguments() == sent
    page = render("arguments", form=form)
    page.check()
    assert typed.keys() <= set(page.names())


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        (LINES, ["text"]),
        (MAP, {"name": 1}),
        (ADDRESS, {"street": "text", "lines": ["text"], "sure": True, "floor": 1}),
        ({"anyOf": [INTEGER, STRING]}, 1),
        ({"type": "array", "items": {"enum": ["b", "a"]}}, ["b"]),
        ({"type": "array", "items": {**STRING, "format": "date"}}, ["2026-01-31"]),
        ({"examples": [[7]]}, [7]),
        ({"type": "array", "items": {**INTEGER, "default": 4}}, [4]),
        (
            {"oneOf": [ADDRESS, NULL]},
            {"street": "text", "lines": ["text"], "sure": True, "floor": 1},
        ),
        ({"$ref": "#/$defs/Node"}, {"value": 1, "children": [{"value": 1, "children": []}]}),
    ],
    ids=label,
)
def test_json_field_has_an_example_of_the_schema(schema: Any, example: Any) -> None:
    form = ArgumentsForm(one(schema, **{"$defs": DEFS}))
    assert f"Enter JSON, such as {json.dumps(example)}." in str(form.fields["v"].help_text)


@pytest.mark.parametrize(
    ("schema", "typed", "error"),
    [
        (INTEGER, "three", "This is not a number. Enter one such as 3 or 2.5."),
        (INTEGER, "true", "This is not a number"),
        (INTEGER, "9" * 5000, "This is not a number"),
        ({}, "{", "This is not JSON: expecting property name"),
        ({}, "word", "at line 1, column 1. Put text in double quotes."),
        ({}, "NaN", "This JSON cannot be sent: NaN is not a JSON number."),
        ({}, '{"a": 1, "a": 2}', "a duplicate member"),
        ({}, "[" * 100_000, "nested more than"),
        ({"enum": ["a"]}, "a", "Select one of the values."),
    ],
    ids=label,
)
def test_invalid_json_is_an_error_of_its_field(schema: Any, typed: str, error: str) -> None:
    form = filled(one(schema), {"v": typed})
    assert error in form.errors["v"][0]
    page = render("arguments", form=form)
    page.check()
    (field,) = page.all("input", "textarea", "select")
    assert field["aria-invalid"] == "true"


def test_schema_determines_the_kind_of_input() -> None:
    properties: dict[str, Any] = {
        "date": {**STRING, "format": "date"},
        "moment": {**STRING, "format": "date-time"},
        "email": {**STRING, "format": "email"},
        "address": {**STRING, "format": "uri"},
        "secret": {**STRING, "format": "password"},
        "short": {**STRING, "maxLength": 200, "default": "abc"},
        "long": {**STRING, "maxLength": 201},
        "open": STRING,
        "count": {**INTEGER, "minimum": 2, "maximum": 9, "multipleOf": 2},
        "part": {"type": "number", "minimum": 0.5},
        "truth": {"type": "boolean"},
        "choice": {"enum": ["a", "b"], "default": "b"},
        "sure": {"type": "boolean"},
    }
    schema = {"properties": properties, "required": ["sure", "short"]}
    page = render("arguments", form=ArgumentsForm(schema))
    found = dict(zip(page.names(), page.all("input", "select", "textarea"), strict=True))
    kinds = [found[name].get("type") for name in properties]
    assert kinds[:7] == ["date", "text", "text", "text", "password", "text", None]
    assert kinds[7:] == [None, "number", "number", None, None, "checkbox"]
    assert found["open"]["rows"] == "1"
    wanted = ("min", "max", "step")
    assert [found["count"][each] for each in wanted] == ["2", "9", "1"]
    assert found["part"]["step"] == "any"
    assert found["moment"]["placeholder"] == "2026-01-31T12:00:00Z"
    assert found["short"]["placeholder"] == "abc"
    assert "value" not in found["short"]
    assert "required" in found["short"]
    assert "required" not in found["sure"]
    assert "(not sent; default: b)" in page.html
    assert found["count"]["aria-describedby"] == "id_arguments-count_helptext"
    assert "Integer, minimum 2, maximum 9, a multiple of 2." in page.html


NAMES = ["a.b", "", " ", "q\"uo'te", "<b>", "ünï", "a b", "fields", "errors", "%", "*", "~/", "x\n"]


def test_unusual_names_are_sent_as_they_are() -> None:
    schema = {"properties": dict.fromkeys(NAMES, STRING)}
    page = render("arguments", form=ArgumentsForm(schema))
    page.check()
    assert "<code>ünï</code>" in page.html
    assert "<b>" not in page.html
    form = filled(schema, dict.fromkeys(page.names(), "x"))
    assert form.is_valid()
    assert form.arguments() == dict.fromkeys(NAMES, "x")


@pytest.mark.parametrize("base", [{"properties": {"a": INTEGER}}, {"patternProperties": {}}])
def test_other_members_are_one_json_object(base: dict[str, Any]) -> None:
    schema = {"type": "object", "additionalProperties": INTEGER, **base}
    typed = {"*": '{"a": 1, "b": 2}', **dict.fromkeys(base.get("properties", ()), "3")}
    form = filled(schema, typed)
    assert form.is_valid()
    assert form.arguments() == {"a": 3 if "properties" in base else 1, "b": 2}
    assert "such as {&quot;name&quot;: 1}" in render("arguments", form=form).html
    for wrong in ("[1]", "{"):
        assert "JSON" in filled(schema, {"*": wrong}).errors["*"][0]
    assert filled(schema, {"*": " "}).is_valid()


def test_form_has_a_bounded_number_of_fields() -> None:
    # Each level refers to the next one forty times.
    defs = {
        f"D{level}": {"properties": {f"p{i}": {"$ref": f"#/$defs/D{level + 1}"} for i in range(40)}}
        for level in range(4)
    }
    schema = {"$ref": "#/$defs/D0", "$defs": {**defs, "D4": STRING}}
    form = ArgumentsForm(schema)
    page = render("arguments", form=form)
    assert len(page.names()) == 40
    assert len(page.html) < 200_000
    wide = {"properties": {str(i): STRING for i in range(MAX_FIELDS + 1)}}
    assert render("arguments", form=ArgumentsForm(wide)).names() == ["*"]


def test_tool_errors_are_at_their_fields() -> None:
    schema = {"properties": {"a": ADDRESS, "tags": LINES, "x/y~": STRING}, "required": ["a"]}
    form = filled(schema, {"tags": "[1]"})
    errors = [
        {"path": "/a/street", "message": "is required"},
        {"path": "/tags/0", "message": "is short"},
        {"path": "/x~1y~0", "message": "is odd"},
        {"path": "/a", "message": "is wrong"},
        {"path": "", "message": "too many"},
        {"path": "/tagsmore", "message": "is <unknown>"},
    ]
    form.add_tool_errors(errors)
    assert form.errors == {
        "a": ["/street: is required", "is wrong"],
        "tags": ["/0: is short"],
        "x%2Fy~": ["is odd"],
        "__all__": ["too many", "/tagsmore: is <unknown>"],
    }
    page = render("arguments", form=form)
    page.check()
    assert "<unknown>" not in page.html


def test_tool_without_arguments_has_a_notice() -> None:
    form = ArgumentsForm({"type": "object", "properties": {}, "additionalProperties": False}, {})
    assert form.is_valid()
    assert form.arguments() == {}
    assert "It takes no arguments." in render("arguments", form=form).html

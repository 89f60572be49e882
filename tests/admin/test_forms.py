from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mcp_bridge.admin.try_tool.forms import MAX_FIELDS, ArgumentsForm
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
    """A schema with the member v."""
    properties = {"properties": {"v": schema}, "required": ["v"] if required else []}
    return {"type": "object", **properties, "additionalProperties": False, **more}


def filled(schema: Mapping[str, Any], typed: Mapping[str, str]) -> ArgumentsForm:
    return ArgumentsForm(schema, {f"arguments-{name}": text for name, text in typed.items()})


def nullable(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": [kind, "null"], **more}


# A schema of v, whether v is required, what is typed, and what is sent.
TYPED: list[tuple[Any, bool, dict[str, str], dict[str, Any]]] = [
    (STRING, False, {}, {}),
    (STRING, False, {"v": ""}, {}),
    (STRING, False, {"v": '""'}, {"v": ""}),
    (STRING, False, {"v": " a\r\nb "}, {"v": " a\nb "}),
    (STRING, True, {"v": '"a"'}, {"v": '"a"'}),
    (STRING, True, {}, {}),
    ({**STRING, "default": "x"}, False, {"v": ""}, {}),
    ({**STRING, "format": "date"}, False, {"v": "2026-01-31"}, {"v": "2026-01-31"}),
    (
        {**STRING, "format": "date-time"},
        False,
        {"v": "2026-01-31T12:00"},
        {"v": "2026-01-31T12:00:00+00:00"},
    ),
    ({**STRING, "format": "date-time"}, False, {"v": "soon"}, {"v": "soon"}),
    ({**STRING, "format": "email"}, False, {"v": "a@b.example"}, {"v": "a@b.example"}),
    (nullable("string", default=None), False, {}, {}),
    (nullable("string"), True, {"v": ""}, {"v": None}),
    (nullable("string", default="x"), False, {"v": "null"}, {"v": None}),
    (nullable("string", default="x"), False, {"v": '"a"'}, {"v": "a"}),
    (INTEGER, False, {"v": " 3 "}, {"v": 3}),
    (INTEGER, False, {"v": "1.5"}, {"v": 1.5}),
    ({"type": "number"}, False, {"v": "1e3"}, {"v": 1000.0}),
    ({"type": "boolean"}, True, {}, {"v": False}),
    ({"type": "boolean"}, True, {"v": "on"}, {"v": True}),
    ({"type": "boolean"}, False, {"v": ""}, {}),
    ({"type": "boolean"}, False, {"v": "false"}, {"v": False}),
    (nullable("boolean"), True, {"v": "null"}, {"v": None}),
    ({"enum": [1, "1", True, None, [1]]}, False, {"v": '"1"'}, {"v": "1"}),
    ({"enum": [1, "1", True, None, [1]]}, False, {"v": "[1]"}, {"v": [1]}),
    ({"const": "card"}, True, {"v": '"card"'}, {"v": "card"}),
    (LINES, False, {"v": " \r\n"}, {}),
    (LINES, True, {"v": ""}, {"v": []}),
    (LINES, False, {"v": "[]"}, {"v": []}),
    (LINES, False, {"v": 'a b\r\n\r\n""\r\n7'}, {"v": ["a b", "", "7"]}),
    ({"type": "array", "items": INTEGER}, False, {"v": "1\n2"}, {"v": [1, 2]}),
    (nullable("array", items=STRING), True, {"v": ""}, {"v": None}),
    ({"type": "array", "items": nullable("integer")}, False, {"v": "[1, null]"}, {"v": [1, None]}),
    ({}, True, {"v": " "}, {}),
    ({}, True, {"v": '[{"a": null}]'}, {"v": [{"a": None}]}),
    ({"anyOf": [INTEGER, STRING]}, False, {"v": '"x"'}, {"v": "x"}),
    ({"type": "array", "items": {"enum": ["a"]}}, False, {"v": '["a"]'}, {"v": ["a"]}),
    (MAP, False, {"v": '{"a": 1}'}, {"v": {"a": 1}}),
    (ADDRESS, False, {}, {}),
    (
        ADDRESS,
        False,
        {"v.street": "s"},
        {"v": {"street": "s", "lines": [], "floor": None}},
    ),
    (
        ADDRESS,
        True,
        {"v.sure": "on", "v.floor": "1"},
        {"v": {"lines": [], "floor": 1, "sure": True}},
    ),
    ({**ADDRESS, "type": ["object", "null"]}, True, {}, {"v": None}),
    (nullable("object", properties={"a": STRING}), True, {}, {"v": None}),
    (nullable("object", properties={"a": STRING}, default={}), False, {"v": "null"}, {"v": None}),
    (NODE, True, {"v.value": "1", "v.children": "[]"}, {"v": {"value": 1, "children": []}}),
    ({"$ref": "#/$defs/Node"}, True, {"v.value": "1"}, {"v": {"value": 1}}),
    ({"$ref": "https://example.com/"}, False, {"v": "1"}, {"v": 1}),
]


def apart(schema: Any) -> Any:
    """The same schema with null in a branch of its own, as hints are described."""
    if isinstance(schema, list):
        return [apart(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: apart(value) for key, value in schema.items()}
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    about = {key: schema.pop(key) for key in ("title", "default") if key in schema}
    return {"anyOf": [{**schema, "type": kinds[0]}, NULL], **about}


WITH_NULL = [each for each in TYPED if apart(each[0]) != each[0]]


@pytest.mark.parametrize(("schema", "required", "typed", "sent"), WITH_NULL, ids=label)
def test_null_in_a_branch_of_its_own_makes_the_same_form(
    schema: Any, required: bool, typed: dict[str, str], sent: dict[str, Any]
) -> None:
    pages = []
    for each in (schema, apart(schema)):
        form = filled(one(each, required=required), typed)
        assert form.is_valid(), form.errors
        assert form.arguments() == sent
        pages.append(render("arguments", form=form).html)
    assert pages[0] == pages[1]


def test_a_choice_or_null_is_a_list_to_choose_from() -> None:
    schema = {"anyOf": [{"type": "string", "enum": ["a", "b"]}, NULL], "default": None}
    form = filled(one(schema), {"v": '"b"'})
    assert form.is_valid()
    assert form.arguments() == {"v": "b"}
    widget: Any = filled(one(schema), {}).fields["v"].widget
    assert [text for _, text in widget.choices] == ["(not sent; default: null)", "a", "b", "null"]


@pytest.mark.parametrize(("schema", "required", "typed", "sent"), TYPED, ids=label)
def test_what_is_typed_is_what_is_sent(
    schema: Any, required: bool, typed: dict[str, str], sent: dict[str, Any]
) -> None:
    form = filled(one(schema, required=required, **{"$defs": {"Node": NODE}}), typed)
    assert form.is_valid(), form.errors
    assert form.arguments() == sent
    page = render("arguments", form=form)
    page.check()
    assert typed.keys() <= set(page.names())


@pytest.mark.parametrize(
    ("schema", "typed", "error"),
    [
        (INTEGER, "three", "This is not a number. Write one such as 3 or 2.5."),
        (INTEGER, "true", "This is not a number"),
        (INTEGER, "9" * 5000, "This is not a number"),
        ({"type": "array", "items": INTEGER}, "1\nb", "Line 2: This is not a number"),
        ({}, "{", "This is not JSON: expecting property name"),
        ({}, "word", "at line 1, column 1. Text stands in double quotes."),
        ({}, "NaN", "This JSON cannot be sent: NaN is not a JSON number."),
        ({}, '{"a": 1, "a": 2}', "the same member twice"),
        ({}, "[" * 100_000, "nested more than"),
        ({"enum": ["a"]}, "a", "Choose one of the values."),
    ],
    ids=label,
)
def test_what_is_no_json_is_refused_at_its_field(schema: Any, typed: str, error: str) -> None:
    form = filled(one(schema), {"v": typed})
    assert error in form.errors["v"][0]
    page = render("arguments", form=form)
    page.check()
    (field,) = page.all("input", "textarea", "select")
    assert field["aria-invalid"] == "true"


def test_inputs_are_of_the_kind_that_the_schema_asks_for() -> None:
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
        "odd": {**INTEGER, "minimum": 1, "multipleOf": 2},
        "part": {"type": "number", "minimum": 0.5},
        "truth": {"type": "boolean"},
        "choice": {"enum": ["a", "b"], "default": "b"},
        "sure": {"type": "boolean"},
    }
    schema = {"properties": properties, "required": ["sure", "short"]}
    page = render("arguments", form=ArgumentsForm(schema))
    found = dict(zip(page.names(), page.all("input", "select", "textarea"), strict=True))
    kinds = [found[name].get("type") for name in properties]
    assert kinds[:7] == ["date", "datetime-local", "email", "url", "password", "text", None]
    assert kinds[7:] == [None, "number", "number", "number", None, None, "checkbox"]
    assert found["open"]["rows"] == "1"
    wanted = ("min", "max", "step")
    assert [found["count"][each] for each in wanted] == ["2", "9", "2"]
    assert [found[each]["step"] for each in ("odd", "part")] == ["any", "any"]
    assert found["short"]["placeholder"] == "abc"
    assert "value" not in found["short"]
    assert "required" in found["short"]
    assert "required" not in found["sure"]
    assert "(not sent; default: b)" in page.html
    assert found["count"]["aria-describedby"] == "id_arguments-count_helptext"
    assert "Integer, 2 to 9, a multiple of 2." in page.html


NAMES = ["a.b", "", " ", "q\"uo'te", "<b>", "ünï", "a b", "fields", "errors", "%", "*", "~/", "x\n"]


def test_unusual_names_are_sent_as_they_are() -> None:
    nested = {"type": "object", "properties": {"b": STRING}}
    schema = {"properties": {**dict.fromkeys(NAMES, STRING), "a": nested}}
    page = render("arguments", form=ArgumentsForm(schema))
    page.check()
    assert "<code>ünï</code>" in page.html
    assert "<b>" not in page.html
    form = filled(schema, dict.fromkeys(page.names(), "x"))
    assert form.is_valid()
    assert form.arguments() == {**dict.fromkeys(NAMES, "x"), "a": {"b": "x"}}


@pytest.mark.parametrize("base", [{"properties": {"a": INTEGER}}, {"patternProperties": {}}])
def test_members_without_a_name_are_written_as_one_object(base: dict[str, Any]) -> None:
    schema = {"type": "object", "additionalProperties": INTEGER, **base}
    typed = {"*": '{"a": 1, "b": 2}', **dict.fromkeys(base.get("properties", ()), "3")}
    form = filled(schema, typed)
    assert form.is_valid()
    assert form.arguments() == {"a": 3 if "properties" in base else 1, "b": 2}
    assert "Each value: integer." in render("arguments", form=form).html
    for wrong in ("[1]", "{"):
        assert "JSON" in filled(schema, {"*": wrong}).errors["*"][0]
    assert filled(schema, {"*": " "}).is_valid()


def test_objects_further_in_are_written_as_json() -> None:
    schema: dict[str, Any] = STRING
    for name in "fedcba":
        schema = one(schema, required=True, title=name)
    page = render("arguments", form=ArgumentsForm(schema))
    page.check()
    assert page.names() == ["v.v.v.v.v"]
    assert len(page.all("fieldset")) == 1 + 4
    form = filled(schema, {"v.v.v.v.v": '{"v": "x"}'})
    assert form.is_valid()
    assert form.arguments() == {"v": {"v": {"v": {"v": {"v": {"v": "x"}}}}}}


def test_a_form_has_a_bounded_number_of_fields() -> None:
    # Each level refers to the next one forty times.
    defs = {
        f"D{level}": {"properties": {f"p{i}": {"$ref": f"#/$defs/D{level + 1}"} for i in range(40)}}
        for level in range(4)
    }
    schema = {"$ref": "#/$defs/D0", "$defs": {**defs, "D4": STRING}}
    page = render("arguments", form=ArgumentsForm(schema))
    assert 40 <= len(page.names()) <= MAX_FIELDS
    wide = {"properties": {str(i): STRING for i in range(MAX_FIELDS + 1)}}
    assert render("arguments", form=ArgumentsForm(wide)).names() == ["*"]


def test_errors_of_the_server_stand_at_their_fields() -> None:
    schema = {"properties": {"a": ADDRESS, "tags": LINES, "x/y~": STRING}, "required": ["a"]}
    form = filled(schema, {"tags": "1"})
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
        "a.street": ["is required"],
        "tags": ["/0: is short"],
        "x%2Fy~": ["is odd"],
        "__all__": ["/a: is wrong", "too many", "/tagsmore: is <unknown>"],
    }
    page = render("arguments", form=form)
    page.check()
    assert "<unknown>" not in page.html


def test_a_tool_without_arguments_says_so() -> None:
    form = ArgumentsForm({"type": "object", "properties": {}, "additionalProperties": False}, {})
    assert form.is_valid()
    assert form.arguments() == {}
    assert "This tool takes no arguments." in render("arguments", form=form).html

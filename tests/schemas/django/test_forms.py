"""Django's forms as parameters, through the endpoint."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import Group

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Section
from tests.calls.test_arguments import errors_of
from tests.schemas.kinds_classes import optional
from tests.support.serving import messages, served

STRING = {"type": "string"}


class SignupForm(forms.Form):
    """Who signs up."""

    name = forms.CharField(max_length=8, min_length=2, help_text="as it is printed")
    email = forms.EmailField(required=False)
    age = forms.IntegerField(min_value=18, max_value=99)
    plan = forms.ChoiceField(choices=[("f", "Free"), ("More", [("p", "Paid")])])
    topics = forms.MultipleChoiceField(choices=[("a", "a"), ("b", "b")], required=False)
    born = forms.DateField(required=False)
    share = forms.DecimalField(required=False, max_value=1)
    extra = forms.JSONField(required=False)
    terms = forms.BooleanField()
    letters = forms.BooleanField(required=False)
    group = forms.ModelChoiceField(Group.objects.all(), required=False)
    secret = forms.CharField(disabled=True, required=False)

    def clean_name(self) -> str:
        if self.cleaned_data["name"] == "root":
            raise forms.ValidationError("{root} is taken", code="taken")
        return str(self.cleaned_data["name"])

    def clean(self) -> None:
        if self.cleaned_data.get("plan") == "p" and not self.cleaned_data.get("email"):
            raise forms.ValidationError("A paid plan needs an email.")


class SectionForm(forms.ModelForm):
    prefix = "s"

    class Meta:
        model = Section
        fields = ["name", "slug", "description"]


GOOD = {"name": "Ada", "age": 36, "plan": "f", "terms": True}


def register(data: SignupForm) -> str:
    """Sign up."""
    assert data.is_valid()
    values = {name: value for name, value in data.cleaned_data.items() if value}
    return repr(values)


def add(data: SectionForm) -> str:
    """Add a section."""
    return str(data.save().slug)


def test_schema_follows_the_fields(settings: Any) -> None:
    serve(settings, register)
    schema = served("register").input_schema["properties"]["data"]
    properties = schema["properties"]
    assert schema["required"] == ["name", "age", "plan", "terms"]
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert (schema["description"], "secret" in properties) == ("Who signs up.", False)
    assert messages("mcp_bridge.E006") == []


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        (
            "name",
            {**STRING, "minLength": 2, "maxLength": 8, "description": "as it is printed."},
        ),
        ("age", {"type": "integer", "minimum": 18, "maximum": 99}),
        ("plan", {**STRING, "enum": ["f", "p"], "description": "f: Free; p: Paid."}),
        ("terms", {"type": "boolean", "const": True}),
        ("letters", {"type": "boolean", "default": False}),
        ("group", optional({"type": "integer"})),
        ("born", optional({**STRING, "format": "date"})),
        (
            "topics",
            optional({"type": "array", "items": {**STRING, "enum": ["a", "b"]}}),
        ),
        (
            "email",
            optional({**STRING, "format": "email", "maxLength": 320}),
        ),
    ],
)
def test_field_schema_matches_its_row(name: str, schema: Any, settings: Any) -> None:
    serve(settings, register)
    data = served("register").input_schema["properties"]["data"]
    assert data["properties"][name] == schema


@pytest.mark.parametrize(
    ("sent", "cleaned"),
    [
        ({}, {}),
        ({"born": "2000-02-29"}, {"born": datetime.date(2000, 2, 29)}),
        ({"share": "0.5"}, {"share": decimal.Decimal("0.5")}),
        ({"topics": ["a", "b"]}, {"topics": ["a", "b"]}),
        ({"extra": {"a": [1]}}, {"extra": {"a": [1]}}),
        ({"extra": "text"}, {"extra": "text"}),
        ({"letters": True, "email": None}, {"letters": True}),
    ],
)
def test_procedure_receives_the_valid_form(
    sent: Any, cleaned: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, register)
    text = text_of(modern.call_tool("register", {"data": {**GOOD, **sent}}))
    assert eval(text, {"datetime": datetime, "Decimal": decimal.Decimal}) == {**GOOD, **cleaned}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (
            {"age": 17, "name": "a"},
            [("/data/age", "greater_than_equal"), ("/data/name", "string_too_short")],
        ),
        ({"terms": False}, [("/data/terms", "literal_error")]),
        ({"plan": "x"}, [("/data/plan", "literal_error")]),
        ({"secret": "x"}, [("/data/secret", "extra_forbidden")]),
        ({"email": "nobody"}, [("/data/email", "invalid")]),
        (
            {"name": "root", "group": 2**31 - 1},
            [("/data/group", "invalid_choice"), ("/data/name", "taken")],
        ),
        ({"plan": "p"}, [("/data", "invalid")]),
        ({"name": "  "}, [("/data/name", "required")]),
        ({"extra": None, "age": "36"}, [("/data/age", "int_type")]),
    ],
)
def test_errors_of_the_form_are_argument_errors(
    sent: Any, expected: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, register)
    assert errors_of(modern.call_tool("register", {"data": {**GOOD, **sent}})) == expected


def test_messages_of_the_form_reach_the_model(modern: CheckedClient, settings: Any) -> None:
    serve(settings, register)
    result = modern.call_tool("register", {"data": {**GOOD, "name": "root"}})
    assert text_of(result) == "/data/name: {root} is taken"


def test_model_form_saves(modern: CheckedClient, settings: Any) -> None:
    serve(settings, add)
    sent = {"data": {"name": "Sport", "slug": "sport"}}
    assert text_of(modern.call_tool("add", sent)) == "sport"
    assert Section.objects.get().name == "Sport"
    taken = errors_of(modern.call_tool("add", sent))
    assert taken == [("/data/name", "unique"), ("/data/slug", "unique")]


def test_form_without_a_json_shape_is_reported(settings: Any) -> None:
    class Moment(forms.Form):
        when = forms.SplitDateTimeField()

    def note(data: Moment) -> str:
        """Note."""
        return "noted"

    note.__annotations__["data"] = Moment
    serve(settings, note)
    assert "'when' (SplitDateTimeField) cannot be JSON" in messages("mcp_bridge.E006")[0]

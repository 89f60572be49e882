"""
The table "Django kinds" of docs/tools/schemas.md, row by row, through the endpoint.

The details of a row (every field of a form, every lookup) are tested with its kind.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from django.db.models import QuerySet
from jsonschema import Draft202012Validator

from mcp_bridge.schemas.django import Lookup
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Article, Section
from tests.calls.test_arguments import errors_of
from tests.schemas.django.test_forms import SectionForm, SignupForm
from tests.schemas.django.test_serializers import LineSerializer
from tests.schemas.kinds import nullable
from tests.support.serving import giving, messages, names, served

DOCS = Path(__file__).parents[3] / "docs" / "tools" / "schemas.md"
BY_ID = {"type": "integer", "description": "The id of a section."}
BY_SLUG = {"type": "string", "maxLength": 60, "description": "The slug of a section."}
SIGNUP = {"name": "Ada", "age": 36, "plan": "f", "terms": True}
NEW = {"name": "Arts", "slug": "arts"}

# The kind's name in the table, its hint, a part of its schema; the value sent and the value
# received; the value refused although it fits the schema (or else), the place of the error, and its
# type.
ROWS: list[tuple[str, Any, Any, Any, str, Any, list[tuple[str, str]]]] = [
    ("Section", Section, BY_ID, 1, "<Section: Sport>", 9, [("", "not_found")]),
    (
        'Annotated[Section, Lookup("slug")]',
        Annotated[Section, Lookup("slug")],
        BY_SLUG,
        "sport",
        "<Section: Sport>",
        "none",
        [("", "not_found")],
    ),
    (
        "list[Section]",
        list[Section],
        {"type": "array", "items": BY_ID},
        [1, 1],
        "[<Section: Sport>, <Section: Sport>]",
        [9, 1],
        [("/0", "not_found")],
    ),
    (
        "Section | None",
        Section | None,
        nullable(BY_ID),
        None,
        "None",
        9,
        [("", "not_found")],
    ),
    (
        "Article.Status",
        Article.Status,
        {"type": "string", "enum": ["draft", "review", "published"]},
        "draft",
        "Article.Status.DRAFT",
        "x",
        [("", "enum")],
    ),
    (
        "SignupForm",
        SignupForm,
        {"type": "object", "additionalProperties": False},
        SIGNUP,
        "<SignupForm bound=True, valid=True",
        {**SIGNUP, "plan": "p"},
        [("", "invalid")],
    ),
    (
        "SectionForm",
        SectionForm,
        {"type": "object", "required": ["name", "slug"], "additionalProperties": False},
        NEW,
        "<SectionForm bound=True, valid=True",
        {**NEW, "slug": "sport"},
        [("/slug", "unique")],
    ),
    (
        "OrderSerializer",
        LineSerializer,
        {"type": "object", "required": ["code"], "additionalProperties": False},
        {"code": "a"},
        "LineSerializer(data={'code': 'a'})",
        {"code": " "},
        [("/code", "blank")],
    ),
    (
        "list[OrderSerializer]",
        list[LineSerializer],
        {"type": "array"},
        [{"code": "a"}],
        "LineSerializer(data=[{'code': 'a'}], many=True)",
        [{"code": " "}],
        [("/0/code", "blank")],
    ),
]


@pytest.fixture
def section(db: None) -> Section:
    return Section.objects.create(id=1, name="Sport", slug="sport")


def taking_and_refusing(hint: Any) -> Any:
    def take(value: Any) -> str:
        """Take a value."""
        return repr(value)

    take.__annotations__["value"] = hint
    return take


@pytest.mark.parametrize(
    ("name", "hint", "schema", "sent", "received", "wrong", "expected"),
    ROWS,
    ids=[row[0] for row in ROWS],
)
def test_kind_matches_its_row_in_the_table(
    name: str,
    hint: Any,
    schema: Any,
    sent: Any,
    received: str,
    wrong: Any,
    expected: Any,
    section: Section,
    modern: CheckedClient,
    settings: Any,
) -> None:
    serve(settings, taking_and_refusing(hint))
    whole = served("take").input_schema["properties"]["value"]
    assert {key: whole[key] for key in schema} == schema
    assert Draft202012Validator(whole).is_valid(sent)
    assert text_of(modern.call_tool("take", {"value": sent})).startswith(received)
    errors = errors_of(modern.call_tool("take", {"value": wrong}))
    assert errors == [(f"/value{path}", kind) for path, kind in expected]
    # Values that only the database, the form or the serializer refuses fit the schema.
    assert Draft202012Validator(whole).is_valid(wrong) is (expected[0][1] != "enum")


def test_documented_table_has_these_rows() -> None:
    section = DOCS.read_text().split("\n## Django kinds\n")[1].split("\nAs results:\n")[0]
    first = re.findall(r"^\| `(.+?)`(?=[ ,|])", section.replace(r"\|", "¦"), flags=re.M)
    assert [each.replace("¦", "|") for each in first] == [row[0] for row in ROWS]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (QuerySet, "use list[Article]"),
        (QuerySet[Section], "use list[Article]"),
        (list[QuerySet[Section]], "use list[Article]"),
    ],
)
def test_queryset_parameter_is_refused(hint: Any, expected: str, settings: Any) -> None:
    serve(settings, taking_and_refusing(hint))
    assert expected in messages("mcp_bridge.E006")[0]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (Section, "declare the members to show"),
        (QuerySet[Section], "use list[Row]"),
        (list[SignupForm], "a form cannot be a result"),
    ],
)
def test_results_without_a_shape_are_refused(hint: Any, expected: str, settings: Any) -> None:
    serve(settings, giving(hint, ["x"]))
    assert expected in messages("mcp_bridge.E006")[0]
    assert names() == []

"""Django's own types as members of classes, through the endpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, NamedTuple, NotRequired, TypeVar

import pytest
from annotated_types import MaxLen
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType, TypedDict

from mcp_bridge.schemas.django import Lookup
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Article, Section
from tests.calls.test_arguments import errors_of
from tests.schemas.django.test_forms import SignupForm
from tests.schemas.django.test_serializers import LineSerializer
from tests.support.serving import messages, served, taking

T = TypeVar("T")
BY_ID = {"type": "integer", "description": "The id of a group."}
BY_NAME = {"type": "string", "maxLength": 150, "description": "The name of a group."}
Named = Annotated[Group, Lookup("name")]
Alias = TypeAliasType("Alias", list[Group])


@dataclass
class Move:
    group: Group
    others: list[Group] = field(default_factory=list)
    state: Article.Status | None = None
    before: Article.Status = Article.Status.DRAFT


@dataclass(frozen=True, slots=True)
class ByName:
    group: Named
    others: Annotated[list[Named], Field(max_length=2, description="Whom.")] = field(
        default_factory=list
    )
    more: Annotated[list[Group], Lookup("name")] = field(default_factory=list)


class Typed(TypedDict):
    group: Group
    other: NotRequired[Named | None]


class Tupled(NamedTuple):
    group: Group
    count: int


class Loose(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    group: Group = Field(alias="for")


class Closed(BaseModel):
    """A pydantic model of the site that accepts instances in Python."""

    group: Named
    others: list[Named] = []


@dataclass
class Boxed(Generic[T]):
    inside: T


@dataclass
class Tree:
    group: Group
    children: list[Tree] = field(default_factory=list)


@dataclass
class Filled:
    form: SignupForm
    line: LineSerializer | None = None
    lines: list[LineSerializer] = field(default_factory=list)


@dataclass
class Checked:
    group: Annotated[Group, AfterValidator(lambda group: group.name)]


GOOD: list[tuple[Any, Any, str]] = [
    (
        Move,
        {"group": 1},
        "Move(group=<Group: a>, others=[], state=None, before=Article.Status.DRAFT)",
    ),
    (
        Move,
        {"group": 1, "others": [2, 1, 2], "state": "draft"},
        "Move(group=<Group: a>, others=[<Group: b>, <Group: a>, <Group: b>], "
        "state=Article.Status.DRAFT, before=Article.Status.DRAFT)",
    ),
    (
        ByName,
        {"group": "a", "others": ["b"], "more": ["a"]},
        "ByName(group=<Group: a>, others=[<Group: b>], more=[<Group: a>])",
    ),
    (Typed, {"group": 1, "other": "b"}, "{'group': <Group: a>, 'other': <Group: b>}"),
    (Typed, {"group": 1, "other": None}, "{'group': <Group: a>, 'other': None}"),
    (Tupled, [1, 5], "Tupled(group=<Group: a>, count=5)"),
    (Loose, {"for": 1}, "Loose(group=<Group: a>)"),
    (Closed, {"group": "a", "others": ["b"]}, "Closed(group=<Group: a>, others=[<Group: b>])"),
    (Boxed[Move], {"inside": {"group": 2}}, "Boxed(inside=Move(group=<Group: b>"),
    (list[Tupled], [[1, 5]], "[Tupled(group=<Group: a>, count=5)]"),
    (dict[str, Typed] | None, {"x": {"group": 1}}, "{'x': {'group': <Group: a>}}"),
    (Move | int, {"group": 1}, "Move(group=<Group: a>"),
    (
        Tree,
        {"group": 1, "children": [{"group": 2}]},
        "Tree(group=<Group: a>, children=[Tree(group=<Group: b>, children=[])])",
    ),
    (Checked, {"group": 1}, "Checked(group='a')"),
    (Alias, [1, 2], "[<Group: a>, <Group: b>]"),
]
BAD: list[tuple[Any, Any, list[tuple[str, str]]]] = [
    (Move, {"group": 9, "state": "x"}, [("/value/group", "not_found"), ("/value/state", "enum")]),
    (Move, {"group": "1"}, [("/value/group", "int_type")]),
    (
        Move,
        {"group": 1, "others": [9, 1, 8]},
        [("/value/others/0", "not_found"), ("/value/others/2", "not_found")],
    ),
    (ByName, {"group": "a", "others": ["a", "b", "a"]}, [("/value/others", "too_long")]),
    (Typed, {"group": 1, "other": "x"}, [("/value/other", "not_found")]),
    (Tupled, [9, 5], [("/value/0", "not_found")]),
    (Loose, {"for": 9}, [("/value/for", "not_found")]),
    (
        Closed,
        {"group": "x", "others": ["y"]},
        [("/value/group", "not_found"), ("/value/others/0", "not_found")],
    ),
    (Boxed[Move], {"inside": {"group": 9}}, [("/value/inside/group", "not_found")]),
    (Alias, [1, 9], [("/value/1", "not_found")]),
    (Tree, {"group": 1, "children": [{"group": 9}]}, [("/value/children/0/group", "not_found")]),
    (dict[str, Typed] | None, {"x": {"group": 9}}, [("/value/x/group", "not_found")]),
]


@pytest.fixture
def groups(db: None) -> list[Group]:
    return [Group.objects.create(id=id, name=name) for id, name in ((1, "a"), (2, "b"))]


@pytest.mark.parametrize(("hint", "sent", "received"), GOOD, ids=range(len(GOOD)))
def test_members_are_received_as_instances(
    hint: Any, sent: Any, received: str, groups: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    assert messages("mcp_bridge.E006") == []
    assert text_of(modern.call_tool("take", {"value": sent})).startswith(received)


@pytest.mark.parametrize(("hint", "sent", "expected"), BAD, ids=range(len(BAD)))
def test_member_instances_are_looked_up_or_refused(
    hint: Any, sent: Any, expected: Any, groups: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    assert errors_of(modern.call_tool("take", {"value": sent})) == expected


def properties_of(hint: Any, settings: Any) -> Any:
    serve(settings, taking(hint))
    assert messages("mcp_bridge.E006") == []
    return served("take").input_schema["properties"]["value"]["properties"]


def test_member_schema_equals_that_of_a_parameter(settings: Any) -> None:
    labels = "draft: Draft; review: In review; published: Published."
    states = ["draft", "review", "published"]
    assert properties_of(Move, settings) == {
        "group": BY_ID,
        "others": {"type": "array", "items": BY_ID},
        "state": {
            "anyOf": [{"type": "string", "enum": states}, {"type": "null"}],
            "description": labels,
            "default": None,
        },
        "before": {"type": "string", "enum": states, "description": labels, "default": "draft"},
    }
    assert properties_of(ByName, settings) == {
        "group": BY_NAME,
        "others": {"type": "array", "items": BY_NAME, "maxItems": 2, "description": "Whom."},
        "more": {"type": "array", "items": BY_NAME},
    }


@pytest.mark.parametrize("hint", [Move, list[Move]])
def test_list_in_a_member_takes_one_query(hint: Any, groups: Any, settings: Any) -> None:
    serve(settings, taking(hint))
    check = served("take").check
    sent: Any = {"group": 1, "others": [1, 2, 1]}
    with CaptureQueriesContext(connection) as queries:
        check({"value": sent if hint is Move else [sent]})
    assert len(queries) == 2


FILLED = {"form": {"name": "Ada", "age": 36, "plan": "f", "terms": True}}


def fill(value: Filled) -> str:
    """Fill."""
    line = value.line and value.line.validated_data
    many: Any = value.lines
    return json.dumps([value.form.cleaned_data["name"], line, many and many.validated_data])


def test_forms_and_serializers_are_members(modern: CheckedClient, settings: Any) -> None:
    serve(settings, fill)
    assert messages("mcp_bridge.E006") == []
    lines = [{"code": "a"}, {"code": "b", "count": 2}]
    sent = {**FILLED, "line": lines[1], "lines": lines}
    assert json.loads(text_of(modern.call_tool("fill", {"value": sent}))) == [
        "Ada",
        lines[1],
        [{"code": "a", "count": 1}, lines[1]],
    ]
    assert json.loads(text_of(modern.call_tool("fill", {"value": FILLED}))) == ["Ada", None, []]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"form": {**FILLED["form"], "name": "root"}}, [("/value/form/name", "taken")]),
        ({"form": {**FILLED["form"], "plan": "p"}}, [("/value/form", "invalid")]),
        ({"line": {"code": " "}}, [("/value/line/code", "blank")]),
        ({"lines": [{"code": "a"}, {"code": " "}]}, [("/value/lines/1/code", "blank")]),
    ],
)
def test_errors_of_members_have_their_paths(
    sent: Any, expected: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, fill)
    assert errors_of(modern.call_tool("fill", {"value": {**FILLED, **sent}})) == expected


@dataclass
class Bounded:
    group: Annotated[Group, Field(ge=1)]


@dataclass
class Matched:
    group: Annotated[Named, Field(pattern="x")]


@dataclass
class Whole:
    group: Annotated[Group | None, Lookup("name")]


@dataclass
class Unnamed:
    section: Annotated[Section, Lookup("description")]


@dataclass
class Own:
    __pydantic_config__ = ConfigDict(extra="ignore")

    group: Group


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (Bounded, "a bound on Group is not supported"),
        (Matched, "a bound on Group is not supported"),
        (Whole, "Lookup('name') must annotate a model class"),
        (Annotated[Group | None, Lookup("name")], "Lookup('name') must annotate"),
        (Unnamed, "Section.description is not unique"),
        (Own, "arbitrary_types_allowed=True"),
        (Annotated[list[Group], MaxLen(2)] | Own, "arbitrary_types_allowed=True"),
    ],
)
def test_unsupported_metadata_is_refused_by_a_check(
    hint: Any, expected: str, settings: Any
) -> None:
    serve(settings, taking(hint))
    (message,) = messages("mcp_bridge.E006")
    assert expected in message

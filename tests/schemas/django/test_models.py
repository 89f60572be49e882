"""Django's models and choices as parameters, through the endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from annotated_types import MaxLen
from django.contrib.auth.models import AbstractUser, Group, User
from django.contrib.sessions.models import Session
from django.db import connection, models
from django.test.utils import CaptureQueriesContext, isolate_apps
from django.utils.translation import override
from pydantic import AfterValidator, Field

from mcp_bridge.protocol import LATEST
from mcp_bridge.schemas.django import Lookup
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Article, Author, Section
from tests.calls.test_arguments import errors_of
from tests.schemas.kinds import nullable
from tests.support.serving import messages, names, served, taking
from tests.transports.test_async_view import async_caller

Named = Annotated[Group, Lookup("name")]
BY_ID = {"type": "integer", "description": "The id of a group."}
BY_NAME = {"type": "string", "maxLength": 150, "description": "The name of a group."}
BOTH = [("/value/0", "not_found"), ("/value/2", "not_found")]


@pytest.fixture
def groups(db: None) -> list[Group]:
    return [Group.objects.create(name=name) for name in ("readers", "writers")]


def schema_of(hint: Any, settings: Any) -> Any:
    serve(settings, taking(hint))
    assert messages("mcp_bridge.E006") == []
    return served("take").input_schema["properties"]["value"]


def taken(hint: Any, value: Any, modern: CheckedClient, settings: Any) -> str:
    serve(settings, taking(hint))
    return text_of(modern.call_tool("take", {"value": value}))


TABLE: list[tuple[Any, dict[str, Any]]] = [
    (Group, BY_ID),
    (Group | None, nullable(BY_ID)),
    (Named, BY_NAME),
    (list[Group], {"type": "array", "items": BY_ID}),
    (list[Named], {"type": "array", "items": BY_NAME}),
    (Annotated[list[Group], Lookup("name")], {"type": "array", "items": BY_NAME}),
    (
        Annotated[list[Group], Field(max_length=2)],
        {"type": "array", "items": BY_ID, "maxItems": 2},
    ),
    (Annotated[Group, Field(ge=1)], {**BY_ID, "minimum": 1}),
    (dict[str, Group], {"type": "object", "additionalProperties": BY_ID}),
    (Annotated[Group, Field(description="Who.")], {"type": "integer", "description": "Who."}),
    (Article, {"type": "integer", "description": "The id of an article."}),
    (
        Annotated[Article, Lookup("slug")],
        {"type": "string", "maxLength": 160, "description": "The slug of an article."},
    ),
    (
        Annotated[Author, Lookup("user")],
        {"type": "integer", "description": "The user of an author."},
    ),
    (Session, {"type": "string", "maxLength": 40, "description": "The session key of a session."}),
    (
        Article.Status,
        {
            "type": "string",
            "enum": ["draft", "review", "published"],
            "description": "draft: Draft; review: In review; published: Published.",
        },
    ),
]


@pytest.mark.parametrize(("hint", "schema"), TABLE, ids=[str(hint) for hint, _ in TABLE])
def test_model_schema_is_that_of_its_key(hint: Any, schema: Any, settings: Any) -> None:
    assert schema_of(hint, settings) == schema


@isolate_apps("testproject.newsroom")
def test_schema_follows_the_kind_of_key(settings: Any) -> None:
    class Ticket(models.Model):
        id = models.UUIDField(primary_key=True)

        class Meta:
            app_label = "newsroom"

    class Press(Section):
        class Meta:
            app_label = "newsroom"

    uuid = {"type": "string", "format": "uuid", "description": "The id of a ticket."}
    assert schema_of(Ticket, settings) == uuid
    linked = {"type": "integer", "description": "The section id of a press."}
    assert schema_of(Press, settings) == linked

    class Printer(Press):
        class Meta:
            app_label = "newsroom"

    assert schema_of(Printer, settings)["description"] == "The section id of a printer."


@isolate_apps("testproject.newsroom")
def test_composite_key_is_reported(settings: Any) -> None:
    class Seat(models.Model):
        pk = models.CompositePrimaryKey("row", "number")
        row = models.IntegerField()
        number = models.IntegerField()

        class Meta:
            app_label = "newsroom"

    serve(settings, taking(Seat))
    assert "'value'" in messages("mcp_bridge.E006")[0]


def test_docstring_precedes_the_description_of_the_type(settings: Any) -> None:
    def move(section: Group, state: Article.Status | None = None) -> str:
        """
        Move.

        :param section: where to
        :param state: only this!
        """
        return "moved"

    serve(settings, move)
    properties = served("move").input_schema["properties"]
    assert properties["section"]["description"] == "where to. The id of a group."
    assert properties["state"]["description"].startswith("only this! draft: Draft;")


def test_labels_are_in_the_language_of_the_site(settings: Any) -> None:
    with override("de"):
        assert "Draft" in schema_of(Article.Status, settings)["description"]


@pytest.mark.parametrize(
    ("hint", "sent", "received"),
    [
        (Group, "pk", "<Group: readers>"),
        (Group | None, None, "None"),
        (Group | None, "pk", "<Group: readers>"),
        (Named, "readers", "<Group: readers>"),
        (list[Named], ["writers", "readers"], "[<Group: writers>, <Group: readers>]"),
        (list[Named], ["writers", "writers"], "[<Group: writers>, <Group: writers>]"),
        (list[Group], [], "[]"),
        (dict[str, Named], {"a": "readers"}, "{'a': <Group: readers>}"),
        (Article.Status, "draft", "Article.Status.DRAFT"),
        (Annotated[Named, AfterValidator(lambda group: group.name)], "readers", "'readers'"),
    ],
)
def test_instances_are_received(
    hint: Any, sent: Any, received: str, groups: Any, modern: CheckedClient, settings: Any
) -> None:
    value = groups[0].pk if sent == "pk" else sent
    assert taken(hint, value, modern, settings) == received


@pytest.mark.parametrize(
    ("hint", "sent", "expected"),
    [
        (Group, 2**31 - 1, [("/value", "not_found")]),
        (Group, "1", [("/value", "int_type")]),
        (Group, True, [("/value", "int_type")]),
        (Group, 2**70, [("/value", "not_found")]),
        (list[Group], [2**70], [("/value/0", "not_found")]),
        (Named, "Readers", [("/value", "not_found")]),
        (Named, "a\0b", [("/value", "nul")]),
        (Named, "a" * 151, [("/value", "string_too_long")]),
        (list[Named], ["x", "readers", "y"], BOTH),
        (dict[str, list[Named]], {"a": ["readers", "x"]}, [("/value/a/1", "not_found")]),
        (Annotated[list[Named], MaxLen(1)], ["x", "y"], [("/value", "too_long")]),
    ],
)
def test_missing_instance_is_an_argument_error_with_path(
    hint: Any, sent: Any, expected: Any, groups: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    assert errors_of(modern.call_tool("take", {"value": sent})) == expected


def test_not_found_is_reported_beside_other_errors(modern: CheckedClient, settings: Any) -> None:
    def move(one: Group, other: Named, count: int) -> str:
        """Move."""
        return "moved"

    serve(settings, move)
    result = modern.call_tool("move", {"one": 5, "other": "{x}", "count": "3"})
    assert text_of(result).splitlines() == [
        "/count: Input should be a valid integer",
        "/one: There is no group with the id 5",
        "/other: There is no group with the name '{x}'",
    ]


def test_list_takes_one_query(groups: Any, modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(list[Group]))
    check = served("take").check
    with CaptureQueriesContext(connection) as queries:
        check({"value": [group.pk for group in groups]})
    assert len(queries) == 1


@pytest.mark.django_db(transaction=True)
def test_instances_are_found_under_asgi(settings: Any) -> None:
    async def take(value: Named) -> str:
        """Take a group."""
        return f"{value!r}"

    Group.objects.create(name="readers")
    serve(settings, take, asynchronous=True)
    client = async_caller(LATEST.version)
    assert text_of(client.call_tool("take", {"value": "readers"})) == "<Group: readers>"
    assert errors_of(client.call_tool("take", {"value": "x"})) == [("/value", "not_found")]


@dataclass
class Membership:
    user: Annotated[User, Lookup("first_name")]


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[User, Lookup("first_name")],
        Annotated[User, Lookup("first_name")] | None,
        Annotated[list[User], Lookup("first_name")],
        dict[str, Annotated[User, Lookup("first_name")]],
        Membership,
    ],
)
def test_non_unique_lookup_is_refused_at_start(hint: Any, settings: Any) -> None:
    serve(settings, taking(hint))
    (message,) = messages("mcp_bridge.E006")
    assert "User.first_name is not unique, so it cannot identify instances" in message
    assert names() == []


def test_lookup_of_an_unknown_field_is_refused_at_start(settings: Any) -> None:
    serve(settings, taking(Annotated[User, Lookup("no_such_field")]))
    assert "no_such_field" in messages("mcp_bridge.E006")[0]


@dataclass
class Owned:
    by: AbstractUser | None


@pytest.mark.parametrize(
    "hint",
    [
        AbstractUser,
        AbstractUser | None,
        list[AbstractUser],
        Annotated[AbstractUser, Lookup("username")],
        dict[str, AbstractUser],
        Owned,
    ],
)
def test_abstract_models_are_refused_at_start(hint: Any, settings: Any) -> None:
    serve(settings, taking(hint))
    [message] = messages("mcp_bridge.E006")
    assert "'value'" in message
    assert "AbstractUser is abstract and does not have rows" in message

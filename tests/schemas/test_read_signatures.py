"""Parameters of functions with decorators, partials, aliases and TypedDicts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    LiteralString,
    Never,
    NoReturn,
    NotRequired,
    Required,
    TypeVar,
)

import pytest
from pydantic import AliasChoices, Field
from typing_extensions import ReadOnly, TypedDict, Unpack

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import giving, messages, served, taking
from tests.support.values import label

pytestmark = pytest.mark.django_db

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
received: list[Any] = []


@pytest.fixture(autouse=True)
def emptied() -> None:
    received.clear()


def find(tenant: str, text: str, limit: int = 10) -> str:
    """Find articles."""
    received.append((tenant, text, limit))
    return text


def signed(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    signature = inspect.signature(function).replace(parameters=parameters)
    vars(function)["__signature__"] = signature


def with_tenant(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function("acme", *args, **kwargs)

    signed(wrapper, list(inspect.signature(function).parameters.values())[1:])
    return wrapper


def with_flag(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, loud: bool = False, **kwargs: Any) -> Any:
        received.append(loud)
        return function(*args, **kwargs)

    flag = inspect.Parameter("loud", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    signed(wrapper, [*inspect.signature(function).parameters.values(), flag])
    return wrapper


def by_number(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(text: int, limit: int = 10) -> Any:
        return function("acme", str(text), limit)

    first, *others = list(inspect.signature(function).parameters.values())[1:]
    signed(wrapper, [first.replace(annotation=int), *others])
    return wrapper


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


FREE = {"text": STRING, "limit": {**INTEGER, "default": 10}}


@pytest.mark.parametrize(
    "function",
    [
        with_tenant(find),
        logged(with_tenant(find)),
        with_tenant(logged(find)),
        functools.update_wrapper(functools.partial(find, "acme"), find),
        functools.update_wrapper(functools.partial(find, tenant="acme"), find),
        logged(functools.update_wrapper(functools.partial(logged(find), "acme"), find)),
    ],
)
def test_bound_arguments_are_not_parameters(
    function: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, function)
    [tool] = modern.list_tools()
    assert tool["inputSchema"]["properties"] == FREE
    assert tool["inputSchema"]["required"] == ["text"]
    assert modern.call_tool("find", {"text": "a", "limit": 2})["isError"] is False
    assert received[-1] == ("acme", "a", 2)
    assert modern.call_tool("find", {"text": "a", "tenant": "other"})["isError"] is True
    assert len(received) == 1


def test_bound_keywords_are_not_sent_by_other_keywords(
    modern: CheckedClient, settings: Any
) -> None:
    def search(text: str, **options: str) -> str:
        """Search."""
        return options["tenant"]

    def place(tenant: str, /, **options: str) -> str:
        """Place."""
        return tenant

    for function in (
        functools.partial(search, tenant="acme"),
        functools.partial(search, "a"),
        functools.partial(place, "acme"),
    ):
        serve(settings, functools.update_wrapper(function, function.func))
        name = function.func.__name__
        [bound] = {*function.keywords} or {"search": ["text"], "place": ["tenant"]}[name]
        answer = modern.call_tool(name, {bound: "other"})
        assert f"/{bound}: is filled by the server; leave it out" in text_of(answer)
    serve(settings, functools.update_wrapper(functools.partial(search, tenant="acme"), search))
    answer = modern.call_tool("search", {"text": "a", "tenant": "other"})
    assert text_of(answer) == "/tenant: is filled by the server; leave it out"
    assert text_of(modern.call_tool("search", {"text": "a"})) == "acme"


def test_parameters_added_by_a_signature_are_accepted(modern: CheckedClient, settings: Any) -> None:
    serve(settings, with_flag(find))
    [tool] = modern.list_tools()
    flag = {"type": "boolean", "default": False}
    assert tool["inputSchema"]["properties"] == {"tenant": STRING, **FREE, "loud": flag}
    modern.call_tool("find", {"tenant": "a", "text": "b", "loud": True})
    assert received == [True, ("a", "b", 10)]


def test_types_follow_the_changed_signature(modern: CheckedClient, settings: Any) -> None:
    serve(settings, by_number(find))
    [tool] = modern.list_tools()
    assert tool["inputSchema"]["properties"] == {**FREE, "text": INTEGER}
    modern.call_tool("find", {"text": 5})
    assert received == [("acme", "5", 10)]


class Options(TypedDict, total=False):
    text: Required[Annotated[str, "what to look for"]]
    limit: Annotated[int, Field(ge=1)]


class Mixed(TypedDict):
    text: ReadOnly[str]
    limit: NotRequired[ReadOnly[int]]
    from_: NotRequired[Annotated[str, Field(alias="from")]]


class Nothing(TypedDict):
    pass


T = TypeVar("T")


class Row(TypedDict, Generic[T]):
    item: T


def options(name: str, hint: Any) -> Callable[..., Any]:
    def take(a: int = 0, **options):  # type: ignore[no-untyped-def]
        """Take options."""
        received.append(options)

    take.__annotations__[name] = hint
    return take


@pytest.mark.parametrize(
    ("hint", "properties", "required", "sent", "taken"),
    [
        (
            Options,
            {
                "text": {**STRING, "description": "what to look for"},
                "limit": {**INTEGER, "minimum": 1},
            },
            ["text"],
            {"text": "a"},
            {"text": "a"},
        ),
        (
            Mixed,
            {"text": STRING, "limit": INTEGER, "from": STRING},
            ["text"],
            {"text": "a", "limit": 2, "from": "b"},
            {"text": "a", "limit": 2, "from_": "b"},
        ),
        (Nothing, {}, [], {}, {}),
    ],
)
def test_unpacked_members_are_parameters(
    hint: Any,
    properties: Any,
    required: list[str],
    sent: Any,
    taken: Any,
    modern: CheckedClient,
    settings: Any,
) -> None:
    serve(settings, options("options", Unpack[hint]))
    [tool] = modern.list_tools()
    schema = tool["inputSchema"]
    assert schema["properties"] == {"a": {**INTEGER, "default": 0}, **properties}
    assert schema.get("required", []) == required
    assert schema["additionalProperties"] is False
    assert modern.call_tool("take", sent)["isError"] is False
    assert received == [taken]
    assert modern.call_tool("take", {**sent, "other": 1})["isError"] is True
    assert all(modern.call_tool("take", {})["isError"] is True for _ in required)


@pytest.mark.parametrize("hint", [Unpack[Row[int]], Unpack[tuple[int]]])
def test_other_unpacked_types_are_refused(hint: Any, settings: Any) -> None:
    serve(settings, options("options", hint))
    assert "its parameter **options does not unpack a TypedDict" in messages("mcp_bridge.E006")[0]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (LiteralString, STRING),
        (list[LiteralString], {"type": "array", "items": STRING}),
        (LiteralString | None, {"anyOf": [STRING, {"type": "null"}]}),
        (Annotated[LiteralString, "a word"], {**STRING, "description": "a word"}),
        (dict[str, LiteralString], {"type": "object", "additionalProperties": STRING}),
    ],
    ids=label,
)
def test_literal_strings_are_strings(
    hint: Any, expected: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    [tool] = modern.list_tools()
    assert tool["inputSchema"]["properties"]["value"] == expected
    assert modern.call_tool("take", {"value": 5})["isError"] is True


@pytest.mark.parametrize(
    "hint",
    [[int], Never, NoReturn, (int, str), 5, list[[int]], dict[str, [int]], print],  # type: ignore[type-var]
    ids=repr,
)
# As on a site, warnings are not errors here.
@pytest.mark.filterwarnings("ignore")
def test_non_type_hints_are_refused_by_name(hint: Any, settings: Any) -> None:
    serve(settings, taking(hint))
    [message] = messages("mcp_bridge.E006")
    assert "the hint of 'value'" in message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("hint", [[int], {"a": int}], ids=repr)
def test_non_type_return_hints_are_refused(hint: Any, settings: Any) -> None:
    serve(settings, giving(hint, 1))
    assert "the return hint" in messages("mcp_bridge.E006")[0]


def test_functions_that_never_return_have_no_output_schema(settings: Any) -> None:
    serve(settings, giving(NoReturn, None))
    assert served("give").output_schema is None


def test_alias_is_the_parameters_name(modern: CheckedClient, settings: Any) -> None:
    def move(
        from_: Annotated[str, Field(alias="from", description="The old place.")],
        /,
        to: Annotated[str, Field(validation_alias="to-place")] = "here",
        *,
        class_: Annotated[Literal["a", "b"], Field(alias="class")] = "a",
    ) -> None:
        """Move it."""
        received.append((from_, to, class_))

    serve(settings, move, precheck=lambda to: received.append(to))
    assert "its precheck takes 'to'" in messages("mcp_bridge.E006")[0]

    def check(
        to: Annotated[str, Field(alias="to-place")],
        start: Annotated[str, Field(alias="from")],
    ) -> None:
        received.append((to, start))

    serve(settings, move, precheck=check)
    [tool] = modern.list_tools()
    assert tool["inputSchema"]["properties"] == {
        "from": {**STRING, "description": "The old place."},
        "to-place": {**STRING, "default": "here"},
        "class": {**STRING, "enum": ["a", "b"], "default": "a"},
    }
    assert modern.call_tool("move", {"from": "x", "class": "b"})["isError"] is False
    assert received == [("here", "x"), ("x", "here", "b")]
    answer = modern.call_tool("move", {"from_": "x"})
    assert "/from: is required" in text_of(answer)
    assert "known are from, to-place, class" in text_of(answer)


def test_own_name_of_an_alias_cannot_be_sent(modern: CheckedClient, settings: Any) -> None:
    def move(from_: Annotated[int, Field(alias="from")], **others: Any) -> None:
        """Move it."""
        received.append(from_)

    serve(settings, move)
    assert modern.call_tool("move", {"from": 1, "from_": "x"})["isError"] is True
    assert modern.call_tool("move", {"from": 1, "other": "x"})["isError"] is False
    assert received == [1]


@pytest.mark.parametrize(
    ("alias", "why"),
    [
        (Field(validation_alias=AliasChoices("b", "c")), "has a complex alias"),
        (Field(alias="other"), "the same name or alias"),
    ],
)
def test_ambiguous_or_empty_aliases_are_refused(alias: Any, why: str, settings: Any) -> None:
    def take(value, other):  # type: ignore[no-untyped-def]
        """Take both."""

    take.__annotations__ = {"value": Annotated[int, alias], "other": int}
    serve(settings, take)
    assert why in messages("mcp_bridge.E006")[0]


def test_field_as_default_configures_the_parameter(modern: CheckedClient, settings: Any) -> None:
    def find(
        least: int = Field(gt=3),
        word: str = Field("x", alias="see", description="A word."),
        many: list[int] = Field(default_factory=list),  # noqa: B008
        size: Annotated[int, Field(le=9)] = Field(5, description="Pages."),
    ) -> None:
        """Find it."""
        received.append((least, word, many, size))

    serve(settings, find)
    [tool] = modern.list_tools()
    schema = tool["inputSchema"]
    assert schema["required"] == ["least"]
    assert schema["properties"]["least"] == {"type": "integer", "exclusiveMinimum": 3}
    assert schema["properties"]["see"] == {**STRING, "default": "x", "description": "A word."}
    size = {"type": "integer", "maximum": 9, "default": 5, "description": "Pages."}
    assert schema["properties"]["size"] == size
    assert modern.call_tool("find", {"least": 4})["isError"] is False
    assert modern.call_tool("find", {"least": 5, "see": "y", "many": [1]})["isError"] is False
    assert received == [(4, "x", [], 5), (5, "y", [1], 5)]
    for wrong in ({}, {"least": 3}, {"least": 4, "size": 10}, {"least": 4, "word": "y"}):
        assert modern.call_tool("find", wrong)["isError"] is True

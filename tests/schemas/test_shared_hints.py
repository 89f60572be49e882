"""A hint is read once for all tools that have it, and tools do not affect each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from mcp_bridge.calls.arguments import typed_checker
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.registry.registry import registry
from mcp_bridge.schemas import Inputs, Outputs, Signature
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import giving, messages, served, taking

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def unread() -> None:
    # So that a test's own tools are the first to have their hints.
    registry.reload()


def input_schema(hint: Any) -> Any:
    return Inputs(Signature.of(taking(hint))).schema["properties"]["value"]


SAME_TO_PYTHON: list[tuple[Any, Any, Any, Any]] = [
    (int | str, str | int, ["integer", "string"], ["string", "integer"]),
    (Literal["a", "b"], Literal["b", "a"], ["a", "b"], ["b", "a"]),
    (list[int | None], list[None | int], None, None),
    (Annotated[float, Field(ge=1)], Annotated[float, Field(ge=1.5)], 1, 1.5),
]


def told(schema: Any) -> Any:
    branches = [each.get("type") for each in schema.get("anyOf", ())]
    return branches or schema.get("enum") or schema.get("minimum")


@pytest.mark.parametrize(("one", "other", "of_one", "of_other"), SAME_TO_PYTHON)
def test_hints_equal_in_python_are_read_separately(
    one: Any, other: Any, of_one: Any, of_other: Any
) -> None:
    assert (told(input_schema(one)), told(input_schema(other))) == (of_one, of_other)
    assert (told(input_schema(one)), told(input_schema(other))) == (of_one, of_other)
    results = [Outputs(each).schema for each in (one, other)]
    assert [told(each["properties"]["result"]) for each in results if each] == [of_one, of_other]


@dataclass
class Window:
    """A span of days."""

    days: int
    notes: list[str] = field(default_factory=list)


def test_names_defaults_and_texts_are_not_shared() -> None:
    def first(size: int, window: Window | None = None) -> None:
        """
        Do.

        :param size: How many.
        """

    def second(count: int = 3, size: int = 5, window: Window | None = None) -> None:
        """
        Do.

        :param count: How often.
        :param window: When.
        """

    def third(size: int, count: int | None = None) -> None:
        """Do."""

    for _ in range(2):
        shown = [Inputs(Signature.of(each)).schema for each in (first, second, third)]
        assert [list(each["properties"]) for each in shown] == [
            ["size", "window"],
            ["count", "size", "window"],
            ["size", "count"],
        ]
        sizes = [each["properties"]["size"] for each in shown]
        assert sizes == [
            {"type": "integer", "description": "How many."},
            {"type": "integer", "default": 5},
            {"type": "integer"},
        ]
        windows = [each["properties"]["window"]["description"] for each in shown[:2]]
        assert windows == ["A span of days.", "When."]
        assert [each.get("required") for each in shown] == [["size"], None, ["size"]]


Bounded = Annotated[int, Field(ge=1, le=9, description="From 1 to 9.", title="Level")]
DESCRIBED = {"type": "integer", "maximum": 9, "minimum": 1}
TEXTS = {"title": "Level", "description": "From 1 to 9."}


def test_field_keywords_follow_the_default_as_in_pydantic() -> None:
    def first(value: Bounded) -> None: ...

    def second(value: Bounded = 4) -> None: ...

    for _ in range(2):
        one, other = (Inputs(Signature.of(each)).schema for each in (first, second))
        assert list(one["properties"]["value"].items()) == [*DESCRIBED.items(), *TEXTS.items()]
        shown = list(other["properties"]["value"].items())
        assert shown == [*DESCRIBED.items(), ("default", 4), *TEXTS.items()]
        assert (one.get("required"), other.get("required")) == (["value"], None)


Defaulted = Annotated[int, Field(default=7)]


def test_parameter_default_overrides_that_of_the_hint() -> None:
    def own(value: Defaulted = 2) -> None: ...

    def hinted(value: Defaulted) -> None: ...

    for _ in range(2):
        shown = [Inputs(Signature.of(each)).schema["properties"] for each in (own, hinted)]
        assert [each["value"]["default"] for each in shown] == [2, 7]
        values = [typed_checker(Inputs(Signature.of(each)))({}) for each in (own, hinted)]
        assert values == [{}, {"value": 7}]


@pytest.mark.parametrize("times", [1, 2])
def test_arguments_are_validated_by_shared_and_local_constraints(times: int) -> None:
    def book(window: Window, size: Bounded, again: Window, rest: Defaulted, tags: set[str]) -> None:
        """Book."""

    for _ in range(times):
        check = typed_checker(Inputs(Signature.of(book)))
        given = {"window": {"days": 1}, "size": 2, "again": {"days": 2, "notes": []}, "tags": ["a"]}
        expected = {"window": Window(1), "size": 2, "again": Window(2), "rest": 7, "tags": {"a"}}
        assert check(given) == expected
        with pytest.raises(InvalidArguments) as raised:
            check({**given, "size": 10, "again": {"days": "2"}, "tags": ["a", "a"], "more": 1})
        paths = [each.path for each in raised.value.errors]
        assert sorted(paths) == ["/again/days", "/more", "/size", "/tags"]


class Told:
    """A type whose schema depends on the time it is read."""

    words = "before"
    error: Exception | None = None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Any) -> Any:
        if cls.error is not None:
            raise cls.error
        return handler(Literal[cls.words])


def test_type_is_read_again_with_the_sources(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(settings, taking(Told), giving(Told, "after"))
    assert "before" in str(served("take").input_schema)
    assert "before" in str(served("give").output_schema)
    monkeypatch.setattr(Told, "words", "after")
    registry.reload()
    assert "after" in str(served("take").input_schema)
    assert "after" in str(served("give").output_schema)


@pytest.mark.parametrize("build", ["lazy", "eager"])
@pytest.mark.django_db
def test_broken_tool_is_reported_and_not_listed(
    build: str, settings: Any, user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Told, "error", ValueError("it has no words"))
    settings.MCP_BRIDGE = {"BUILD": build}
    serve(settings, taking(Told), giving(int, 1))
    client = CheckedClient(user=user)
    assert [tool["name"] for tool in client.list_tools()] == ["give"]
    (message,) = messages("mcp_bridge.E006")
    assert "take" in message
    assert "it has no words" in message
    with pytest.raises(MCPError, match="Unknown tool"):
        client.call_tool("take", {"value": "before"})


@pytest.mark.parametrize("build", ["lazy", "eager"])
def test_concurrent_first_calls_have_equal_answers(build: str, settings: Any) -> None:
    settings.MCP_BRIDGE = {"BUILD": build}

    def first(window: Window, tags: set[str]) -> Window:
        """Return the window."""
        return window

    for _ in range(5):
        serve(settings, first)
        registry.reload()
        tool, threads = served("first"), 8
        together = Barrier(threads)

        def call(number: int, tool: Any = tool, together: Any = together) -> object:
            together.wait(10)
            values = tool.check({"window": {"days": number}, "tags": []})
            return tool.encode(values["window"]).structured_content

        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(call, range(threads)))
        assert found == [{"days": number, "notes": []} for number in range(threads)]

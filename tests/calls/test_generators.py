"""Procedures that yield: the yielded values form one result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcp_bridge import ToolError
from mcp_bridge.protocol.content import ImageContent
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import served

IMAGE = {"type": "image", "data": "+/8=", "mimeType": "image/png"}


def pictures() -> Iterator[ImageContent]:
    """Yield pictures."""
    yield ImageContent(b"\xfb\xff", "image/png")
    yield ImageContent(b"\xfb\xff", "image/png")


async def pictures_later() -> AsyncIterator[ImageContent]:
    """Yield pictures."""
    for each in pictures():
        yield each


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("function", [pictures, pictures_later])
def test_all_yielded_blocks_are_sent(
    function: Any, asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, function, asynchronous=asynchronous)
    assert served(function.__name__).output_schema is None
    result = modern.call_tool(function.__name__)
    assert result["content"] == [IMAGE, IMAGE]
    assert "structuredContent" not in result


def numbers() -> Generator[int, None, None]:
    """Yield numbers."""
    yield from range(3)


async def numbers_later() -> AsyncIterator[int]:
    """Yield numbers."""
    for each in range(3):
        yield each


async def numbers_awaited() -> Iterable[int]:
    """Return what yields numbers."""
    return numbers_later()  # type: ignore[return-value]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("function", [numbers, numbers_later, numbers_awaited])
def test_yielded_values_are_a_list(
    function: Any, asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, function, asynchronous=asynchronous)
    result = modern.call_tool(function.__name__)
    assert result["structuredContent"] == {"result": [0, 1, 2]}
    schema = served(function.__name__).output_schema
    assert Draft202012Validator(schema).is_valid({"result": [0]})
    assert not Draft202012Validator(schema).is_valid({"result": ["0"]})


def refusing() -> Iterator[int]:
    """Yield a number, and no more."""
    yield 1
    raise ToolError("There is only one.")


async def refusing_later() -> AsyncIterator[int]:
    """Yield a number, and no more."""
    yield 1
    raise ToolError("There is only one.")


async def leaving() -> AsyncIterator[int]:
    """Yield a number, and leave."""
    yield 1
    raise SystemExit


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("function", "told"),
    [(refusing, "only one"), (refusing_later, "only one"), (leaving, "reference")],
)
def test_exception_between_yields_is_a_tool_error(
    function: Any, told: str, asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, function, asynchronous=asynchronous)
    assert told in text_of(modern.call_tool(function.__name__))

"""All six mistakes of one call are reported at once, for generated and explicit schemas."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.calls.test_arguments import errors_of


@dataclass
class Line:
    article: str
    amount: Annotated[int, Field(ge=1, le=9)]


def order(
    customer: str,
    lines: list[Line],
    note: Annotated[str, Field(max_length=100)] = "",
    copies: Annotated[int, Field(le=5)] = 1,
) -> str:
    """Take an order."""
    return customer


ORDER = {
    "type": "object",
    "properties": {
        "customer": {"type": "string"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "article": {"type": "string"},
                    "amount": {"type": "integer", "minimum": 1, "maximum": 9},
                },
            },
        },
        "note": {"type": "string", "maxLength": 100},
        "copies": {"type": "integer", "maximum": 5},
    },
    "required": ["customer", "lines"],
    "additionalProperties": False,
}
SIX_MISTAKES = {
    "lines": [{"article": "a", "amount": 1}, {"article": 7, "amount": 10}],
    "note": "n" * 5000,
    "copies": "2",
    "colour" + "r" * 5000: "red",
}
SIX = {
    "/colour" + "r" * 58 + "…": "leave it out",
    "/copies": "integer",
    "/customer": "is required",
    "/lines/1/amount": "9",
    "/lines/1/article": "string",
    "/note": "100",
}


@pytest.mark.parametrize("options", [{}, {"input_schema": ORDER}], ids=["hints", "by hand"])
def test_six_mistakes_are_six_lines_with_six_places(
    options: Any, client: CheckedClient, settings: Any
) -> None:
    serve(settings, order, **options)
    result = client.call_tool("order", SIX_MISTAKES)
    assert [path for path, _ in errors_of(result)] == list(SIX)
    for line, (path, words) in zip(text_of(result).splitlines(), SIX.items(), strict=True):
        assert line.startswith(f"{path}: ")
        assert words in line
        assert len(line) < 200
    assert not re.search(r"n{200}|r{200}", client.response.content.decode())

"""Defaults without a JSON form are omitted from the schema but still apply."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.values import label


@dataclass
class Bounds:
    most: float = math.inf
    least: float | None = -math.inf


class Limits(BaseModel):
    most: Annotated[float, Field(allow_inf_nan=True)] = math.nan


@dataclass
class Nested:
    bounds: list[float] = field(default_factory=list)
    of: dict[str, float] | None = None


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (float, math.inf),
        (float | None, -math.inf),
        (float, math.nan),
        (list[float], [1.0, math.inf]),
        (dict[str, list[float]], {"a": [math.nan]}),
        (Bounds, Bounds()),
        (Limits, Limits()),
        (Annotated[float, Field(description="At most.")], math.inf),
    ],
    ids=label,
)
def test_non_json_defaults_are_omitted(
    hint: Any, default: Any, modern: CheckedClient, settings: Any
) -> None:
    received: list[Any] = []

    def take(most=default, /):  # type: ignore[no-untyped-def]
        """Take a bound."""
        received.append(most)

    take.__annotations__ = {"most": hint}
    serve(settings, take)
    [tool] = modern.list_tools()
    assert "default" not in tool["inputSchema"]["properties"]["most"]
    assert "required" not in tool["inputSchema"]
    assert modern.call_tool("take")["isError"] is False
    assert received[0] is default


@pytest.mark.parametrize("hint", [Bounds, list[Bounds], Limits, Nested | Bounds], ids=label)
def test_non_json_defaults_of_members_are_omitted(
    hint: Any, modern: CheckedClient, settings: Any
) -> None:
    def take(value):  # type: ignore[no-untyped-def]
        """Take a value."""

    take.__annotations__ = {"value": hint}
    serve(settings, take)
    [tool] = modern.list_tools()
    assert "inf" not in str(tool["inputSchema"])
    assert "nan" not in str(tool["inputSchema"])
    value = [{}] if hint == list[Bounds] else {}
    assert modern.call_tool("take", {"value": value})["isError"] is False


def test_other_defaults_stay_in_the_schema(modern: CheckedClient, settings: Any) -> None:
    def take(most: float = 1.5, names: list[str] = ["a"]) -> None:  # noqa: B006
        """Take both."""

    serve(settings, take)
    [tool] = modern.list_tools()
    properties = tool["inputSchema"]["properties"]
    assert (properties["most"]["default"], properties["names"]["default"]) == (1.5, ["a"])

"""Classes of attrs and msgspec, through the endpoint."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from django.db.models import QuerySet

from mcp_bridge.schemas import Outputs
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.schemas import structures as st
from tests.support.processes import run_python

# The hint, the value sent, and the lines that refuse it.
REFUSED: list[tuple[Any, Any, list[str]]] = [
    (
        st.Branch,
        {"value": "1", "next": {"twigs": [{"value": None, "more": 1}]}},
        [
            "/value/next/twigs/0/more: is not a known member; leave it out",
            "/value/next/twigs/0/value: Input should be a valid integer",
            "/value/next/value: is required and was not sent",
            "/value/value: Input should be a valid integer",
        ],
    ),
    # The constructor's message, without its part for programs
    (st.Named, {"firstName": "a", "parent": {"firstName": "nobody"}}, ["somebody has to be named"]),
    (st.Item, {"name": "a", "count": 13}, ["/value: not_ validator child '<in_ validator"]),
    # A branch of a union is called by its class
    (st.Cat | st.Dog, {}, ["/value: as Cat: /type: is required", "or: as Dog: /type: is required"]),
]


@pytest.mark.parametrize(("hint", "value", "lines"), REFUSED)
def test_every_error_names_its_place(
    hint: Any, value: Any, lines: list[str], modern: CheckedClient, settings: Any
) -> None:
    def take(value):  # type: ignore[no-untyped-def]
        """Take a value."""

    take.__annotations__ = {"value": hint}
    serve(settings, take)
    answer = modern.call_tool("take", {"value": value})
    assert answer["isError"] is True
    for line in lines:
        assert line in text_of(answer)


def test_instances_round_trip(modern: CheckedClient, settings: Any) -> None:
    def send(shipment: st.Shipment, item: st.Item) -> list[st.Wrapped | st.Item]:
        """Send a shipment."""
        return [item, st.Wrapped(shipment, shipment.first)]

    serve(settings, send)
    answer = modern.call_tool(
        "send", {"shipment": {"first": {"value": 1}}, "item": {"name": "ab", "words": "x,y"}}
    )
    item, wrapped = answer["structuredContent"]["result"]
    assert (item["length"], item["words"], item["code"]) == (2, ["x", "y"], "x")
    assert wrapped["branch"] == {"value": 1, "next": None, "twigs": []}


def test_result_of_another_class_is_an_error(modern: CheckedClient, settings: Any) -> None:
    def give() -> st.Cat:
        """Give a cat."""
        return st.Dog()  # type: ignore[return-value]

    serve(settings, give)
    assert modern.call_tool("give")["isError"] is True


@attrs.define
class Shelf:
    box: Box | None
    # No hint of a result
    rows: QuerySet[Any]


@attrs.define
class Box:
    shelf: Shelf | None


def test_unreadable_nested_class_is_an_error() -> None:
    (shelf,) = Outputs(Shelf).errors
    (box,) = Outputs(Box).errors
    assert "QuerySet cannot be a result" in shelf
    assert box == shelf


@pytest.mark.alone
def test_tools_are_the_same_without_msgspec() -> None:
    tools = (
        "import sys, django; django.setup()\n"
        "from mcp_bridge.registry.registry import registry\n"
        "print([tool.name for tool in registry.discovered])\n"
    )
    found = run_python("-c", tools)
    assert len(found) > 20
    assert run_python("-c", f"import sys; sys.modules['msgspec'] = None\n{tools}") == found


def test_msgspec_is_not_imported_before_the_site_does() -> None:
    program = "import sys, django; django.setup(); print('msgspec' in sys.modules)"
    assert run_python("-c", program) == "False\n"

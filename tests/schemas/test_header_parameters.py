"""The effect of x-mcp-header on a schema, and schemas that must not have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from mcp.shared.inbound import find_invalid_x_mcp_header
from typing_extensions import TypedDict

from mcp_bridge.schemas import Inputs, McpHeader, Outputs, Signature, header_parameters
from mcp_bridge.testing.serving import serve
from tests.support.serving import messages, names, taking
from tests.support.values import label

pytestmark = pytest.mark.django_db


class Place(TypedDict):
    region: Annotated[str, McpHeader("Region")]
    street: str


@dataclass
class Tree:
    region: Annotated[str, McpHeader("Region")]
    children: list[Tree]


def schema_of(hint: Any) -> dict[str, Any]:
    return Inputs(Signature.of(taking(hint))).schema


# The schema


@pytest.mark.parametrize(
    ("hint", "more"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (bool, {"type": "boolean"}),
        (Literal["eu", "us"], {"type": "string", "enum": ["eu", "us"]}),
    ],
    ids=label,
)
def test_property_names_its_header(hint: Any, more: dict[str, Any]) -> None:
    schema = schema_of(Annotated[hint, McpHeader("Region")])
    assert schema["properties"]["value"] == {**more, "x-mcp-header": "Region"}
    assert header_parameters(schema) == {"Region": ("value",)}


def test_description_and_default_are_kept_beside_it() -> None:
    def take(zone: Annotated[int, McpHeader("Zone-Id"), "the zone"] = 0) -> None: ...

    assert Inputs(Signature.of(take)).schema["properties"]["zone"] == {
        "type": "integer",
        "description": "the zone",
        "default": 0,
        "x-mcp-header": "Zone-Id",
    }


def test_nested_property_can_have_a_header() -> None:
    schema = schema_of(Place)
    assert header_parameters(schema) == {"Region": ("value", "region")}
    assert find_invalid_x_mcp_header(schema) is None


def test_results_have_no_headers() -> None:
    assert "x-mcp-header" not in str(Outputs(Place).schema)


def test_property_can_be_named_like_the_keyword() -> None:
    assert header_parameters({"properties": {"x-mcp-header": {"type": "string"}}}) == {}


# Errors that prevent a tool from being served


def by_hand(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def named(name: Any, **more: Any) -> dict[str, Any]:
    return {"type": "string", "x-mcp-header": name, **more}


ILLEGAL: list[Any] = [
    *(by_hand(value=named(name)) for name in ("", "a b", "a:b", "a\r\nb", "é", "a/b", 5)),
    *(by_hand(value=named("A", type=kind)) for kind in ("number", "object", "array", "null")),
    by_hand(value=named("A", type=["string", "null"])),
    by_hand(value={"x-mcp-header": "A"}),
    by_hand(value=named("Region"), other=named("REGION")),
    by_hand(value=named("A"), other={"type": "object", "properties": {"b": named("a")}}),
    {**by_hand(value={}), "x-mcp-header": "A"},
    by_hand(value={"type": "array", "items": named("A")}),
    by_hand(value={"type": "array", "prefixItems": [named("A")]}),
    by_hand(value={"anyOf": [named("A"), {"type": "null"}]}),
    by_hand(value={"type": "object", "additionalProperties": named("A")}),
    by_hand(value={"type": "object", "patternProperties": {"a": named("A")}}),
    {**by_hand(value={"$ref": "#/$defs/a"}), "$defs": {"a": named("A")}},
    {**by_hand(value={}), "if": by_hand(value=named("A"))},
    {**by_hand(value={}), "allOf": [by_hand(value=named("A"))]},
]
# A token, but one that servers drop.
UNDERSCORE = by_hand(value=named("a_b"))


@pytest.mark.parametrize("schema", ILLEGAL, ids=label)
def test_official_client_drops_refused_tools(schema: Any) -> None:
    assert find_invalid_x_mcp_header(schema) is not None


@pytest.mark.requirement(
    "param.token",
    "param.unique",
    "param.primitive",
    "param.reachable",
    "param.not-empty",
    "param.no-controls",
)
@pytest.mark.parametrize("schema", [*ILLEGAL, UNDERSCORE], ids=label)
def test_schema_that_breaks_a_rule_is_refused(schema: Any, settings: Any) -> None:
    serve(settings, taking(Any), input_schema=schema)
    (message,) = messages("mcp_bridge.E006")
    assert names() == []
    assert "x-mcp-header" in message


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[str, McpHeader("a b")],
        Annotated[str | None, McpHeader("A")],
        Annotated[str, McpHeader("A")] | None,
        Annotated[float, McpHeader("A")],
        Annotated[list[str], McpHeader("A")],
        list[Annotated[str, McpHeader("A")]],
        dict[str, Annotated[str, McpHeader("A")]],
        Place | int,
        Place | None,
        Tree,
    ],
    ids=label,
)
def test_hint_that_breaks_a_rule_is_refused(hint: Any, settings: Any) -> None:
    serve(settings, taking(hint))
    (message,) = messages("mcp_bridge.E006")
    assert names() == []
    assert "x-mcp-header" in message

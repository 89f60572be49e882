"""The documents of ``mcp_tools --format``: OpenAPI, OpenRPC and Markdown."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from django.core.management import CommandError, call_command
from django.urls import path
from jsonschema import Draft7Validator, Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel, Field
from referencing import Registry
from referencing.jsonschema import DRAFT7, DRAFT202012
from rest_framework.test import APIClient

from mcp_bridge import mcp_tool
from mcp_bridge.testing.serving import route, serve
from tests.support.serving import set_tool
from tests.support.site import TOOLS
from tests.support.toolsets import serve_toolsets

FOLDER = Path(__file__).parent / "openrpc"


class Node(BaseModel):
    """A node of a tree."""

    value: int
    children: list[Node] = []


def walk(root: Node, depth: int = 1, order: Literal["up", "down|across"] = "up") -> Node:
    """
    Walk a tree.

    :param root: The tree,
        with its children.
    """
    return root


BY_HAND = {
    "type": "object",
    "$id": "https://example.com/by-hand.json",
    "properties": {
        "a/b ~": {"$ref": "#/definitions/word"},
        "self": {"$ref": "#"},
        "$ref": {"type": "string", "description": "Not a reference."},
        "any": True,
    },
    "definitions": {"word": {"type": "string"}},
    "required": ["a/b ~"],
}


def raw(**given: Any) -> str:
    """Take anything."""
    return repr(given)


def document(kind: str, *arguments: str) -> Any:
    """Return the printed document, parsed if it is JSON."""
    out = io.StringIO()
    call_command("mcp_tools", "--format", kind, *arguments, stdout=out, no_color=True)
    return out.getvalue() if kind == "markdown" else json.loads(out.getvalue())


def openapi(*arguments: str) -> dict[str, Any]:
    found = document("openapi", *arguments)
    OpenAPIV31SpecValidator(found).validate()
    return dict(found)


def openrpc(*arguments: str) -> dict[str, Any]:
    """Return the document, checked against the meta-schema of OpenRPC 1.3."""
    found = document("openrpc", *arguments)
    schemas = [
        json.loads((FOLDER / name).read_text()) for name in ("openrpc.json", "json-schema.json")
    ]
    resources = {each["$id"].rstrip("/"): DRAFT7.create_resource(each) for each in schemas}
    # The one refers to the other with and without a slash at its end.
    both = [(uri + end, each) for uri, each in resources.items() for end in ("", "/")]
    Draft7Validator(schemas[0], registry=Registry().with_resources(both)).validate(found)
    return dict(found)


def validator(found: dict[str, Any], reference: str) -> Draft202012Validator:
    """Return a validator by a schema of a document, in which all references must resolve."""
    registry = Registry().with_resource("urn:document", DRAFT202012.create_resource(found))
    return Draft202012Validator({"$ref": f"urn:document{reference}"}, registry=registry)


@pytest.fixture
def site(settings: Any) -> None:
    settings.MCP_BRIDGE = {"SERVER_INFO": {"name": "n", "version": "3", "title": "The library"}}
    serve(settings, walk, title="A walk")


def test_documents_of_all_tools_are_valid() -> None:
    assert {f"/tools/{name}" for name in TOOLS} <= openapi()["paths"].keys()
    assert set(TOOLS) <= {each["name"] for each in openrpc()["methods"]}
    assert all(f"## `{name}`" in document("markdown") for name in TOOLS)


def test_openapi_describes_the_addresses(site: None) -> None:
    found = openapi()
    assert found["info"] == {"title": "The library", "version": "3"}
    assert found["servers"] == [{"url": "/mcp"}]
    assert [*found["paths"]] == ["/tools/list", "/tools/describe", "/tools/walk"]
    operation = found["paths"]["/tools/walk"]["post"]
    assert (operation["operationId"], operation["summary"]) == ("walk", "A walk")
    assert operation["description"] == "Walk a tree."
    assert operation["security"] == [{"bearer": []}]


def test_references_of_recursive_schemas_resolve(site: None) -> None:
    for found in (openapi(), openrpc()):
        taken = validator(found, "#/components/schemas/walk.input")
        good = {"root": {"value": 1, "children": [{"value": 2}]}}
        assert taken.is_valid(good)
        assert not taken.is_valid({"root": {"value": 1, "children": [{"value": "x"}]}})
        given = validator(found, "#/components/schemas/walk.output")
        assert given.is_valid({"value": 1, "children": []})


def test_openapi_describes_what_rest_answers(site: None, user: Any) -> None:
    found, http = openapi(), APIClient()
    http.force_authenticate(user)
    base = found["servers"][0]["url"]
    answers = {
        "list/get": http.get(f"{base}/tools/list"),
        "describe/get": http.get(f"{base}/tools/describe?name=walk"),
        "walk/post": http.post(f"{base}/tools/walk", {"root": {"value": 1}}, format="json"),
    }
    for place, response in answers.items():
        schema = f"#/paths/~1tools~1{place}/responses/200/content/application~1json/schema"
        validator(found, schema).validate(response.json())
    refused = http.post(f"{base}/tools/walk", {}, format="json").json()
    schema = "#/components/responses/Problem/content/application~1problem+json/schema"
    validator(found, schema).validate(refused)


def test_openrpc_describes_how_tools_are_called(site: None) -> None:
    (method,) = openrpc()["methods"]
    assert method["x-mcp"] == {"method": "tools/call", "params": {"name": "walk"}}
    assert [(each["name"], each["required"]) for each in method["params"]] == [
        ("root", True),
        ("depth", False),
        ("order", False),
    ]


def test_schemas_given_by_hand_keep_their_references(settings: Any) -> None:
    serve(settings, raw, input_schema=BY_HAND)
    assert "/tools/raw" in openapi()["paths"]
    found = openrpc()
    taken = validator(found, "#/components/schemas/raw.input")
    assert taken.is_valid({"a/b ~": "x", "self": {"a/b ~": "y"}, "$ref": "#"})
    assert not taken.is_valid({"a/b ~": "x", "self": {"a/b ~": 1}})
    for each in found["methods"][0]["params"]:
        right, wrong = {"a/b ~": "x"}, 7
        known = validator({**found, "probe": each["schema"]}, "#/probe")
        assert known.is_valid(right if each["name"] == "self" else "x")
        assert known.is_valid(wrong) is (each["name"] == "any")


def test_markdown_has_a_table_of_parameters(site: None) -> None:
    assert document("markdown") == (
        "# The library\n\n## `walk`\n\n**A walk**\n\nWalk a tree.\n\n"
        "| Parameter | Type | Required | Default | Description |\n|---|---|---|---|---|\n"
        "| `root` | Node | yes |  | The tree, with its children. |\n"
        "| `depth` | integer |  | `1` |  |\n"
        '| `order` | `"up"`, `"down\\|across"` |  | `"up"` |  |\n'
    )


def test_markdown_names_types_of_parameters(settings: Any) -> None:
    def take(many: list[int] | None, some: Annotated[float, Field(description="A | B")]) -> str:
        """Take."""
        return ""

    def nothing() -> str:
        """Take nothing."""
        return ""

    serve(settings, take, nothing)
    text = document("markdown")
    assert "| `many` | array of integer or null | yes |  |  |" in text
    assert "| `some` | number | yes |  | A \\| B |" in text
    assert text.count("It does not take parameters.") == 1
    serve(settings, raw, input_schema=BY_HAND)
    text = document("markdown")
    assert "| `a/b ~` | word | yes |  |  |" in text
    assert "| `any` | any |  |  |  |" in text


def test_documents_have_what_the_caller_may_use(settings: Any, user: Any) -> None:
    @mcp_tool(permissions="auth.add_user")
    def secret() -> str:
        """Do something."""
        return ""

    @mcp_tool(public=True)
    def known() -> str:
        """Do something."""
        return ""

    toolsets = {"some": ["known"]}
    serve_toolsets(settings, toolsets, secret, known, mcp_tool(walk))
    assert openapi()["paths"].keys() >= {"/tools/secret", "/tools/known", "/tools/walk"}
    assert openapi("--user", user.username)["paths"].keys() & {"/tools/secret"} == set()
    some = openapi("--toolset", "some")
    assert [*some["paths"]][2:] == ["/tools/known"]
    assert some["servers"] == [{"url": "/mcp/some"}]
    assert some["paths"]["/tools/known"]["post"]["security"] == [{}, {"bearer": []}]
    set_tool("known", enabled=False)
    assert openrpc("--toolset", "some")["methods"] == []
    settings.MCP_BRIDGE |= {"RESOURCE": "https://example.com/mcp", "INSTRUCTIONS": "Be kind."}
    settings.MCP_BRIDGE = dict(settings.MCP_BRIDGE)
    assert openrpc("--toolset", "some")["servers"][0]["url"] == "https://example.com/mcp/some"
    assert openapi()["info"]["description"] == "Be kind."


def test_tools_with_the_names_of_views_are_omitted(settings: Any) -> None:
    def list() -> str:
        """List something."""
        return ""

    serve(settings, list)
    assert [*openapi()["paths"]] == ["/tools/list", "/tools/describe"]
    assert [each["name"] for each in openrpc()["methods"]] == ["list"]


def test_addresses_must_exist(settings: Any) -> None:
    settings.MCP_BRIDGE = {"REST": False}
    with pytest.raises(CommandError, match="'REST'] is False"):
        document("openapi")
    settings.MCP_BRIDGE = {}
    route(settings)
    settings.ROOT_URLCONF.urlpatterns = [path("x", lambda request: None)]
    with pytest.raises(CommandError, match="does not serve the MCP endpoint"):
        document("openrpc")

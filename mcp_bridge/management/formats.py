"""Documents that describe tools: OpenAPI (of REST), OpenRPC, and a reference in Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from django.core.management.base import CommandError
from django.urls import NoReverseMatch, reverse

from mcp_bridge.checks.urls import ADD_ADDRESS, NO_ADDRESS
from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.protocol import LATEST, JSONObject, JSONSchema
from mcp_bridge.registry.definitions import sent_definition
from mcp_bridge.schemas.walk import REFERENCES, change_subschemas

_SCHEMAS: Final = "#/components/schemas/"
_OBJECT, _STRING = {"type": "object"}, {"type": "string"}
_PROBLEMS: Final = dict.fromkeys(("4XX", "5XX"), {"$ref": "#/components/responses/Problem"})


def _object(*required: str, **properties: object) -> JSONSchema:
    return {**_OBJECT, "properties": properties, "required": [*required]}


def _array(items: JSONSchema) -> JSONSchema:
    return {"type": "array", "items": items}


_OPTIONAL: Final = {"structuredContent": _OBJECT, "isError": {"type": "boolean"}}
_RESULT: Final = _object("content", content=_array(_OBJECT), resultType=_STRING, **_OPTIONAL)
_ALWAYS: Final = dict.fromkeys(("type", "title", "detail", "code"), _STRING)
_PROBLEM: Final = _object(
    *_ALWAYS,
    **_ALWAYS,
    status={"type": "integer"},
    errors=_array(_object(pointer=_STRING, type=_STRING, detail=_STRING)),
    pending=_object("id", url=_STRING),
)


def openapi(tools: Iterable[Tool], toolset: str | None) -> str:
    """Return an OpenAPI 3.1 document of the REST addresses. Raises CommandError."""
    if not conf.REST:
        raise CommandError("MCP_BRIDGE['REST'] is False: these addresses are 404.")
    # The views of these names come first.
    tools = [tool for tool in tools if tool.name not in ("list", "describe")]
    page = _object("tools", tools=_array(_OBJECT), nextCursor={"type": ["string", "null"]})
    about = _object("tool", tool=_OBJECT)
    paths: dict[str, object] = {
        "/tools/list": _get("cursor", page, "Return a page of the tools that the caller may use."),
        "/tools/describe": _get("name", about, "Return one tool."),
    }
    for tool in tools:
        body = {"required": True, "content": _json({"$ref": f"{_SCHEMAS}{tool.name}.input"})}
        called = {"requestBody": body, "responses": _responses(_result_of(tool))}
        # Callers of a public tool do not need a credential.
        security: list[JSONObject] = [{}] * tool.access.public + [{"bearer": []}]
        described = {"operationId": tool.name, **_about(tool), "security": security}
        paths[f"/tools/{tool.name}"] = {"post": {**described, **called}}
    problem = {"description": "A problem", "content": _json(_PROBLEM, "application/problem+json")}
    components = {
        "schemas": _schemas(tools),
        "responses": {"Problem": problem},
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    about = {"openapi": "3.1.0", **_info(), "servers": [{"url": _address(toolset)}]}
    return _dumped(about, security=[{"bearer": []}], paths=paths, components=components)


def openrpc(tools: Iterable[Tool], toolset: str | None) -> str:
    """Return an OpenRPC document with a method for each tool. Raises CommandError."""
    tools = list(tools)
    methods = []
    for tool in tools:
        place, schema = f"{_SCHEMAS}{tool.name}.input/properties/", tool.input_schema
        needed = schema.get("required", ())
        params = [
            {"name": name, "required": name in needed, "schema": {"$ref": place + _pointer(name)}}
            for name in schema.get("properties", ())
        ]
        about = {"name": tool.name, **_about(tool), "paramStructure": "by-name", "params": params}
        about["result"] = {"name": "result", "schema": _result_of(tool)}
        # It is called by this method, with the params above as its arguments.
        about["x-mcp"] = {"method": "tools/call", "params": {"name": tool.name}}
        methods.append(about)
    servers = [{"name": "MCP", "url": _address(toolset)}]
    about = {"openrpc": "1.3.2", **_info(), "servers": servers}
    return _dumped(about, methods=methods, components={"schemas": _schemas(tools)})


def markdown(tools: Iterable[Tool], toolset: str | None) -> str:
    """Return a reference with a heading for each tool and a table of its parameters."""
    parts = [f"# {conf.server_title}", str(conf.INSTRUCTIONS or "")]
    for tool in tools:
        schema = sent_definition(tool, LATEST)["inputSchema"]
        title = "" if tool.title is None else f"**{tool.title}**"
        parts += [f"## `{tool.name}`", title, str(tool.description)]
        rows = []
        for name, each in schema.get("properties", {}).items():
            about = each if isinstance(each, Mapping) else {}
            needed = "yes" if name in schema.get("required", ()) else ""
            default = _code(about["default"]) if "default" in about else ""
            text = _cell(str(about.get("description", "")))
            rows.append(f"| `{name}` | {_words(each)} | {needed} | {default} | {text} |")
        head = "| Parameter | Type | Required | Default | Description |\n|---|---|---|---|---|"
        parts.append("\n".join([head, *rows]) if rows else "It does not take parameters.")
    return "\n\n".join(filter(None, parts))


FORMATS: Final[Mapping[str, Callable[[Iterable[Tool], str | None], str]]] = {
    "openapi": openapi,
    "openrpc": openrpc,
    "markdown": markdown,
}


def _dumped(about: JSONObject, **members: object) -> str:
    return json.dumps({**about, **members}, indent=2, ensure_ascii=False)


def _info() -> JSONObject:
    info = {"title": conf.server_title, "version": str(conf.server_info["version"])}
    return {"info": info | ({"description": str(conf.INSTRUCTIONS)} if conf.INSTRUCTIONS else {})}


def _address(toolset: str | None) -> str:
    """Return the address of the endpoint. Raises CommandError if it is not in the URLconf."""
    try:
        path = reverse("mcp" if toolset is None else f"mcp-toolset-{toolset}")
    except NoReverseMatch:
        raise CommandError(f"{NO_ADDRESS}. {ADD_ADDRESS}") from None
    return conf.resources.get(toolset, path)


def _about(tool: Tool) -> JSONObject:
    title = {} if tool.title is None else {"summary": str(tool.title)}
    return {**title, "description": str(tool.description)}


def _get(parameter: str, schema: JSONSchema, description: str) -> JSONObject:
    """Return the path of a GET with one parameter in its query."""
    taken = {"name": parameter, "in": "query", "required": parameter == "name", "schema": _STRING}
    responses = {**_responses(schema), "304": {"description": "The client's copy is current"}}
    return {"get": {"description": description, "parameters": [taken], "responses": responses}}


def _responses(schema: JSONSchema) -> dict[str, object]:
    return {"200": {"description": "The result", "content": _json(schema)}, **_PROBLEMS}


def _json(schema: JSONSchema, media_type: str = "application/json") -> JSONObject:
    return {media_type: {"schema": schema}}


def _result_of(tool: Tool) -> JSONSchema:
    """Return the schema of a tool's CallToolResult."""
    result = {"$ref": f"{_SCHEMAS}CallToolResult"}
    if tool.output_schema is None:
        return result
    structured = {"structuredContent": {"$ref": f"{_SCHEMAS}{tool.name}.output"}}
    return {"allOf": [result, _object(*structured, **structured)]}


def _schemas(tools: Iterable[Tool]) -> JSONObject:
    """Return the schemas of the tools, as sent, by their names in the document."""
    found: dict[str, JSONSchema] = {"CallToolResult": _RESULT}
    for tool in tools:
        definition = sent_definition(tool, LATEST)
        for name in definition.keys() & {"inputSchema", "outputSchema"}:
            key = f"{tool.name}.{name.removesuffix('Schema')}"
            # An "$id" would change the meaning of references.
            schema = {each: value for each, value in definition[name].items() if each != "$id"}
            found[key] = _moved(schema, _SCHEMAS + key)
    return dict(sorted(found.items()))


def _moved(schema: JSONSchema, place: str) -> JSONSchema:
    """Return a schema whose references to its root are to ``place``."""
    result = change_subschemas(schema, partial(_moved, place=place))
    for keyword in REFERENCES:
        target = result.get(keyword)
        if isinstance(target, str) and (target == "#" or target.startswith("#/")):
            result[keyword] = place + target[1:]
    return result


def _pointer(name: str) -> str:
    """Return a name as part of a JSON pointer in a URI."""
    return quote(name.replace("~", "~0").replace("/", "~1"), safe="~")


def _words(schema: Any) -> str:
    """Return the type of a schema in words."""
    if not isinstance(schema, Mapping):
        return "any"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if branches := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(map(_words, branches))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else ()):
        return ", ".join(map(_code, values))
    if "items" in schema:
        return f"array of {_words(schema['items'])}"
    kinds = schema.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _code(value: object) -> str:
    return _cell(f"`{json.dumps(value, ensure_ascii=False)}`")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

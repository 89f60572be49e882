"""
The converters that are Python packages, each called as its own MCP client calls it.

A function takes a tool definition, and returns the schema that the model's provider is sent, in the
words of JSON Schema.
"""

from __future__ import annotations

import copy
from typing import Any

Schema = dict[str, Any]


def mcp_tool(tool: Schema) -> Any:
    """Return the tool as the client's own library reads it."""
    from mcp.types import Tool

    return Tool.model_validate(copy.deepcopy(tool))


def openai(tool: Schema) -> Any:
    """Convert by structured outputs: ``strict`` function tools of the openai package."""
    from openai.lib._pydantic import _ensure_strict_json_schema

    schema = copy.deepcopy(tool["inputSchema"])
    made = _ensure_strict_json_schema(schema, path=(), root=schema)
    # The package itself passes these on, and the service refuses them.
    if path := next(_open_objects(made, ""), None):
        raise ValueError(f"{path} has additionalProperties, which strict mode does not allow")
    return made


def _open_objects(schema: Any, path: str) -> Any:
    if isinstance(schema, dict):
        if schema.get("additionalProperties", False) is not False:
            yield path or "/"
        for key, value in schema.items():
            yield from _open_objects(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from _open_objects(value, f"{path}/{index}")


def openai_agents(tool: Schema) -> Any:
    """Convert by MCP servers of the Agents SDK with convert_schemas_to_strict."""
    from agents.exceptions import UserError
    from agents.mcp.server import MCPServerStreamableHttp
    from agents.mcp.util import MCPUtil
    from agents.strict_schema import ensure_strict_json_schema

    server = MCPServerStreamableHttp({"url": "http://127.0.0.1/mcp"})
    made = MCPUtil.to_function_tool(mcp_tool(tool), server, convert_schemas_to_strict=True)
    if not made.strict_json_schema:
        try:
            ensure_strict_json_schema(copy.deepcopy(tool["inputSchema"]))
        except (UserError, TypeError) as error:
            raise ValueError(f"not strict: {error}") from error
    return made.params_json_schema


def anthropic(tool: Schema) -> Any:
    """Convert by the strict transform of the anthropic package."""
    from anthropic import transform_schema

    return transform_schema(copy.deepcopy(tool["inputSchema"]))


def google_genai(tool: Schema) -> Any:
    """Convert by MCP sessions given to google-genai as tools."""
    from google.genai._mcp_utils import mcp_to_gemini_tool

    (declaration,) = mcp_to_gemini_tool(mcp_tool(tool)).function_declarations
    return from_google(declaration.parameters)


def google_adk(tool: Schema) -> Any:
    """Convert by McpToolset of the Agent Development Kit."""
    from google.adk.tools.mcp_tool.mcp_tool import MCPTool

    class Sessions:
        """Placeholder of a connection: making a declaration needs none."""

    declaration = MCPTool(
        mcp_tool=mcp_tool(tool),
        mcp_session_manager=Sessions(),  # type: ignore[arg-type]
    )._get_declaration()
    if declaration.parameters_json_schema is not None:
        return declaration.parameters_json_schema
    return from_google(declaration.parameters)


def langchain_google_genai(tool: Schema) -> Any:
    """Convert by tools of langchain-mcp-adapters, bound to a Gemini model."""
    from langchain_google_genai._function_utils import convert_to_genai_function_declarations
    from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool

    made = convert_mcp_tool_to_langchain_tool(
        None, mcp_tool(tool), connection={"transport": "streamable_http", "url": "http://127.0.0.1"}
    )
    ((declaration,),) = (
        each.function_declarations for each in convert_to_genai_function_declarations([made])
    )
    return from_google(declaration.parameters)


def langchain_openai(tool: Schema) -> Any:
    """Convert by tools of langchain-mcp-adapters, bound to an OpenAI model with strict."""
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool

    made = convert_mcp_tool_to_langchain_tool(
        None, mcp_tool(tool), connection={"transport": "streamable_http", "url": "http://127.0.0.1"}
    )
    return convert_to_openai_tool(made, strict=True)["function"]["parameters"]


def litellm(tool: Schema) -> Any:
    """Convert by litellm's MCP client: an OpenAI tool."""
    from litellm.experimental_mcp_client.tools import transform_mcp_tool_to_openai_tool

    return transform_mcp_tool_to_openai_tool(mcp_tool(tool))["function"]["parameters"]


def litellm_anthropic(tool: Schema) -> Any:
    """Convert by litellm's MCP client: an Anthropic tool."""
    from litellm.experimental_mcp_client.tools import transform_mcp_tool_to_anthropic_tool

    return transform_mcp_tool_to_anthropic_tool(mcp_tool(tool))["input_schema"]


def litellm_gemini(tool: Schema) -> Any:
    """Convert by litellm's MCP client: an OpenAI tool, on its way to Gemini."""
    from litellm.llms.vertex_ai.common_utils import build_vertex_schema

    return lower(build_vertex_schema(copy.deepcopy(litellm(tool))))


def llama_index(tool: Schema) -> Any:
    """Convert by McpToolSpec of llama-index-tools-mcp: a pydantic model of the arguments."""
    from llama_index.core.tools.types import ToolMetadata
    from llama_index.tools.mcp import McpToolSpec

    spec = McpToolSpec(client=None)  # type: ignore[arg-type]
    model = spec.create_model_from_json_schema(tool["inputSchema"], model_name=tool["name"])
    metadata = ToolMetadata(name=tool["name"], description="", fn_schema=model)
    return metadata.to_openai_tool()["function"]["parameters"]


def pydantic_ai(tool: Schema) -> Any:
    """Convert by toolsets of pydantic-ai with a strict OpenAI model."""
    from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

    return OpenAIJsonSchemaTransformer(copy.deepcopy(tool["inputSchema"]), strict=True).walk()


def from_google(schema: Any) -> Any:
    """Return a Schema of google-genai in the words of JSON Schema."""
    if schema is None:
        return {"type": "object", "properties": {}}
    return lower(schema.model_dump(mode="json", by_alias=True, exclude_none=True))


def lower(schema: Any) -> Any:
    """Return OpenAPI's names of types as JSON Schema has them."""
    if isinstance(schema, list):
        return [lower(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema == {"nullable": True}:
        return {"type": "null"}
    made = {
        name: {key: lower(each) for key, each in value.items()}
        if name == "properties"
        else lower(value)
        if name not in ("enum", "default")
        else value
        for name, value in schema.items()
    }
    if isinstance(made.get("type"), str):
        made["type"] = made["type"].lower()
    return made

"""The methods of resources and prompts (MCP, "Resources" and "Prompts")."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final, NoReturn

from mcp_bridge.features import Context
from mcp_bridge.features.resources import Resource
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.protocol import ERRORS_KEY, RETRY_KEY, CallToolResult, JSONObject, Request, errors
from mcp_bridge.server.completion import complete
from mcp_bridge.server.methods import Endpoint, Methods, cacheable
from mcp_bridge.server.perform import call_feature
from mcp_bridge.server.tools import list_features


async def read_resource(endpoint: Endpoint, request: Request, context: Context) -> Any:
    """
    Return the contents of a resource (MCP, "Resources", "Reading resources").

    Raises ResourceNotFoundError, alike for a URI that is unknown, hidden, or without an object.
    """
    uri: Any = request.params.get("uri")
    try:
        result = await call_feature(endpoint, request, context)
    except errors.ResourceNotFoundError:
        raise errors.ResourceNotFoundError(uri) from None
    if not isinstance(result, CallToolResult):
        return result
    if result.is_error:
        code = context.scratch.get("error_code")
        if code == ErrorCode.INVALID:
            # The value of a variable, such as a text for a number.
            raise errors.ResourceNotFoundError(uri)
        _fail(result, code, errors.InternalError)
    contents = [{**each.members()["resource"], "uri": uri} for each in result.content]
    resource, _ = endpoint.snapshot.called(Resource.kind, uri)
    kept = {**cacheable(request.revision)}
    if kept and isinstance(resource, Resource) and resource.ttl is not None:
        kept["ttlMs"] = int(resource.ttl * 1000)
    return {"contents": contents, **kept, **({"_meta": result.meta} if result.meta else {})}


async def get_prompt(endpoint: Endpoint, request: Request, context: Context) -> Any:
    """
    Return the messages of a prompt (MCP, "Prompts", "Getting a prompt").

    Raises UnknownPromptError, and InvalidParamsError for arguments that are wrong or missing.
    """
    result = await call_feature(endpoint, request, context)
    if not isinstance(result, CallToolResult):
        return result
    if result.is_error:
        _fail(result, context.scratch.get("error_code"), errors.InvalidParamsError)
    prompt, _ = endpoint.snapshot.called("prompt", str(request.params["name"]))
    written = json.loads(result.to_json(request.revision))
    answer: dict[str, Any] = {"messages": written["content"]}
    if prompt is not None and str(prompt.description):
        answer["description"] = str(prompt.description)
    if request.revision.modern:
        answer["resultType"] = "complete"
    return answer | ({"_meta": result.meta} if result.meta else {})


def _fail(result: CallToolResult, code: object, of_caller: type[errors.ProtocolError]) -> NoReturn:
    """Raise the error of a result; ``of_caller`` is for one that its function meant for callers."""
    text = "\n".join(getattr(each, "text", "") for each in result.content)
    if code == ErrorCode.THROTTLED:
        raise errors.TooManyRequestsError(text, result.meta.get(RETRY_KEY))
    if code == ErrorCode.INVALID:
        data = {"errors": result.meta[ERRORS_KEY]} if ERRORS_KEY in result.meta else None
        raise errors.InvalidParamsError(f"Invalid params: {text}", data=data)
    raise (of_caller if code == ErrorCode.TOOL_ERROR else errors.InternalError)(text)


RESOURCES: Final[tuple[Methods, JSONObject]] = (
    {
        "resources/list": partial(list_features, "resource", "resources"),
        "resources/templates/list": partial(list_features, "resource", "resourceTemplates"),
        "resources/read": read_resource,
        "completion/complete": complete,
    },
    {"resources": {}, "completions": {}},
)
PROMPTS: Final[tuple[Methods, JSONObject]] = (
    {
        "prompts/list": partial(list_features, "prompt", "prompts"),
        "prompts/get": get_prompt,
        "completion/complete": complete,
    },
    {"prompts": {}, "completions": {}},
)

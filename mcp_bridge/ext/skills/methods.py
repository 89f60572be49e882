"""The methods of skills (MCP's extension Skills, ``io.modelcontextprotocol/skills``)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mcp_bridge.access.policy import may_discover
from mcp_bridge.ext.skills.folders import MANIFEST
from mcp_bridge.ext.skills.source import Skill
from mcp_bridge.features import Context
from mcp_bridge.protocol import JSONObject, Request, errors
from mcp_bridge.server.methods import Endpoint, Methods, cacheable
from mcp_bridge.server.perform import Call, check_scopes, find
from mcp_bridge.server.tools import list_features


async def get_skill(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """Return the entry of a skill. Raises ResourceNotFoundError for any other URI."""
    uri = request.params.get("uri")
    skill, path = await _skill_of(endpoint, uri, context)
    if path != MANIFEST:
        raise errors.ResourceNotFoundError(str(uri))
    return {"skill": skill.entry, **cacheable(request.revision)}


async def read_directory(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """Return the children of a folder of a skill. Raises ResourceNotFoundError for another URI."""
    uri = request.params.get("uri")
    within = f"{uri}/{MANIFEST}" if isinstance(uri, str) else uri
    try:
        skill, path = await _skill_of(endpoint, within, context)
    except errors.ResourceNotFoundError:
        raise errors.ResourceNotFoundError(str(uri)) from None
    folder, found = path.removesuffix(MANIFEST), dict[str, JSONObject]()
    for name, file in skill.folder.files.items():
        if name.startswith(folder):
            child, is_folder, _ = name.removeprefix(folder).partition("/")
            kind = "inode/directory" if is_folder else file.media_type
            entry = {"uri": skill.uri_of(folder + child), "name": child, "mimeType": kind}
            found[child] = entry if is_folder else {**entry, "size": file.size}
    if not found:
        raise errors.ResourceNotFoundError(str(uri))
    answer: dict[str, Any] = {"resources": [*found.values()]}
    return answer | ({"resultType": "complete"} if request.revision.modern else {})


async def _skill_of(endpoint: Endpoint, uri: object, context: Context) -> tuple[Skill, str]:
    """Return the skill that has a file's URI, for its caller, and the path of the file."""
    call = Call(uri, None, context, endpoint=endpoint, kind=Skill.kind)
    skill = await find(call)
    if not isinstance(skill, Skill) or not may_discover(context):
        raise errors.ResourceNotFoundError(str(uri))
    await check_scopes(call, skill)
    given: Any = call.arguments
    return skill, str(given["path"])


SKILLS: Final[tuple[Methods, JSONObject]] = (
    {
        "skills/list": partial(list_features, Skill.kind, "skills"),
        "skills/get": get_skill,
        "resources/directory/read": read_directory,
    },
    {"extensions": {"io.modelcontextprotocol/skills": {"directoryRead": True}}},
)

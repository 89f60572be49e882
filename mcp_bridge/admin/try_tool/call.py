"""Calls from the admin, and what somebody sees: the pipeline that MCP clients go through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest

import mcp_bridge
from mcp_bridge.access.confirmation.approval_queue import approve_own
from mcp_bridge.features.context import Context
from mcp_bridge.protocol import LATEST, Request, Result, answer
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.requests import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcp_bridge.server.server import MCPServer

_CLIENT: Final = {"name": "mcp_bridge admin", "version": mcp_bridge.__version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call came to: the CallToolResult, or a sentence that says why there is none."""

    result: Mapping[str, Any] | None = None
    refusal: str = ""


def call(
    tool_name: str, arguments: Mapping[str, Any], request: HttpRequest, *, confirmed: bool = False
) -> Outcome:
    """
    Call a tool as the user of the request, who must be allowed to like everybody else.

    ``confirmed`` says that this person has just read the arguments, and agreed.
    Raises ValueError or TypeError for arguments that are no JSON.
    """
    params = {
        "name": tool_name,
        "arguments": arguments,
        "_meta": {
            PROTOCOL_VERSION: LATEST.version,
            CLIENT_INFO: _CLIENT,
            CLIENT_CAPABILITIES: {},
        },
    }

    def handle(message: Request) -> Result:
        context = Context(
            user=request.user,
            request=request,
            revision=message.revision,
            client_info=message.client_info,
        )
        server = MCPServer()
        tool = server.snapshot.get(tool_name)
        if confirmed and tool and tool.options.confirm and server.policy.allows(tool, context):
            approve_own(tool, message.params["arguments"], context)
        return server.handle(message, context)

    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = json.loads(answer(encode(body), handle).body or b"{}")
    if "result" in reply:
        return Outcome(result=reply["result"])
    return Outcome(refusal=_explained(reply["error"]["message"]))


def _explained(message: str) -> str:
    if message.startswith("Unknown tool"):
        return (
            f"{message}. You may not use it, or it is switched off or waits for approval: all "
            "of these are answered as if there were no such tool."
        )
    return f"The call was refused before the tool ran. {message}"

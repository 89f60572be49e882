"""Calls from the admin, as every client's call is made."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import HttpRequest

import mcp_bridge
from mcp_bridge.access.confirmation import approve_own
from mcp_bridge.features import Client
from mcp_bridge.protocol import LATEST, JSONObject, ProtocolError, UnknownToolError
from mcp_bridge.protocol.jsonrpc import decode, encode
from mcp_bridge.server.server import MCPServer
from mcp_bridge.server.tools import call_named
from mcp_bridge.transports.http import context_of

_CLIENT: Final = Client(info={"name": "mcp_bridge admin", "version": mcp_bridge.__version__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call ended: with a CallToolResult, or with a sentence that says why there is none."""

    result: dict[str, Any] | None = None
    refusal: str = ""


def call(
    tool_name: str, arguments: JSONObject, request: HttpRequest, *, confirmed: bool = False
) -> Outcome:
    """
    Call a tool as the user of the request, who must be allowed to like everybody else.

    ``confirmed`` says that this person has just read the arguments, and agreed. Raises ValueError
    or TypeError for arguments that are not JSON.
    """
    context = replace(context_of(request), client=_CLIENT)
    server = MCPServer()
    try:
        sent = decode(encode(arguments))
        tool = server.snapshot.tools.get(tool_name)
        if confirmed and tool and tool.options.confirm and server.policy.allows(tool, context):
            approve_own(tool, sent, context)
        result = call_named(server, tool_name, sent, context)
        return Outcome(result=json.loads(result.to_json(LATEST)))
    except UnknownToolError as error:
        return Outcome(
            refusal=f"{error}. You may not use it, or it is switched off or waits for approval: "
            "all of these are answered as if there were no such tool."
        )
    except ProtocolError as error:
        return Outcome(refusal=f"The call was refused before the tool ran. {error}")

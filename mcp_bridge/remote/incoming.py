"""Read what a client sends to a remote server: its message, and the headers that are relayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.http import HttpRequest

from mcp_bridge.calls.interceptors import having, see_request
from mcp_bridge.features import Context
from mcp_bridge.outbound.client import Fields
from mcp_bridge.protocol import JSONObject, Request, errors, jsonrpc
from mcp_bridge.protocol.headers import header_value, parameter_headers
from mcp_bridge.protocol.requests import read_message
from mcp_bridge.protocol.text import quoted
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.schemas import header_parameters
from mcp_bridge.transports import http

# Headers that are relayed, beside those of MCP.
RELAYED: Final = ("accept", "content-type", "last-event-id", "traceparent")
# The members of JSON-RPC messages.
_MEMBERS: Final = {"jsonrpc", "id", "method", "params", "result", "error"}


def read(request: HttpRequest) -> tuple[bytes, JSONObject, Request | None]:
    """
    Return the body of a POST, its message, and the same as a request or notification.

    The last one is None for a response. Raises ProtocolError.
    """
    http.check_media(request)
    body = http.read_body(request)
    message = jsonrpc.decode(body)
    if isinstance(message, list):
        raise errors.InvalidRequestError(
            "Invalid request: a batch is not relayed; send one message per POST."
        )
    found = read_message(message, http.headers_of(request.META))
    if unknown := message.keys() - _MEMBERS:
        # Interceptors and records do not see it, and servers may read it.
        text = f"Invalid request: the member {quoted(min(unknown))} is not part of JSON-RPC."
        raise errors.InvalidRequestError(text)
    return body, message, found


async def changed_params(
    request: Request, message: JSONObject, context: Context
) -> JSONObject | None:
    """
    Show a client's message to the interceptors; return its params if they have changed them.

    Raises ProtocolError.
    """
    if not having("request"):
        return None
    before = jsonrpc.encode(message.get("params", {}))
    await see_request(request, context)
    return None if jsonrpc.encode(request.params) == before else request.params


def relayed_headers(
    given: Mapping[str, str], changed: JSONObject | None, server: RemoteServer
) -> Fields:
    """
    Return the headers of a client's request that are relayed, with names in lower case.

    ``changed`` are the params of its message if an interceptor has changed them: headers that
    mirror params are then those of the new ones, as far as the site knows the tool.
    """
    fields = Fields(
        {
            name.lower(): value
            for name, value in given.items()
            if name.lower() in RELAYED or name.lower().startswith("mcp-")
        }
    )
    if changed is not None:
        for name in [each for each in fields if each.startswith(("mcp-name", "mcp-param-"))]:
            del fields[name]
        named = changed.get("name", changed.get("uri"))
        row = server.tools.filter(remote_name=named, gone=False, reason="").first()
        known = {} if row is None else header_parameters(row.members["inputSchema"])
        fields |= parameter_headers(known, changed.get("arguments", {}))
        if named is not None:
            fields["mcp-name"] = header_value(str(named))
    return Fields({**fields, "Accept-Encoding": "identity"})

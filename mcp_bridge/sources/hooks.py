"""What a site's own function gives to be sent to another service beside a call."""

from __future__ import annotations

from mcp_bridge.features import ToolCall


def check_credential(call: ToolCall, name: str, value: str | bytes) -> None:
    """
    Raise ValueError, without the value, where a value to be sent holds the caller's credential.

    That is for this site alone (MCP, "Security Best Practices", "Token Passthrough").
    """
    request = call.context.request
    header = "" if request is None else request.META.get("HTTP_AUTHORIZATION", "")
    credential = header.partition(" ")[2].strip().encode()
    if credential and credential in (value.encode() if isinstance(value, str) else value):
        raise ValueError(
            f"the value of {name!r} holds the caller's own credential, which may not leave this "
            "site: send who calls, with a credential of the service's own"
        )

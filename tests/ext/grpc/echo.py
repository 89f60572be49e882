"""A small service of gRPC for the tests, and calls of its methods as tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from tests.support.protobuf import compiled, proto3

PUBLIC = "option (mcp_bridge.tool) = {public: true};"
READS = "option (mcp_bridge.tool) = {public: true, read_only: true};"
ECHO = """
    message Asked { int32 number = 1; string text = 2; }
    message Told { int32 number = 1; string text = 2; bytes data = 3; }
"""
SERVICE = f"""
    service Echo {{
      // Say it again.
      rpc Say(Asked) returns (Told) {{ {PUBLIC} }}
      // Look.
      rpc Look(Asked) returns (Told) {{ {READS} }}
      // Count.
      rpc Count(Asked) returns (stream Told) {{ {READS} }}
    }}
"""
DATA = compiled(proto3(ECHO, SERVICE))


def say(request: Any, sent: Any, context: Any) -> Any:
    return {"number": request.number, "text": sent.get("x-user", request.text)}


def count(request: Any, sent: Any, context: Any) -> Iterator[Any]:
    for number in range(request.number):
        yield {"number": number}


def told(name: str, **arguments: Any) -> str:
    """Return the error text that a model reads after a failed call."""
    result = CheckedClient().call_tool(name, arguments)
    assert result["isError"], result
    return text_of(result)


def structured(name: str, **arguments: Any) -> Any:
    result = CheckedClient().call_tool(name, arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]

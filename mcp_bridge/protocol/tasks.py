"""Tasks in place of results (MCP's extension Tasks, ``io.modelcontextprotocol/tasks``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from mcp_bridge.protocol.jsonrpc import JSONObject, encode
from mcp_bridge.protocol.revisions import Revision

# The name of the extension.
TASKS: Final = "io.modelcontextprotocol/tasks"


@dataclass(frozen=True, slots=True)
class CreateTaskResult:
    """A task in place of a result; ``task`` are its members."""

    task: JSONObject
    is_error: ClassVar[bool] = False

    def to_json(self, revision: Revision, server_meta: bytes = b"{}") -> bytes:
        """Return it as JSON text."""
        members = {"resultType": "task", **self.task}
        return encode(members)[:-1] + b',"_meta":' + server_meta + b"}"

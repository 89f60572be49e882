"""Tools that run only after a person has agreed, and clients that call them."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient

FORM = {"elicitation": {}}
YES = {"confirm": {"action": "accept", "content": {"confirm": True}}}
RUNS: list[Any] = []


def wipe(name: str, count: int = 1) -> str:
    """Wipe something."""
    RUNS.append((name, count))
    return f"{name} is wiped"


async def awipe(name: str) -> str:
    """Wipe something, in a coroutine."""
    return wipe(name)


def other(name: str) -> str:
    """Wipe something else."""
    RUNS.append(("other", name))
    return "wiped"


def call(client: CheckedClient, name: str = "wipe", **params: Any) -> dict[str, Any]:
    return client.post("tools/call", **{"name": name, "arguments": {"name": "all"}, **params})


def state_of(client: CheckedClient, **params: Any) -> str:
    """Return the state of a call whose user is asked."""
    result = call(client, **params)
    assert result["resultType"] == "input_required"
    return str(result["requestState"])


def refused(client: CheckedClient, state: Any, **params: Any) -> str:
    """Return the error of a repetition that is not believed; nothing runs, or runs again."""
    before = list(RUNS)
    with pytest.raises(MCPError) as raised:
        call(client, **{"inputResponses": YES, "requestState": state, **params})
    assert before == RUNS
    assert raised.value.error["code"] == -32602
    return str(raised.value)

"""A hidden tool is refused as an unknown name is, with the same work."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import sync_tool_settings
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.profiling import calls
from tests.support.serving import set_tool
from tests.support.values import dumps


def wipe(folder: str) -> str:
    """Wipe a folder."""
    return folder


HIDDEN = {
    "disabled": {"enabled": False},
    "withheld": {"fingerprint": "of another definition", "guarded": True},
}


@pytest.mark.parametrize("confirm", [False, True])
@pytest.mark.parametrize("reason", HIDDEN)
def test_a_hidden_tool_takes_the_work_of_an_unknown_name(
    reason: str, confirm: bool, settings: Any, user: Any
) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    serve(settings, wipe, confirm=confirm)
    sync_tool_settings(registry.discovered)
    set_tool("wipe", **HIDDEN[reason])
    client = CheckedClient(token=Token.objects.issue(user=user, name="t")[1])

    def work(name: str) -> tuple[int, list[str]]:
        """The function calls and the queries of a call."""
        body = client.message("tools/call", name=name, arguments={"folder": "a"})
        sent, headers = dumps(body), client.mirrored(body)
        with CaptureQueriesContext(connection) as asked:
            count, response = calls(lambda: client.send(sent, headers))
        assert response.json()["error"]["message"] == f"Unknown tool: {name}"
        return count, [query["sql"].partition(" ")[0] for query in asked]

    # The least of several: the first ones fill caches, and the garbage collector runs in any.
    found = [(work("wipe"), work("nope")) for _ in range(5)]
    hidden, unknown = map(min, zip(*found, strict=True))
    assert hidden == unknown
    codes = ToolCallRecord.objects.order_by("pk").values_list("error_code", flat=True)
    assert list(codes) == [reason, "unknown_tool"] * 5

"""A hidden tool is refused as an unknown name is, with the same work."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import include, path

from mcp_bridge import mcp_tool
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


@pytest.mark.off_lane
@pytest.mark.parametrize("confirm", [False, True])
@pytest.mark.parametrize("reason", HIDDEN)
def test_hidden_tool_takes_the_work_of_an_unknown_name(
    reason: str, confirm: bool, settings: Any, user: Any
) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    serve(settings, wipe, confirm=confirm)
    sync_tool_settings(registry.discovered)
    set_tool("wipe", **HIDDEN[reason])
    client = CheckedClient(token=Token.objects.issue(user=user, name="t")[1])

    def work(name: str) -> tuple[int, list[str]]:
        """Return the number of function calls, and the queries, of a call."""
        body = client.message("tools/call", name=name, arguments={"folder": "a"})
        sent, headers = dumps(body), client.mirrored(body)
        with CaptureQueriesContext(connection) as asked:
            count, response = calls(lambda: client.send(sent, headers))
        assert response.json()["error"]["message"] == f"Unknown tool: {name}"
        return count, [query["sql"].partition(" ")[0] for query in asked]

    # The least of several: the first round fills caches and inserts the rows that others count on,
    # and the garbage collector may run in any.
    found = [(work("wipe"), work("nope")) for _ in range(5)]
    hidden, unknown = map(min, zip(*found[1:], strict=True))
    assert hidden == unknown
    # Repetitions are counted in the first record.
    codes = ToolCallRecord.objects.order_by("pk").values_list("error_code", flat=True)
    assert list(codes) == [reason, "unknown_tool"]


def forbidden(name: str) -> Any:
    """Return a tool that the caller may not use."""

    def tool() -> None:
        """Do it."""
        raise AssertionError

    tool.__name__ = name
    return tool


NAMES = ["by_permission", "by_two_permissions", "by_group", "elsewhere", "switched_off", "unmarked"]


@pytest.fixture
def forbidding(settings: Any) -> None:
    """Serve tools that a caller may not use, each for another reason, beside one open to all."""
    settings.MCP_BRIDGE = {
        "STATE_MAX_AGE": 3600,
        "TOOLSETS": {"default": {"tools": ["by_*", "free", "switched_off"]}},
    }
    server = serve(settings, *map(forbidden, ["free", "by_group", "elsewhere", "switched_off"]))
    for name, permissions in (
        ("by_permission", "auth.add_group"),
        ("by_two_permissions", ["auth.add_user", "auth.change_user"]),
    ):
        server.register_procedure(mcp_tool(permissions=permissions)(forbidden(name)))
    sync_tool_settings(registry.discovered)
    set_tool("by_group").groups.add(Group.objects.create(name="others"))
    set_tool("switched_off", enabled=False)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("credential", ["none", "token", "token for a tool", "session"])
def test_forbidden_tool_takes_the_work_of_an_unknown_name(
    credential: str, asynchronous: bool, forbidding: None, user: Any, settings: Any
) -> None:
    if asynchronous:
        settings.ROOT_URLCONF.urlpatterns[-1:] = [path("", include("mcp_bridge.urls_async"))]
    tools = ["by_group"] if credential == "token for a tool" else None
    token = Token.objects.issue(user=user, name="t", tools=tools)[1]
    client = CheckedClient(token=token if credential.startswith("token") else None)
    if credential == "session":
        classes = ["rest_framework.authentication.SessionAuthentication"]
        settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "AUTHENTICATION_CLASSES": classes}
        client.http.force_login(user)

    def queries(name: str) -> list[str]:
        body = client.message("tools/call", name=name, arguments={})
        sent, headers = dumps(body), client.mirrored(body)
        with CaptureQueriesContext(connection) as asked:
            response = client.send(sent, headers)
        if credential != "none":
            assert response.json()["error"]["message"] == f"Unknown tool: {name}"
        # Without their parameters.
        return sorted(re.sub(r"'[^']*'|s?\d\w*", "?", query["sql"]) for query in asked)

    queries("warms up")
    unknown = queries("nope")
    assert [queries(name) for name in NAMES] == [unknown] * len(NAMES)
    if credential != "none":
        assert sum("auth_permission" in each for each in unknown) == 2

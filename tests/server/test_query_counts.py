"""The number of database queries of a request, for any number of tools."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mcp_bridge.models import ToolSetting
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token


def numbered(number: int) -> Any:
    def tool() -> int:
        """Say the number."""
        return number

    tool.__name__ = f"tool_{number:03}"
    return tool


@pytest.fixture
def secret(user: Any) -> str:
    """Return a token of a user who has a permission and is in a group."""
    user.user_permissions.add(Permission.objects.get(codename="add_user"))
    user.groups.add(Group.objects.create(name="editors"))
    return Token.objects.issue(user=get_user_model().objects.get(pk=user.pk), name="t")[1]


@pytest.mark.parametrize("count", [5, 500])
def test_token_request_takes_four_queries_and_its_record_two(
    count: int, secret: str, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    serve(settings, *(numbered(each) for each in range(count)), permissions="auth.add_user")
    # Half of them are limited to a group, so that the user's groups are read as well.
    limited = ToolSetting.objects.bulk_create(
        ToolSetting(name=f"tool_{each:03}", restricted=True) for each in range(0, count, 2)
    )
    Group.objects.get(name="editors").mcp_tools.add(*ToolSetting.objects.filter(name__in=limited))
    client = CheckedClient(token=secret)
    assert len(client.list_tools()) == count
    with CaptureQueriesContext(connection) as asked:
        assert len(client.list_tools()) == count
    assert len(asked) <= 4
    assert queries_of_a_call(client) <= 4 + 2


def queries_of_a_call(client: CheckedClient) -> int:
    with CaptureQueriesContext(connection) as asked:
        client.call_tool("tool_000")
    return len([each for each in asked if "SAVEPOINT" not in each["sql"]])


@pytest.mark.parametrize(
    ("audit", "read_only", "writes"),
    [({}, True, 1), ({}, False, 2), ({"ARGUMENTS": "full"}, False, 2), (None, False, 0)],
)
def test_records_are_added_to_four_queries(
    audit: Any, read_only: bool, writes: int, secret: str, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600, "AUDIT": audit}
    serve(settings, numbered(0), permissions="auth.add_user", read_only=read_only)
    client = CheckedClient(token=secret)
    client.call_tool("tool_000")
    assert queries_of_a_call(client) <= 4 + writes

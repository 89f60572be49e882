"""Who may list tools (DISCOVERY_PERMISSION), and addresses without a request."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Permission

from mcp_bridge.access.policy import context_for
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve

pytestmark = pytest.mark.django_db


def look() -> str:
    """Look."""
    return "seen"


def test_list_is_empty_without_the_permission(user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"DISCOVERY_PERMISSION": "auth.view_user"}
    serve(settings, look)
    assert CheckedClient(user=user).list_tools() == []
    assert not CheckedClient(user=user).call_tool("look")["isError"]
    user.user_permissions.add(Permission.objects.get(codename="view_user"))
    known = type(user).objects.get(pk=user.pk)
    assert [each["name"] for each in CheckedClient(user=known).list_tools()] == ["look"]
    settings.MCP_BRIDGE = {}
    assert [each["name"] for each in CheckedClient(user=user).list_tools()] == ["look"]


def test_addresses_without_a_request_are_those_of_the_resource(settings: Any) -> None:
    request: Any = context_for(AnonymousUser()).request
    assert request.build_absolute_uri("/a") == "/a"
    assert request.build_absolute_uri() == request.get_full_path()
    settings.MCP_BRIDGE = {"RESOURCE": "https://example.com/mcp"}
    assert request.build_absolute_uri("/a") == "https://example.com/a"

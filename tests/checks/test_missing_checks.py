"""System checks of permissions that do not exist and of sites without tools."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core import checks
from django.urls import path
from modernrpc.server import RpcServer

from mcp_bridge.testing.serving import route, serve
from tests.checks.test_checks import RPC, found, ids
from tests.support.serving import taking

unmarked = RpcServer()


@pytest.mark.parametrize(
    ("permission", "why", "meant"),
    [
        ("auth.chang_user", "no model declares", "auth.change_user"),
        ("delete_article", "lacks an app label", "newsroom.delete_article"),
        ("publish_article", "lacks an app label", "newsroom.publish_article"),
        (
            "newsrom.delete_article",
            "'newsrom' is not the label of an installed app",
            "newsroom.delete_article",
        ),
        (
            "testproject.newsroom.view_media",
            "'testproject' is not the label of an installed app",
            "newsroom.view_media",
        ),
        ("auth.publish_article", "no model declares", "newsroom.publish_article"),
        ("newsroom.fly_to_the_moon", "no model declares", None),
        ("qqq", "lacks an app label", None),
    ],
)
def test_w011_undeclared_permission(
    permission: str, why: str, meant: str | None, settings: Any
) -> None:
    serve(settings, taking(int), permissions=["auth.add_user", permission])
    (message,) = found()
    assert message.id == "mcp_bridge.W011"
    assert message.level == checks.WARNING
    assert f"'take' (tests/support/serving.py:{taking(int).__code__.co_firstlineno})" in message.msg
    assert repr(permission) in message.msg
    assert why in message.msg
    assert ("Did you mean" in str(message.hint)) is bool(meant)
    assert meant is None or f"Did you mean {meant!r}?" in str(message.hint)


def test_w011_accepts_permissions_declared_by_models(settings: Any) -> None:
    class UserInBrief(get_user_model()):  # type: ignore[misc]
        class Meta:
            proxy = True
            app_label = "newsroom"
            default_permissions = ("view", "praise")
            permissions = (("name_names", "May name names"),)

    declared = ["praise_userinbrief", "name_names", "publish_article", "add_comment"]
    try:
        serve(settings, taking(int), permissions=[f"newsroom.{each}" for each in declared])
        assert found() == []
        serve(settings, taking(int), permissions="newsroom.add_userinbrief")
        assert ids() == ["W011"]
    finally:
        del apps.all_models["newsroom"]["userinbrief"]
        apps.clear_cache()


def test_w011_can_be_silenced(settings: Any) -> None:
    settings.SILENCED_SYSTEM_CHECKS = ["mcp_bridge.W011"]
    serve(settings, taking(int), permissions="auth.made_by_hand")
    (message,) = found()
    assert message.is_silenced()


def test_w099_undeclared_permission_to_list_tools(settings: Any) -> None:
    settings.MCP_BRIDGE = {"DISCOVERY_PERMISSION": "auth.vew_user"}
    serve(settings, taking(int))
    (message,) = found()
    assert (message.id, message.level) == ("mcp_bridge.W099", checks.WARNING)
    assert "MCP_BRIDGE['DISCOVERY_PERMISSION'] is 'auth.vew_user', which no model" in message.msg
    assert "Did you mean 'auth.view_user'?" in str(message.hint)
    assert "add mcp_bridge.W099 to" in str(message.hint)
    settings.MCP_BRIDGE = {"DISCOVERY_PERMISSION": "auth.view_user"}
    assert ids() == []


def test_w012_no_server_in_the_urlconf(settings: Any) -> None:
    route(settings)
    (message,) = found()
    assert (message.id, message.level) == ("mcp_bridge.W012", checks.WARNING)
    assert "no RpcServer in the URLconf" in message.msg
    assert message.msg.startswith("MCP_BRIDGE['SOURCES']['rpc'] (the default) found no tools")
    assert "SOURCES" in str(message.hint)


def test_w012_servers_without_a_mark(settings: Any) -> None:
    server = RpcServer()
    server.register_procedure(taking(int))
    route(settings, path("rpc", server.view), path("async", server.async_view))
    (message,) = found()
    assert message.id == "mcp_bridge.W012"
    assert "1 RpcServer, but no JSON-RPC procedure" in message.msg
    assert "@mcp_tool" in str(message.hint)


@pytest.mark.parametrize(("servers", "number"), [([], 0), ([f"{__name__}.unmarked"], 1)])
def test_w012_named_servers_without_a_mark(servers: list[str], number: int, settings: Any) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {"rpc": {"BACKEND": RPC, "OPTIONS": {"servers": servers}}}}
    (message,) = found()
    assert message.id == "mcp_bridge.W012"
    assert f"{number} RpcServer" in message.msg


def test_w012_is_skipped_for_unexposed_marked_procedures(settings: Any) -> None:
    serve(settings, taking(int), exposed=False)
    assert found() == []

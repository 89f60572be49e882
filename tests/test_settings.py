from __future__ import annotations

import inspect
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from mcp_bridge.conf import Audit, Conf, conf
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from tests.support.serving import names
from tests.support.site import TOOLS

DEFAULTS: dict[str, Any] = {
    "INSTRUCTIONS": None,
    "SOURCES": {},
    "EXPOSE": "marked",
    "TOOL_NAME_STYLE": "underscore",
    "SCHEMA_STYLE": "full",
    "AUTHENTICATION_CLASSES": ["mcp_bridge.tokens.authentication.TokenAuthentication"],
    "RESOURCE": None,
    "AUTHORIZATION_SERVERS": [],
    "SCOPES": {},
    "TOOLSETS": {},
    "DEFAULT_SCOPES": [],
    "REQUIRE_AUDIENCE": True,
    "ALLOW_ANONYMOUS": None,
    "REST": True,
    "DISCOVERY_PERMISSION": None,
    "ACCESS_POLICY": "mcp_bridge.access.AccessPolicy",
    "NEW_TOOLS": "enabled",
    "APPROVE_DESTRUCTIVE": False,
    "STATE_MAX_AGE": 1,
    "AUDIT": {},
    "CONFIRMATION_MAX_AGE": 600,
    "LEGACY_ASK": False,
    "LEGACY_ASK_THREADS": 2,
    "SKILLS": {},
    "FOUR_EYES": False,
    "NOTIFY_HELD": [],
    "ALLOWED_ORIGINS": [],
    "ERROR_MAPPER": None,
    "INTERCEPTORS": [],
    "THROTTLE_CLASSES": ["mcp_bridge.access.throttling.ToolRateThrottle"],
    "THROTTLE_RATES": {},
    "THROTTLE_WITHOUT_CACHE": "open",
    "PAGE_SIZE": None,
    "PAGE_BYTES": 640 * 1024,
    "BUILD": "lazy",
    "CACHE_TTL": 300,
    "MAX_BODY_BYTES": 1024 * 1024,
    "MAX_RESULT_BYTES": 5 * 1024 * 1024,
    "CALL_TIMEOUT": None,
    "TASK_BACKEND": "default",
    "TASK_TTL": 3600,
    "PROGRESS_HEARTBEAT": 10,
    "REMOTE_SECRET_KEYS": [],
    "REMOTE_ALLOWED_HOSTS": [],
    "REMOTE_TOKEN_FOR": None,
    "MAX_CONCURRENT_CALLS": 20,
    "MAX_PROCESS_CALLS": 80,
    "MAX_PROCESS_REQUESTS": 10,
}


@pytest.fixture(autouse=True)
def default_settings(settings: Any) -> None:
    settings.MCP_BRIDGE = {}


KEYS = inspect.get_annotations(Conf)
DOCUMENTATION = (Path(__file__).parent.parent / "docs" / "reference" / "settings.md").read_text()


@pytest.mark.parametrize("key", KEYS)
def test_every_key_has_sentence_type_and_default(key: str) -> None:
    assert isinstance(vars(Conf)[key], cached_property)
    _, _, sentences = DOCUMENTATION.partition(f"### `{key}`\nDefault: ")
    assert sentences.partition("\n\n")[0].rstrip().endswith((".", ":"))
    assert KEYS[key]
    getattr(conf, key)


@pytest.mark.parametrize("key", KEYS)
def test_every_property_reads_the_key_of_its_name(key: str) -> None:
    with override_settings(MCP_BRIDGE={each: each for each in KEYS}):
        assert getattr(conf, key) == key


@pytest.mark.parametrize("key", DEFAULTS)
def test_defaults_are_the_expected_ones(key: str) -> None:
    assert getattr(conf, key) == DEFAULTS[key]


def test_defaults_apply_without_the_setting(settings: Any) -> None:
    del settings.MCP_BRIDGE
    assert {key: getattr(conf, key) for key in DEFAULTS} == DEFAULTS
    assert set(KEYS) - set(DEFAULTS) == {"SERVER_INFO"}


AUDIT = {
    "ARGUMENTS": "none",
    "WRITE": "together",
    "REQUIRED": False,
    "WRITE_AHEAD": False,
    "ERRORS": True,
    "MAX_ARGUMENTS_BYTES": 16384,
    "SENSITIVE_NAMES": (),
    "UNAUTHENTICATED": True,
}


@pytest.mark.parametrize("given", [None, {}, {"ANOTHER": 1}])
def test_audit_keys_have_documented_defaults(given: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": given}
    assert {key: getattr(conf.audit, key) for key in inspect.get_annotations(Audit)} == AUDIT
    for key, value in AUDIT.items():
        default = f'"{value}"' if isinstance(value, str) else value
        assert f"| `{key}` | `{default}` |" in DOCUMENTATION


@pytest.mark.parametrize("key", AUDIT)
def test_audit_key_is_read_when_used(key: str) -> None:
    with override_settings(MCP_BRIDGE={"AUDIT": {key: (mark := object())}}):
        assert getattr(conf.audit, key) is mark
    assert getattr(conf.audit, key) == AUDIT[key]


@pytest.mark.parametrize("key", DEFAULTS)
def test_value_is_read_when_used(key: str) -> None:
    with override_settings(MCP_BRIDGE={key: (mark := object())}):
        assert getattr(conf, key) is mark
    assert getattr(conf, key) == DEFAULTS[key]


def test_server_info_is_always_complete(modern: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"SERVER_INFO": {"name": "newsroom"}}
    (info,) = modern.post("tools/list")["_meta"].values()
    assert info["name"] == "newsroom"
    assert info["version"]


def test_page_size_applies_at_once(modern: CheckedClient) -> None:
    with override_settings(MCP_BRIDGE={"PAGE_SIZE": 2}):
        assert len(modern.post("tools/list")["tools"]) == 2
    assert len(modern.post("tools/list")["tools"]) == len(TOOLS)


def test_tool_name_style_applies_at_once(modern: CheckedClient) -> None:
    with override_settings(MCP_BRIDGE={"TOOL_NAME_STYLE": "dotted"}):
        assert "shop.orders.find" in names()
        assert text_of(modern.call_tool("shop.orders.find", {"limit": 1})) == '["None"]'
    with pytest.raises(MCPError, match="Unknown tool"):
        modern.call_tool("shop.orders.find")


def test_largest_body_applies_at_once(modern: CheckedClient) -> None:
    with override_settings(MCP_BRIDGE={"MAX_BODY_BYTES": 100}), pytest.raises(MCPError):
        modern.call_tool("echo", {"text": "x" * 100})
    assert modern.response.status_code == 413
    assert modern.call_tool("echo", {"text": "x" * 100})["isError"] is False


def test_urlconf_applies_at_once(settings: Any, modern: CheckedClient) -> None:
    assert "add" in names()
    with override_settings(ROOT_URLCONF="mcp_bridge.urls"):
        assert modern.list_tools() == []
    assert "add" in names()


def test_other_settings_do_not_rebuild_the_tools(settings: Any) -> None:
    before = registry.snapshot
    settings.TIME_ZONE = "Europe/Berlin"
    assert registry.snapshot is before
    settings.MCP_BRIDGE = {"PAGE_SIZE": 3}
    assert registry.snapshot is not before

"""The handshake of client and site: ``initialize`` and ``ping``, or ``server/discover``."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils.translation import gettext_lazy
from mcp_types.methods import validate_server_result

from mcp_bridge.protocol import SUPPORTED_VERSIONS
from tests.support import lane, wire
from tests.support.revisions import ERAS, LEGACY
from tests.support.wire import (
    accepted,
    answered,
    caller,
    compact,
    headers,
    message,
    refused,
    sentinel,
)

ME = {"name": "probe", "version": "1"}


def initialize(version: Any = "2025-11-25", header: str | None = None, **params: Any) -> Any:
    """Return the HTTP response to an initialize."""
    client = caller("2025-11-25")
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": ME, **params}
    text = compact(message(client, "initialize", **params))
    return client.send(text.encode(), {"MCP-Protocol-Version": header})


def discover() -> dict[str, Any]:
    return caller().post("server/discover")


@pytest.mark.requirement("initialize.same-version")
@pytest.mark.parametrize("version", LEGACY)
def test_supported_version_is_accepted(version: str) -> None:
    result = answered(initialize(version))
    assert result["protocolVersion"] == version
    validate_server_result("initialize", version, result)


@pytest.mark.requirement("initialize.other-version")
@pytest.mark.parametrize(
    "version", ["2026-07-28", "1900-01-01", "2099-12-31", "latest", "", " 2025-06-18", "x" * 10**5]
)
def test_other_versions_are_answered_with_the_latest_legacy(version: str) -> None:
    assert answered(initialize(version))["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("version.legacy")
@pytest.mark.parametrize("header", [None, *LEGACY, "2026-07-28", "1900-01-01", ""])
def test_initialize_ignores_the_version_header(header: str | None) -> None:
    assert answered(initialize("2025-03-26", header))["protocolVersion"] == "2025-03-26"


@pytest.mark.requirement("initialize.answered", "initialize.version-kept", "tools.capability")
@pytest.mark.parametrize("version", LEGACY)
def test_handshake_has_no_members_of_later_eras(version: str, settings: Any) -> None:
    settings.MCP_BRIDGE = {"SERVER_INFO": {"name": "site", "version": "3"}}
    response = initialize(version)
    assert answered(response) == {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "site", "version": "3"},
    }
    assert "Mcp-Session-Id" not in response.headers


def test_server_has_a_default_name_and_version(settings: Any) -> None:
    settings.MCP_BRIDGE = {}
    named = answered(initialize())["serverInfo"]
    assert all(isinstance(named[key], str) and named[key] for key in ("name", "version"))


def test_lazy_texts_of_the_setting_are_rendered(settings: Any) -> None:
    settings.MCP_BRIDGE = {
        "SERVER_INFO": {"name": gettext_lazy("Yes"), "version": "3"},
        "INSTRUCTIONS": gettext_lazy("No"),
    }
    result = answered(initialize())
    assert (result["serverInfo"]["name"], result["instructions"]) == ("Yes", "No")
    assert discover()["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "Yes"


@pytest.mark.parametrize("revision", ERAS)
def test_non_json_setting_is_a_json_error(revision: str, settings: Any) -> None:
    settings.MCP_BRIDGE = {"SERVER_INFO": {"name": "site", "version": object()}}
    client = caller(revision)
    method = "server/discover" if client.revision.modern else "initialize"
    body = compact(message(client, method, protocolVersion=revision)).encode()
    refused(client.send(body, headers(client, method)), 200, -32603, id=1)


def test_instructions_are_sent_in_both_eras(settings: Any) -> None:
    settings.MCP_BRIDGE = {"INSTRUCTIONS": "Ask first."}
    assert answered(initialize())["instructions"] == discover()["instructions"] == "Ask first."


@pytest.mark.parametrize("version", [None, 20251125, True, [], {}, ["2025-11-25"]])
def test_non_string_version_is_invalid(version: Any) -> None:
    refused(initialize(version), 200, -32602, id=1)


@pytest.mark.parametrize("member", ["capabilities", "clientInfo"])
@pytest.mark.parametrize("value", [None, [], "x", 1, True])
def test_client_info_must_be_an_object(member: str, value: Any) -> None:
    refused(initialize(**{member: value}), 200, -32602, id=1)


@pytest.mark.parametrize("params", [{}, {"protocolVersion": "2025-11-25"}])
def test_minimal_handshake_does_not_crash(params: dict[str, Any]) -> None:
    client = caller("2025-11-25")
    response = client.send(compact(message(client, "initialize", **params)).encode())
    answer = wire.strict(response.content)
    assert (response.status_code, "result" in answer) == (200, "protocolVersion" in params)


def test_unknown_members_are_tolerated() -> None:
    assert answered(initialize(capabilities={"x": {}, "roots": {}}, extra=[1], _meta={"a/b": 1}))


@pytest.mark.requirement("legacy.ping", "state.none-of-connections")
@pytest.mark.parametrize("version", LEGACY)
def test_ping_works_before_the_handshake(version: str) -> None:
    client = caller(version)
    response = client.send(compact(message(client, "ping", id="p")).encode(), headers(client))
    assert answered(response, id="p") == {}


@pytest.mark.requirement(
    "notification.unanswered", "http.notification-202", "legacy.posted", "legacy.cancelled"
)
@pytest.mark.parametrize("version", [*LEGACY, "2026-07-28", None])
@pytest.mark.parametrize(
    "method",
    ["notifications/initialized", "notifications/cancelled", "notifications/roots/list_changed"]
    + ["notifications/none", "initialize", "tools/list", "ping"],
)
def test_notification_is_accepted_and_never_answered(version: str | None, method: str) -> None:
    text = compact({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}})
    response = caller().send(text.encode(), {"MCP-Protocol-Version": version})
    accepted(response)
    assert "Mcp-Session-Id" not in response.headers


@pytest.mark.off_tasks
@pytest.mark.requirement(
    "discover.served",
    "discover.members",
    "tools.capability",
    "result.known-type",
    "meta.server-info",
    "cache.hints",
)
def test_discovery_lists_what_is_served() -> None:
    result = discover()
    assert result.pop("_meta")["io.modelcontextprotocol/serverInfo"]["name"]
    assert result == {
        "resultType": "complete",
        "supportedVersions": list(SUPPORTED_VERSIONS),
        # The lane is served under ASGI, where lists announce their changes.
        "capabilities": {"tools": {"listChanged": True} if lane.IS_ON else {}},
        "instructions": result["instructions"],
        "ttlMs": 300_000,
        "cacheScope": "private",
    }


@pytest.mark.requirement("cache.ttl")
@pytest.mark.parametrize(("seconds", "ttl"), [(0, 0), (60, 60_000), (0.5, 500), (1.0005, 1000)])
def test_time_to_live_is_an_integer_of_milliseconds(seconds: Any, ttl: int, settings: Any) -> None:
    settings.MCP_BRIDGE = {"CACHE_TTL": seconds}
    for result in (discover(), caller().post("tools/list")):
        assert (type(result["ttlMs"]), result["ttlMs"]) == (int, ttl)


@pytest.mark.requirement("meta.client-info-optional")
def test_discovery_requires_only_the_envelope() -> None:
    client = caller()
    text = compact({**message(client, "server/discover"), "params": {"_meta": wire.ENVELOPE}})
    assert answered(client.send(text.encode(), headers(client, "server/discover")))


@pytest.mark.requirement("http.unknown-method")
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/list", {}),
        ("prompts/get", {"name": "a"}),
        ("resources/list", {}),
        ("resources/read", {"uri": "a"}),
        ("resources/subscribe", {"uri": "a"}),
        ("resources/unsubscribe", {"uri": "a"}),
        ("resources/templates/list", {}),
        ("completion/complete", {}),
        ("logging/setLevel", {"level": "info"}),
        pytest.param("subscriptions/listen", {}, marks=pytest.mark.off_lane),
        ("tasks/list", {}),
    ],
)
def test_unsupported_methods_are_not_found(
    revision: str, method: str, params: dict[str, Any]
) -> None:
    client = caller(revision)
    sent = headers(client, method, Mcp_Name=sentinel("a"))
    response = client.send(compact(message(client, method, **params)).encode(), sent)
    refused(response, 404 if client.revision.modern else 200, -32601, id=1)


@pytest.mark.requirement("http.session-ignored", "security.no-session-auth")
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("session", ["fixed-by-another", "x" * 5000, "é", ""])
def test_sessions_are_neither_started_nor_adopted(revision: str, session: str) -> None:
    client = caller(revision)
    sent = headers(client, Mcp_Session_Id=session, Last_Event_ID="5")
    response = client.send(wire.good(client).encode(), sent)
    assert answered(response)["isError"] is False
    assert "Mcp-Session-Id" not in response.headers
    assert not response.cookies

"""One endpoint for both eras: a message's body and version header select the era."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support import wire
from tests.support.revisions import LEGACY
from tests.support.wire import ENVELOPE, accepted, answered, caller, compact, refused, strict

quiet = wire.quiet

MODERN = "2026-07-28"
UNKNOWN = "1900-01-01"
BOTH = f"{MODERN}, 2025-11-25"
ANY = [None, MODERN, *LEGACY, UNKNOWN]

LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def enveloped(version: Any = MODERN, **changes: Any) -> dict[str, Any]:
    """Return a request in a modern envelope; members of ``changes`` that are None are omitted."""
    meta = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": version}
    meta.update({f"io.modelcontextprotocol/{name}": value for name, value in changes.items()})
    kept = {name: value for name, value in meta.items() if value is not None}
    return {**LIST, "params": {"_meta": kept}}


INITIALIZE = {**LIST, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
RESPONSE = {"jsonrpc": "2.0", "id": 1, "result": {}}
BAD_IDS = (None, True, 1.5, [])

# The message sent, the versions in the header, and the era that answers or the refusal: status,
# code, and the echoed id.
TABLE: list[tuple[str, Any, list[str | None], Any]] = [
    ("no JSON", "{", ANY, (400, -32700, None)),
    ("batch", [LIST, NOTIFICATION], [None, "2025-03-26"], "batch"),
    ("batch", [LIST], [MODERN, "2025-11-25", "2025-06-18", UNKNOWN], (400, -32600, None)),
    ("batch with a modern element", [LIST, enveloped()], ANY, (400, -32600, None)),
    ("response", RESPONSE, [None, *LEGACY], "accepted"),
    ("response", RESPONSE, [MODERN], (400, -32600, 1)),
    ("response at an unknown version", RESPONSE, [UNKNOWN, BOTH], (400, -32600, 1)),
    ("notification", NOTIFICATION, [None, MODERN, *LEGACY], "accepted"),
    ("notification", NOTIFICATION, [UNKNOWN, BOTH, ""], (400, -32022, None)),
    *[(f"id {id}", {**LIST, "id": id}, ANY, (400, -32600, None)) for id in BAD_IDS],
    ("envelope", enveloped(), [MODERN, f" {MODERN}\t"], "modern"),
    ("envelope", enveloped(), [None, "", *LEGACY, UNKNOWN, BOTH], (400, -32020, 1)),
    ("unknown envelope", enveloped(UNKNOWN), [UNKNOWN], (400, -32022, 1)),
    ("unknown envelope", enveloped(UNKNOWN), [None, MODERN, "2025-11-25"], (400, -32020, 1)),
    ("legacy envelope", enveloped("2025-11-25"), ["2025-11-25"], (400, -32022, 1)),
    ("legacy envelope", enveloped("2025-11-25"), [None, MODERN], (400, -32020, 1)),
    ("envelope of a number", enveloped(20260728), [MODERN, None], (400, -32602, 1)),
    ("no capabilities", enveloped(clientCapabilities=None), [MODERN], (400, -32602, 1)),
    ("no capabilities", enveloped(clientCapabilities=None), [None, LEGACY[0]], (400, -32602, 1)),
    ("no version", enveloped(None), [MODERN], (400, -32602, 1)),
    ("no version", enveloped(None), [None, *LEGACY], "legacy"),
    *[
        (f"_meta of {meta}", {**LIST, "method": method, "params": {"_meta": meta}}, at, outcome)
        for method in ("tools/list", "tools/call", "ping")
        for meta in ([1], "x")
        for at, outcome in (([None, *LEGACY], (200, -32602, 1)), ([MODERN], (400, -32602, 1)))
    ],
    *[
        (f"{method}, {params} of null", {**LIST, "method": method, "params": params}, at, outcome)
        for method in ("tools/list", "ping")
        for params in (None, {"_meta": None}, {"cursor": None}, {"_meta": None, "cursor": None})
        for at, outcome in (([None, *LEGACY], "legacy"), ([MODERN], (400, -32602, 1)))
    ],
    ("params of null", {**LIST, "params": None}, [UNKNOWN, BOTH], (400, -32022, 1)),
    (
        "initialize with _meta of null",
        {**INITIALIZE, "params": {**INITIALIZE["params"], "_meta": None}},
        [None, *LEGACY, MODERN, UNKNOWN],
        "legacy",
    ),
    (
        "call with _meta of null",
        {**LIST, "method": "tools/call", "params": {"name": "ping_public", "_meta": None}},
        [None, *LEGACY],
        "legacy",
    ),
    (
        "cursor of null in an envelope",
        {**LIST, "params": {**enveloped()["params"], "cursor": None}},
        [MODERN],
        (200, -32602, 1),
    ),
    (
        "initialize with _meta of a text",
        {**INITIALIZE, "params": {**INITIALIZE["params"], "_meta": "x"}},
        [None, *LEGACY, MODERN],
        (200, -32602, 1),
    ),
    ("no envelope", LIST, [None, *LEGACY], "legacy"),
    ("no envelope", LIST, [MODERN], (400, -32602, 1)),
    ("no envelope", LIST, [UNKNOWN, BOTH, "", "x" * 10_000], (400, -32022, 1)),
    ("initialize", INITIALIZE, [*ANY, BOTH, ""], "legacy"),
    (
        "initialize in an envelope",
        {**enveloped(), "method": "initialize"},
        [MODERN],
        (404, -32601, 1),
    ),
    ("ping in an envelope", {**enveloped(), "method": "ping"}, [MODERN], (404, -32601, 1)),
    ("ping", {**LIST, "method": "ping"}, [None, *LEGACY], "legacy"),
    ("discover", {**enveloped(), "method": "server/discover"}, [MODERN], "modern"),
    ("discover", {**LIST, "method": "server/discover"}, [None, *LEGACY], (200, -32601, 1)),
]
ROWS = [
    pytest.param(body, version, outcome, id=f"{title} at {str(version)[:24]!r}")
    for title, body, versions, outcome in TABLE
    for version in versions
]


def send(body: Any, version: str | None) -> Any:
    """Post a body with a version header, and the other headers that a modern request needs."""
    method = body["method"] if isinstance(body, dict) and "method" in body else None
    text = body if isinstance(body, str) else compact(body)
    return caller().send(text.encode(), {"MCP-Protocol-Version": version, "Mcp-Method": method})


@pytest.mark.requirement(
    "response.has-result",
    "result.type",
    "version.modern",
    "version.legacy",
    "meta.required",
    "http.version-mismatch",
    "http.version-unsupported",
    "http.notification-refused",
    "legacy.posted",
    "legacy.version-header",
    "legacy.no-version",
    "header.required",
    "header.mismatch-400",
    "request.no-responses",
)
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("body", "version", "outcome"), ROWS)
def test_body_and_header_select_the_era(body: Any, version: str | None, outcome: Any) -> None:
    response = send(body, version)
    if isinstance(outcome, tuple):
        refused(response, outcome[0], outcome[1], id=outcome[2])
    elif outcome == "accepted":
        accepted(response)
    elif outcome == "batch":
        assert [each["id"] for each in strict(response.content)] == [1]
    else:
        result = answered(response)
        assert ("resultType" in result) == (outcome == "modern")
        assert not any(key in result for key in ("ttlMs", "_meta")) or outcome == "modern"


@pytest.mark.requirement("version.unsupported")
def test_unsupported_version_error_lists_supported_versions() -> None:
    discovered = answered(send({**enveloped(), "method": "server/discover"}, MODERN))
    for body in (LIST, enveloped(UNKNOWN)):
        error = refused(send(body, UNKNOWN), 400, -32022, id=1)
        assert error["data"]["supported"] == discovered["supportedVersions"]
        assert error["data"]["requested"] == UNKNOWN
    assert set(discovered["supportedVersions"]) == {MODERN, *LEGACY}


# The checks in their order (from the bytes of the body to the tool): each row breaks one rule.
FAULTS: dict[str, tuple[dict[str, Any], dict[str, str | None], tuple[int, int]]] = {
    "envelope": ({"capabilities": None}, {}, (400, -32602)),
    "headers": ({}, {"Mcp-Method": "tools/list"}, (400, -32020)),
    "version": ({"version": UNKNOWN}, {"MCP-Protocol-Version": UNKNOWN}, (400, -32022)),
    "method": ({"method": "tools/none"}, {"Mcp-Method": "tools/none"}, (404, -32601)),
    "tool": ({"name": "none"}, {"Mcp-Name": "none"}, (200, -32602)),
    "arguments": ({"arguments": {"a": "x"}}, {}, (200, 0)),
}


def faulty(*faults: str) -> Any:
    """Return the answer to a call of ``add`` with those faults, of which an earlier one wins."""
    parts: dict[str, Any] = {"version": MODERN, "method": "tools/call", "name": "add"}
    sent = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "add"}
    for fault in reversed(faults):
        parts.update(FAULTS[fault][0])
        sent.update(FAULTS[fault][1])
    envelope = enveloped(parts["version"], clientCapabilities=parts.get("capabilities", {}))
    meta, arguments = envelope["params"]["_meta"], parts.get("arguments", {"a": 1})
    params = {"name": parts["name"], "arguments": arguments, "_meta": meta}
    return caller().send(
        compact({**LIST, "method": parts["method"], "params": params}).encode(), sent
    )


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(FAULTS, 2)))
def test_earlier_of_two_faults_is_answered(first: str, second: str) -> None:
    status, code = FAULTS[first][2]
    refused(faulty(first, second), status, code, id=1)


@pytest.mark.requirement("error.meaning")
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_own_answer(fault: str) -> None:
    status, code = FAULTS[fault][2]
    if fault == "arguments":
        assert answered(faulty(fault))["isError"]
    else:
        refused(faulty(fault), status, code, id=1)


@pytest.mark.requirement("http.content-type", "meta.client-info-optional")
def test_call_without_a_fault_is_answered() -> None:
    assert answered(faulty())["structuredContent"] == {"result": 2}

"""Helpers of the tests of the wire: a good message, and the rules for every refusal."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.requests import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_bridge.testing.checked import CheckedClient
from tests.support.site import CALLS

ENVELOPE = {PROTOCOL_VERSION: LATEST.version, CLIENT_CAPABILITIES: {}}


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that no tool runs, and that no error is logged."""
    CALLS.clear()
    yield
    assert CALLS == []
    errors = [each for each in caplog.get_records("call") if each.levelno >= logging.ERROR]
    assert errors == []


def somebody() -> Any:
    """Return a user who may do anything and is in no database."""
    return get_user_model()(pk=1, username="ada", is_superuser=True)


def caller(revision: str = LATEST.version, **options: Any) -> CheckedClient:
    """Return a client of a user, or an anonymous one."""
    return CheckedClient(user=somebody(), revision=revision, **options)


def message(
    client: CheckedClient, method: str = "tools/call", id: Any = 1, **params: Any
) -> dict[str, Any]:
    """Return a request in the client's revision; a call of ``add`` by default."""
    if method == "tools/call" and not params:
        params = {"name": "add", "arguments": {"a": 1}}
    return {**client.message(method, **params), "id": id}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def good(client: CheckedClient) -> str:
    """Return the text of a call that would be answered; the tests change a part of it."""
    return compact(message(client))


def headers(
    client: CheckedClient, method: str = "tools/call", name: str = "add", **more: str | None
) -> dict[str, str | None]:
    """Return the headers that go with the good call, or with another."""
    mirrored = client.mirrored({"method": method, "params": {"name": name}})
    return {**mirrored, **{key.replace("_", "-"): value for key, value in more.items()}}


def strict(content: bytes) -> Any:
    """Return the JSON in an answer, refusing any that readers could read differently."""

    def refuse(what: Any) -> Any:
        raise AssertionError(f"{what} is no JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), "a member stands twice"
        return dict(pairs)

    return json.loads(content.decode("utf-8"), parse_constant=refuse, object_pairs_hook=once)


def refused(response: Any, status: int, code: int, id: Any = None) -> dict[str, Any]:
    """
    Return the error of a refusal, which is JSON-RPC, echoes the id, is short and reveals no secret.
    """
    assert response.headers["Content-Type"] == "application/json"
    answer = strict(response.content)
    assert set(answer) == {"jsonrpc", "id", "error"}
    assert (response.status_code, answer["error"]["code"]) == (status, code)
    assert (type(answer["id"]), answer["id"]) == (type(id), id)
    assert len(response.content) <= 4096 + 2 * len(compact(id))
    assert 0 < len(answer["error"]["message"]) <= 300
    assert b"Traceback" not in response.content
    assert b".py" not in response.content
    return answer["error"]


def answered(response: Any, id: Any = 1) -> dict[str, Any]:
    """Return the result of an answer that is not an error."""
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
    answer = strict(response.content)
    assert set(answer) == {"jsonrpc", "id", "result"}
    assert (type(answer["id"]), answer["id"]) == (type(id), id)
    result: dict[str, Any] = answer["result"]
    return result


def accepted(response: Any) -> None:
    """Check that a notification or a posted response is answered by 202 and nothing else."""
    assert (response.status_code, response.content) == (202, b"")
    assert "Content-Type" not in response.headers


def sentinel(text: str) -> str:
    """Return a header's value, encoded as clients encode it."""
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="

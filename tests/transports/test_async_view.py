"""The same endpoint under ASGI: the same answers, and coroutine functions without a thread hop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import connection
from django.test import AsyncClient, Client, override_settings
from django.test.client import AsyncClientHandler
from django.urls import path
from rest_framework.test import force_authenticate

from mcp_bridge import Context
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import addresses, serve
from mcp_bridge.tokens.models import Token
from mcp_bridge.views import AsyncMCPView
from tests.support import wire
from tests.support.revisions import ERAS
from tests.support.site_async import MEETING
from tests.support.wire import (
    accepted,
    answered,
    caller,
    compact,
    good,
    headers,
    message,
    refused,
    somebody,
)

quiet = wire.quiet


@pytest.fixture(autouse=True, scope="module")
def test_site() -> Iterator[None]:
    with override_settings(ROOT_URLCONF="tests.support.site_async"):
        yield


class Handler(AsyncClientHandler):
    """Django's handler under ASGI, with a user whom DRF takes as authenticated."""

    user: Any = None

    async def get_response_async(self, request: Any) -> Any:
        force_authenticate(request, self.user)
        return await super().get_response_async(request)


class Door:
    """Transport of an MCPClient to the application under ASGI."""

    def __init__(self, user: Any) -> None:
        self.client = AsyncClient()
        self.client.handler = Handler()
        self.client.handler.user = user

    def generic(self, *args: Any, **options: Any) -> Any:
        async def request() -> Any:
            return await self.client.generic(*args, **options)

        return async_to_sync(request)()


def async_caller(revision: str, user: Any = None) -> CheckedClient:
    """Return the client of tests.support.wire.caller, but for the way it posts."""
    client = caller(revision)
    client.http = Door(user or somebody())
    return client


@pytest.fixture(params=ERAS)
def sender(request: pytest.FixtureRequest) -> CheckedClient:
    return async_caller(request.param)


# The same answers as under WSGI.

CALL = {"name": "add", "arguments": {"a": 1}}
SAME: list[tuple[str, dict[str, Any]]] = [
    ("server/discover", {}),
    ("initialize", {"protocolVersion": "2025-06-18"}),
    ("ping", {}),
    ("tools/list", {}),
    ("tools/list", {"cursor": "?"}),
    ("tools/call", CALL),
    ("tools/call", {"name": "add", "arguments": {"a": "x", "c": 1}}),
    ("tools/call", {"name": "none"}),
    ("tools/call", {"name": "later", "arguments": {"text": "é"}}),
    ("tools/call", {"name": "who"}),
    ("tools/call", {"name": "needs_sampling"}),
    ("tools/call", {"name": "blocks", "arguments": {"kind": "mixed"}}),
    *[
        ("tools/call", {"name": "fail", "arguments": {"how": how}})
        for how in ("tool", "rpc", "404")
    ],
    ("notifications/initialized", {}),
    ("prompts/list", {}),
]


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(("method", "params"), SAME, ids=range(len(SAME)))
def test_answer_is_the_one_under_wsgi(revision: str, method: str, params: dict[str, Any]) -> None:
    client = async_caller(revision)
    sent = headers(client, method, params.get("name", "-"))
    body = compact(message(client, method, **params)).encode()
    expected = caller(revision, path="/sync").send(body, sent)
    response = client.send(body, sent)
    # Only ASGI has lists that announce their changes.
    contents = [
        each.content.replace(b'{"listChanged":true}', b"{}") for each in (response, expected)
    ]
    assert (response.status_code, contents[0]) == (expected.status_code, contents[1])
    assert response.headers["Content-Type"] == expected.headers["Content-Type"]


BODIES = [b"", b"\xff", b"{", b"[]", b"{}", b"null", b"[" * 10**5, b'{"a":1,"a":2}', b'"\\ud800"']


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bad_input_is_refused_as_under_wsgi(
    sender: CheckedClient, body: bytes, quiet: None
) -> None:
    expected = caller(sender.revision.version, path="/sync").send(body, headers(sender))
    # Django's asynchronous test client sends no headers without a body.
    response = sender.send(body or b" ", headers(sender))
    assert (response.status_code, response.content) == (400, expected.content)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("verb", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"])
def test_other_verb_is_not_allowed(verb: str, path: str, quiet: None) -> None:
    response = Door(None).generic(verb, path)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert b" accepts only POST." in response.content or verb == "HEAD"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Accept": "text/html"}, 406),
    ],
)
def test_refusals_before_the_message_are_as_under_wsgi(
    sender: CheckedClient, sent: dict[str, str], status: int, quiet: None
) -> None:
    response = sender.send(good(sender).encode(), {**headers(sender), **sent})
    refused(response, status, 403 if status == 403 else -32600)


def test_notification_is_accepted(sender: CheckedClient) -> None:
    accepted(sender.send(b'{"jsonrpc":"2.0","method":"x"}', headers(sender)))


def test_batch_is_answered_in_order() -> None:
    client = async_caller("2025-03-26")
    messages = [message(client, id=1), message(client, "ping", id=2), message(client, id=3)]
    answers = wire.strict(client.send(compact(messages).encode()).content)
    assert [each["id"] for each in answers] == [1, 2, 3]


@pytest.mark.django_db
def test_token_is_checked(user: Any) -> None:
    _, secret = Token.objects.issue(user=user, name="t")
    client = async_caller(ERAS[0])
    client.http = Door(None)
    refused(client.send(b"{}", {"Authorization": "Bearer x"}), 401, 401)
    response = client.send(
        good(client).encode(), {**headers(client), "Authorization": f"Bearer {secret}"}
    )
    assert answered(response)["isError"] is False


def test_endpoint_serves_under_wsgi_as_well() -> None:
    client = MCPClient()
    assert client.call_tool("ping_public")["structuredContent"] == {"pong": True}
    assert Client().get("/mcp").status_code == 405


# Where procedures run.


async def where(tool: str) -> str:
    """Return a tool's description of its thread, asked from the running loop."""
    client = MCPClient()
    body = compact(message(client, name=tool, arguments={})).encode()
    sent = {**headers(client, name=tool), "Accept": "application/json"}
    response = await AsyncClient().generic("POST", "/mcp", body, "application/json", headers=sent)
    result: str = wire.strict(response.content)["result"]["content"][0]["text"]
    return result


# The loop's threads have separate connections, outside of any test's transaction.
own_connections = pytest.mark.django_db(transaction=True)


@own_connections
def test_coroutine_function_runs_on_the_event_loops_thread() -> None:
    async def main() -> None:
        assert await where("thread_of_coroutine") == f"{threading.get_ident()} True"

    asyncio.run(main())


@own_connections
def test_function_runs_outside_of_the_event_loops_thread() -> None:
    async def main() -> None:
        ident, running = (await where("thread_of_function")).split()
        assert (ident != str(threading.get_ident()), running) == (True, "False")

    asyncio.run(main())


@pytest.mark.off_lane
@own_connections
def test_calls_can_wait_for_each_other_on_one_loop() -> None:
    async def main() -> list[str]:
        MEETING.clear()
        return await asyncio.wait_for(asyncio.gather(where("meet"), where("meet")), 10)

    assert asyncio.run(main()) == ["met", "met"]


# Failures and transactions.


@pytest.mark.parametrize(("tool", "arguments"), [("leave", {}), ("fail", {"how": "exit"})])
def test_system_exit_fails_the_call_but_not_the_next(
    sender: CheckedClient, tool: str, arguments: dict[str, Any]
) -> None:
    assert sender.call_tool(tool, arguments)["isError"]
    assert sender.call_tool("add", {"a": 1})["isError"] is False


def test_failures_of_coroutine_functions_are_reported_as_others_are(sender: CheckedClient) -> None:
    assert text_of(sender.call_tool("fail_later", {"how": "tool"})) == "Say please."
    text = text_of(sender.call_tool("fail_later", {"how": "bug"}))
    assert "SECRET-MARKER" not in text
    assert "reference" in text


def test_unknown_tool_is_an_error(sender: CheckedClient) -> None:
    with pytest.raises(MCPError, match="Unknown tool: none"):
        sender.call_tool("none")


@pytest.fixture(params=[True, False], ids=["atomic requests", "no transaction"])
def atomic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", request.param)


@pytest.mark.usefixtures("atomic")
def test_failed_call_is_rolled_back_and_others_are_kept(
    user: Any,
) -> None:
    client = async_caller(ERAS[0], user)
    assert client.call_tool("make_group", {"name": "kept"})["isError"] is False
    failed = client.call_tool("make_group", {"name": "gone", "then_fail": True})
    assert failed["isError"]
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]


@pytest.mark.usefixtures("atomic")
def test_coroutine_function_may_query_the_database(user: Any) -> None:
    result = async_caller(ERAS[0], user).call_tool("count_groups")
    assert result["structuredContent"] == {"result": 0}


class AskingView(AsyncMCPView):
    """An endpoint whose context queries the database."""

    def get_context(self, request: Any, message: Any = None) -> Context:
        groups = list(Group.objects.values_list("name", flat=True))
        return replace(super().get_context(request, message), auth=groups)


def test_custom_context_may_use_the_orm(user: Any, settings: Any) -> None:
    def whose(context: Context) -> list[str]:
        """Return the groups."""
        return context.auth

    async def awhose(context: Context) -> list[str]:
        """Return the groups, in a coroutine."""
        return context.auth

    Group.objects.create(name="staff")
    server = serve(settings, whose, awhose)
    settings.ROOT_URLCONF = addresses(
        path("rpc", server.view), path("mcp", AskingView.as_view(), name="mcp")
    )
    client = async_caller("2026-07-28", user)
    for name in ("whose", "awhose"):
        assert client.call_tool(name)["structuredContent"] == {"result": ["staff"]}

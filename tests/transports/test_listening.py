"""Lists that announce their changes: subscriptions/listen under ASGI."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.test import Client
from django.urls import clear_url_caches, path

from mcp_bridge import mcp_prompt, mcp_resource
from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol.errors import ForbiddenError
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.server import listening
from mcp_bridge.server.server import MCPServer
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from mcp_bridge.views import AsyncMCPView
from tests.support.asgi import Exchange, scope_for
from tests.support.serving import set_tool
from tests.support.streaming import application
from tests.support.values import dumps

pytestmark = pytest.mark.django_db(transaction=True)

ID = "io.modelcontextprotocol/subscriptionId"
CHANGED = "notifications/tools/list_changed"


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def secret() -> str:
    """Return a secret."""
    return "secret"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(listening, "INTERVAL", 0.05)
    settings.MCP_BRIDGE = {"ALLOW_ANONYMOUS": True, "STATE_MAX_AGE": 0}


@pytest.fixture(params=["asgi", "lane"])
def way(request: pytest.FixtureRequest, settings: Any) -> str:
    serve(settings, add, secret, asynchronous=True, public=True)
    way: str = request.param
    return way


class Subscription(Exchange):
    """A request whose messages are read one by one, and whose client may leave."""

    def __init__(self, scope: dict[str, Any], body: bytes) -> None:
        super().__init__(scope, body)
        self.gone = asyncio.Event()
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def receive(self) -> Any:
        if self.events[:]:
            return self.events.pop(0)
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await super().send(message)
        for line in message.get("body", b"").split(b"\n"):
            if line.startswith(b"data: "):
                self.messages.put_nowait(json.loads(line[6:]))

    async def next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.messages.get(), 10)

    async def quiet(self) -> bool:
        """Return whether nothing arrives for a while."""
        await asyncio.sleep(0.4)
        return self.messages.empty()


def request_of(
    notifications: Any = None,
    id: Any = 7,
    token: str = "",
    capabilities: Any = None,
    **headers: str,
) -> tuple[dict[str, Any], bytes]:
    client = MCPClient(token=token or None, capabilities=capabilities)
    wanted = {"toolsListChanged": True} if notifications is None else notifications
    message = {**client.message("subscriptions/listen", notifications=wanted), "id": id}
    sent = {
        "Host": "testserver",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        **client.headers,
        **client.mirrored(message),
        **headers,
    }
    return scope_for(sent), dumps(message)


@asynccontextmanager
async def subscribed(way: str, *request: Any, **options: Any) -> AsyncIterator[Subscription]:
    """Open a subscription, which has been acknowledged; its client leaves in the end."""
    scope, body = await sync_to_async(request_of)(*request, **options)
    found = Subscription(scope, body)
    task = asyncio.ensure_future(found.run(application(way)))
    try:
        yield found
    finally:
        found.gone.set()
        await asyncio.wait([task], timeout=10)
        assert task.done()


change = sync_to_async(set_tool)


def run(work: Callable[[], Any]) -> None:
    asyncio.run(work())
    assert not listening._listeners


@pytest.mark.requirement("subscriptions.acknowledged")
@pytest.mark.requirement("meta.subscription")
def test_changes_are_announced_after_the_acknowledgement(way: str) -> None:
    async def work() -> None:
        async with subscribed(way, id="a") as found:
            assert await found.next() == {
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": {ID: "a"}, "notifications": {"toolsListChanged": True}},
            }
            assert await found.quiet()
            for enabled in (False, True):
                await change("add", enabled=enabled)
                assert await found.next() == {
                    **{"jsonrpc": "2.0", "method": CHANGED, "params": {"_meta": {ID: "a"}}}
                }
            # An administrator's note is in no list.
            await change("add", note="Seen.")
            assert await found.quiet()

    run(work)


def test_only_changes_that_the_caller_sees_are_announced(way: str, user: Any) -> None:
    group = Group.objects.create(name="staff")
    _, token = Token.objects.issue(user=user, name="test")

    async def work() -> None:
        async with subscribed(way) as stranger, subscribed(way, token=token) as known:
            await stranger.next()
            await known.next()
            setting = await change("secret")
            await sync_to_async(setting.groups.add)(group)
            # It has left both lists.
            assert (await stranger.next())["method"] == CHANGED
            assert (await known.next())["method"] == CHANGED
            await sync_to_async(user.groups.add)(group)
            # A change makes the server look again.
            await change("secret", note="Now.")
            assert (await known.next())["method"] == CHANGED
            assert await stranger.quiet()

    run(work)


@mcp_prompt(public=True)
def review() -> str:
    """Review."""
    return "Review."


@mcp_resource("teams://{name}", public=True)
def team(name: str) -> str:
    """Return a team."""
    return name


@pytest.mark.parametrize("way", ["asgi"], indirect=True)
def test_lists_of_all_kinds_announce_their_changes(way: str, settings: Any) -> None:
    serve(settings, add, review, team, asynchronous=True, public=True)
    wanted = {"promptsListChanged": True, "resourcesListChanged": True}

    async def work() -> None:
        async with subscribed(way, wanted) as found:
            assert (await found.next())["params"]["notifications"] == wanted
            for kind, name, listing in (
                ("prompt", "review", "prompts"),
                ("resource", "team", "resources"),
            ):
                await change(name, kind=kind, enabled=False)
                assert (await found.next())["method"] == f"notifications/{listing}/list_changed"
            await change("add", title="Plus")
            assert await found.quiet()

    run(work)


@pytest.mark.requirement("subscriptions.asked")
@pytest.mark.parametrize(
    "wanted",
    [
        {"promptsListChanged": True, "resourceSubscriptions": ["a"], "x": 1},
        {"toolsListChanged": False},
        {"toolsListChanged": "yes"},
        {},
    ],
)
def test_other_notifications_are_left_out(way: str, wanted: Any) -> None:
    async def work() -> None:
        async with subscribed(way, wanted) as found:
            assert (await found.next())["params"]["notifications"] == {}
            await change("add", enabled=False)
            assert await found.quiet()

    run(work)


def refusal(way: str, *request: Any, **options: Any) -> tuple[int, int]:
    """Return the HTTP status and the code of the error."""
    scope, body = request_of(*request, **options)
    found = asyncio.run(Exchange(scope, body).run(application(way)))
    return found.status, json.loads(found.body)["error"]["code"]


@pytest.mark.parametrize("wanted", ["tools", 1, ["toolsListChanged"], True])
def test_filter_that_is_no_object_is_refused(way: str, wanted: Any) -> None:
    assert refusal(way, wanted) == (200, -32602)


def test_client_that_accepts_no_stream_is_refused(way: str) -> None:
    assert refusal(way, Accept="application/json") == (406, -32600)


def test_large_filter_is_refused(way: str) -> None:
    assert refusal(way, {"x": "y" * 1024 * 1024}) == (413, -32600)


@pytest.mark.off_lane
def test_subscriptions_exist_only_where_they_are_served(settings: Any, user: Any) -> None:
    serve(settings, add, public=True)
    client = MCPClient(user=user)
    assert client.post("server/discover")["capabilities"] == {"tools": {}}
    message = client.message("subscriptions/listen", notifications={})
    response = client.send(dumps(message), client.mirrored(message))
    assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)


def test_capability_is_advertised_to_modern_clients(way: str) -> None:
    async def ask(method: str, revision: str, **params: Any) -> Any:
        def make() -> tuple[dict[str, Any], bytes]:
            client = MCPClient(revision=revision)
            message = client.message(method, **params)
            sent = {"Host": "testserver", "Content-Type": "application/json"}
            sent |= client.mirrored(message)
            return scope_for(sent), dumps(message)

        found = await Exchange(*await sync_to_async(make)()).run(application(way))
        return json.loads(found.body)["result"]["capabilities"]

    async def work() -> None:
        assert await ask("server/discover", "2026-07-28") == {"tools": {"listChanged": True}}
        old = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        assert await ask("initialize", "2025-11-25", **old) == {"tools": {}}

    run(work)


@pytest.mark.parametrize(("limit", "most"), [("MOST_OF_CALLER", 3), ("MOST_OF_PROCESS", 3)])
def test_subscriptions_are_limited(
    way: str, limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, limit, most)

    async def work() -> None:
        async with subscribed(way) as one, subscribed(way) as two:
            async with subscribed(way) as three:
                for each in (one, two, three):
                    await each.next()
                async with subscribed(way) as four:
                    await asyncio.sleep(0.2)
                    assert four.status == 429
                    error = json.loads(four.body)["error"]
                    assert (error["code"], "subscriptions" in error["message"]) == (429, True)
            async with subscribed(way) as again:
                await again.next()

    run(work)


def end_token(token: Token, user: User) -> None:
    token.delete()


def end_user(token: Token, user: User) -> None:
    user.is_active = False
    user.save()


def end_both(token: Token, user: User) -> None:
    user.delete()


@pytest.mark.requirement("subscriptions.result")
@pytest.mark.parametrize("end", [end_token, end_user, end_both])
def test_subscription_ends_with_its_credential(
    way: str, user: Any, end: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "CREDENTIAL", 0.1)
    token, secret_of = Token.objects.issue(user=user, name="test")

    async def work() -> None:
        async with subscribed(way, token=secret_of) as found:
            await found.next()
            await asyncio.sleep(0.3)
            await sync_to_async(end)(token, user)
            last = await found.next()
            assert (last["id"], last["result"]["resultType"]) == (7, "complete")
            assert last["result"]["_meta"][ID] == 7

    run(work)


def test_listeners_hold_neither_slots_nor_threads(way: str, settings: Any, user: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "MAX_PROCESS_REQUESTS": 2}
    secrets = [Token.objects.issue(user=user, name=f"{n}")[1] for n in range(8)]

    async def work() -> None:
        before = threading.active_count()
        async with AsyncExitStack() as opened:
            for each in secrets:
                found = await opened.enter_async_context(subscribed(way, token=each))
                await found.next()
            await asyncio.sleep(0.2)
            assert threading.active_count() <= before + 3
            async with subscribed(way) as one_more:
                await one_more.next()

    run(work)


def test_database_that_fails_for_a_while_ends_nothing(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with subscribed(way) as found:
            await found.next()
            with monkeypatch.context() as patch:

                def fail(*given: Any, **named: Any) -> Any:
                    raise OperationalError("gone")

                patch.setattr(AsyncMCPView, "admit", fail)
                await change("add", enabled=False)
                assert await found.quiet()
            assert (await found.next())["method"] == CHANGED

    run(work)
    ToolSetting.objects.filter(name="add").update(enabled=True)


def test_lane_serves_on_after_subscriptions(settings: Any, user: Any) -> None:
    serve(settings, add, asynchronous=True, public=True)
    _, token = Token.objects.issue(user=user, name="test")
    site = application("lane")

    async def work() -> None:
        scope, body = await sync_to_async(request_of)(token=token)
        for _ in range(3):
            found = Subscription(scope, body)
            task = asyncio.ensure_future(found.run(site))
            await found.next()
            found.gone.set()
            await asyncio.wait([task])
        refused, bad = await sync_to_async(request_of)("tools", token=token)
        for _ in range(3):
            assert (await Exchange(refused, bad).run(site)).status == 200

    run(work)


class OneTool(AsyncMCPView):
    """A view with one tool, which refuses at will."""

    is_open = True

    def get_server(self) -> Any:
        (add,) = (each for each in registry.snapshot if each.name == "add")
        return MCPServer(snapshot=Snapshot([add]))

    def admit(self, request: Any, server: Any = None) -> Any:
        if not type(self).is_open:
            raise ForbiddenError("Closed.")
        return super().admit(request, server)


def test_overridden_view_admits_and_lists(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(settings, add, secret, asynchronous=True, public=True)
    own: Any = path("mcp", OneTool.as_view())
    settings.ROOT_URLCONF.urlpatterns.insert(0, own)
    clear_url_caches()

    async def work() -> None:
        async with subscribed("asgi") as found:
            await found.next()
            await change("secret", enabled=False)
            assert await found.quiet()
            monkeypatch.setattr(OneTool, "is_open", False)
            await change("secret", enabled=True)
            assert (await found.next())["result"]["resultType"] == "complete"

    run(work)


def test_session_that_ends_ends_its_subscription(
    settings: Any, user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "CREDENTIAL", 0.1)
    session = "rest_framework.authentication.SessionAuthentication"
    settings.MCP_BRIDGE = {"AUTHENTICATION_CLASSES": [session], "STATE_MAX_AGE": 0}
    serve(settings, add, asynchronous=True)
    browser = Client()
    browser.force_login(user)
    cookies = {each.key: each.value for each in browser.cookies.values()}
    # Django's cross-site protection wants a cookie and a header of the same token.
    sent = {"Cookie": f"sessionid={cookies['sessionid']}; csrftoken={'a' * 32}"}
    sent["X-CSRFToken"] = "a" * 32

    async def work() -> None:
        async with subscribed("asgi", **sent) as found:
            assert (await found.next())["method"].endswith("acknowledged")
            await change("add", enabled=False)
            assert (await found.next())["method"] == CHANGED
            await sync_to_async(Session.objects.all().delete)()
            assert (await found.next())["result"]["resultType"] == "complete"

    run(work)


def test_poller_survives_whatever_a_check_raises(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*given: Any) -> Any:
        raise SystemExit

    async def work() -> None:
        async with subscribed(way) as found:
            await found.next()
            with monkeypatch.context() as patch:
                patch.setattr(AsyncMCPView, "admit", leave)
                await change("add", enabled=False)
                assert "result" in await found.next()
        async with subscribed(way) as again:
            await again.next()
            await change("add", enabled=True)
            assert (await again.next())["method"] == CHANGED

    run(work)

"""Tasks whose changes are announced on subscriptions/listen."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model

from mcp_bridge.server import listening
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.tasks.world import CAPABILITIES, begun, follower, run_waiting
from tests.transports.test_listening import ID, run, subscribed

pytestmark = pytest.mark.django_db(transaction=True)


def add(a: int) -> int:
    """Add one."""
    return a + 1


@pytest.mark.parametrize("way", ["asgi", "lane"])
def test_changes_of_own_tasks_are_announced(
    way: str, settings: Any, user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "INTERVAL", 0.05)
    serve(settings, add, asynchronous=True, task=True)
    secret = Token.objects.issue(user=user, name="t")[1]
    client = MCPClient(token=secret, capabilities=CAPABILITIES)
    keys = [begun(client, "add", a=number) for number in range(2)]
    foreign = begun(follower(get_user_model().objects.create_user("eve")), "add", a=1)
    wanted = {"taskIds": [keys[0], foreign, "x", 7], "toolsListChanged": True}

    async def work() -> None:
        async with subscribed(way, wanted, "s", secret, CAPABILITIES) as found:
            granted = (await found.next())["params"]["notifications"]
            assert granted == {"toolsListChanged": True, "taskIds": [keys[0]]}
            await sync_to_async(run_waiting)()
            params: dict[str, Any] = {"status": "working"}
            while params["status"] == "working":
                # It is announced as running, too, if that takes long enough.
                message = await found.next()
                assert message["method"] == "notifications/tasks"
                params = message["params"]
            assert params.pop("_meta") == {ID: "s"}
            state = await sync_to_async(client.post)("tasks/get", taskId=keys[0])
            assert {**params, "resultType": "complete", "_meta": state["_meta"]} == state
            assert state["status"] == "completed"
            assert await found.quiet()

    run(work)


def test_client_without_the_extension_follows_no_task(settings: Any, user: Any) -> None:
    serve(settings, add, asynchronous=True, task=True)
    secret = Token.objects.issue(user=user, name="t")[1]
    key = begun(MCPClient(token=secret, capabilities=CAPABILITIES), "add", a=1)

    async def work() -> None:
        async with subscribed("asgi", {"taskIds": [key]}, "s", secret) as found:
            assert (await found.next())["params"]["notifications"] == {}

    run(work)

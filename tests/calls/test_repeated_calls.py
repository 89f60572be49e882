"""A client that lost the answer sends the same request again."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.confirming import FORM, YES
from tests.support.values import dumps

pytestmark = pytest.mark.django_db(transaction=True)


def write(name: str) -> str:
    """Write a group."""
    return f"{name} {Group.objects.create(name=f'{name}{Group.objects.count()}').pk}"


async def awrite(name: str) -> str:
    """Write a group in a coroutine."""
    group = await Group.objects.acreate(name=f"{name}{await Group.objects.acount()}")
    return f"{name} {group.pk}"


@pytest.fixture(params=["2026-07-28", "2025-11-25"])
def client(request: pytest.FixtureRequest, user: Any) -> CheckedClient:
    capabilities = FORM if request.param == "2026-07-28" else None
    return CheckedClient(user=user, revision=request.param, capabilities=capabilities)


def sent(client: CheckedClient, body: bytes, headers: Any) -> Any:
    client.send(body, headers)
    return client.response.json()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("function", [write, awrite])
def test_call_with_the_same_id_runs_again(
    function: Any, asynchronous: bool, client: CheckedClient, settings: Any
) -> None:
    serve(settings, function, destructive=True, idempotent=True, asynchronous=asynchronous)
    arguments = {"name": "editors"}
    message = client.message("tools/call", name=function.__name__, arguments=arguments)
    body, headers = dumps(message), client.mirrored(message)
    answers = [sent(client, body, headers) for _ in range(2)]
    assert [each["id"] for each in answers] == [message["id"]] * 2
    assert not any(each["result"]["isError"] for each in answers)
    assert answers[0] != answers[1]
    assert Group.objects.count() == 2
    assert ToolCallRecord.objects.filter(outcome="succeeded").count() == 2


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("function", [write, awrite])
def test_repeated_confirmed_call_does_not_run_again(
    function: Any, asynchronous: bool, user: Any, settings: Any
) -> None:
    serve(settings, function, confirm=True, asynchronous=asynchronous)
    client = CheckedClient(user=user, capabilities=FORM)
    call = {"name": function.__name__, "arguments": {"name": "editors"}}
    state = client.post("tools/call", **call)["requestState"]
    message = client.message("tools/call", **call, inputResponses=YES, requestState=state)
    body, headers = dumps(message), client.mirrored(message)
    assert not sent(client, body, headers)["result"]["isError"]
    again = sent(client, body, headers)
    assert again["error"]["code"] == -32602
    assert "been used already" in again["error"]["message"]
    assert Group.objects.count() == 1
    # As a separate call, it is asked about again.
    assert client.post("tools/call", **call)["resultType"] == "input_required"
    assert Group.objects.count() == 1

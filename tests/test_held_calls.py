"""Calls that wait in the approval queue, since their client cannot be asked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from mcp_bridge.held import HeldCall
from mcp_bridge.protocol import LATEST
from tests.confirming import FORM, RUNS, YES, call, other, refused, state_of, wipe
from tests.conftest import CheckedClient, text_of
from tests.desk.owner import serve_tools
from tests.serving import serve, set_tool

pytestmark = pytest.mark.django_db
Status = HeldCall.Status


@pytest.fixture(autouse=True)
def wiping(settings: Any) -> None:
    RUNS.clear()
    serve(settings, wipe, other, confirm=True, title="Wipe")


@pytest.fixture
def asker(user: Any) -> CheckedClient:
    """A client whose user can be asked."""
    return CheckedClient(user=user, capabilities=FORM)


@pytest.fixture(params=["no form", "address only", "2025-11-25", "2025-03-26"])
def mute(request: Any, user: Any) -> CheckedClient:
    if request.param.startswith("20"):
        return CheckedClient(user=user, revision=request.param)
    url = {"elicitation": {"url": {}}}
    return CheckedClient(user=user, capabilities=url if request.param[0] == "a" else {})


def waits(client: CheckedClient, **params: Any) -> HeldCall:
    """The row of a call that waits."""
    result = call(client, **params)
    assert result["isError"]
    assert "needs the approval of a person" in text_of(result)
    return HeldCall.objects.get(key__isnull=False, status=Status.WAITING)


def decided(held: HeldCall, status: str = Status.APPROVED, **values: Any) -> None:
    assert held.decide(using="default", status=status, **values)


def test_a_call_that_waits_runs_once_when_it_is_approved(mute: CheckedClient, user: Any) -> None:
    held = waits(mute)
    text = text_of(call(mute))
    assert "within 10 minutes of the approval" in text
    assert (held.tool, held.user, json.loads(held.arguments)) == ("wipe", user, {"name": "all"})
    assert waits(mute, inputResponses=YES) == held
    decided(held)
    if mute.revision is LATEST:
        refused(mute, "forged")
    assert not call(mute)["isError"]
    assert RUNS == [("all", 1)]
    assert waits(mute) != held
    held.refresh_from_db()
    assert (held.status, held.key) == (Status.DONE, None)


def test_the_address_is_that_of_the_page(mute: CheckedClient, settings: Any) -> None:
    assert "this site has no page" in text_of(call(mute))
    serve_tools(settings, wipe, confirm=True, title="Wipe")
    (address,) = re.findall(r"http://testserver(/\S+/change/)\.", text_of(call(mute)))
    assert str(HeldCall.objects.latest("pk").pk) in address


def test_an_approval_is_for_one_user_tool_and_call(mute: CheckedClient) -> None:
    decided(waits(mute))
    bob = CheckedClient(user=get_user_model().objects.create_user("bob"))
    calls = [(bob, {}), (mute, {"name": "other"}), (mute, {"arguments": {"name": "one"}})]
    for client, params in calls:
        assert call(client, **params)["isError"]
    assert RUNS == []
    assert HeldCall.objects.filter(status=Status.WAITING).count() == 3


def test_an_approval_ends_with_its_time(mute: CheckedClient, settings: Any) -> None:
    held = waits(mute)
    decided(held)
    settings.MCP_BRIDGE = {"CONFIRMATION_MAX_AGE": 0}
    again = waits(mute)
    assert (again != held, RUNS) == (True, [])


def test_an_approval_is_of_the_definition_that_was_called(mute: CheckedClient) -> None:
    decided(waits(mute))
    set_tool("wipe", description="Wipes more.")
    waits(mute)
    assert RUNS == []


def test_a_refusal_is_told_with_its_reason(mute: CheckedClient) -> None:
    decided(waits(mute), Status.REFUSED, reason="Not on a Friday.")
    for _ in range(2):
        assert "The reason: Not on a Friday." in text_of(call(mute))
    assert RUNS == []


def test_long_arguments_are_for_the_queue_and_too_long_ones_for_nobody(
    asker: CheckedClient,
) -> None:
    assert waits(asker, arguments={"name": "x" * 5_000})
    assert "characters" in text_of(call(asker, arguments={"name": "x" * 70_000}))
    assert HeldCall.objects.count() == 1


def test_a_yes_in_the_form_takes_the_call_out_of_the_queue(asker: CheckedClient, user: Any) -> None:
    held = waits(CheckedClient(user=user))
    assert not call(asker, inputResponses=YES, requestState=state_of(asker))["isError"]
    held.refresh_from_db()
    assert (held.status, held.decided_by) == (Status.DONE, user)


def test_the_queue_has_room_for_a_hundred_calls_of_a_user(modern: CheckedClient) -> None:
    waits(modern)
    user = HeldCall.objects.get().user
    HeldCall.objects.bulk_create(
        HeldCall(tool="wipe", user=user, arguments="{}", key=f"{number}") for number in range(99)
    )
    assert "wait for one already" in text_of(call(modern, arguments={"name": "more"}))
    assert "The call waits" in text_of(call(modern))
    assert HeldCall.objects.count() == 100


def test_secrets_are_neither_shown_nor_kept(modern: CheckedClient, settings: Any) -> None:
    def change(login: dict[str, str], api_key: str, names: list[str]) -> None:
        """Change a password."""

    serve(settings, change, confirm=True)
    marker, hidden = "hunter2", {"user": "ada", "password": "hunter2"}
    call(modern, "change", arguments={"login": hidden, "api_key": marker, "names": ["x"]})
    held = HeldCall.objects.get()
    assert json.loads(held.arguments) == {
        "login": {"user": "ada", "password": "•••"},
        "api_key": "•••",
        "names": ["x"],
    }

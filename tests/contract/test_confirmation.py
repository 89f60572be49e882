"""Tools that require confirmation, through the client's form or the queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import connection
from pydantic import AfterValidator

from mcp_bridge import Context
from mcp_bridge.exceptions import InputRequired
from mcp_bridge.models import PendingCall, ToolCallRecord, UsedState
from mcp_bridge.protocol.input_requests import FormElicitRequest
from mcp_bridge.records.rows import flush
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.confirming import FORM, RUNS, YES, awipe, call, refused, state_of, wipe
from tests.support.serving import set_tool

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wiping")]
EMPTY = {"type": "object", "properties": {}}
CHECKED: list[str] = []


def note(name: str) -> str:
    CHECKED.append(name)
    return name


def drop(name: Annotated[str, AfterValidator(note)]) -> None:
    """Drop something."""


@pytest.mark.requirement("mrtr.once", "elicit.members")
def test_user_is_asked_and_the_call_runs_once(asker: CheckedClient) -> None:
    arguments = {"name": "all\u202e\x07", "count": 3}
    result = call(asker, arguments=arguments)
    (request,) = result["inputRequests"].values()
    assert request["method"] == "elicitation/create"
    message = request["params"]["message"]
    assert "wipe (Wipe)" in message
    assert '"name": "all\\u202e\\u0007",\n  "count": 3' in message
    box = {"type": "boolean", "title": "Yes, run wipe", "default": False}
    schema = {"type": "object", "properties": {"confirm": box}, "required": ["confirm"]}
    assert request["params"]["requestedSchema"] == schema
    assert RUNS == []
    state = result["requestState"]
    answer = call(asker, arguments=arguments, inputResponses=YES, requestState=state)
    assert (answer["isError"], RUNS) == (False, [("all\u202e\x07", 3)])
    assert "been used already" in refused(asker, state, arguments=arguments)
    assert not PendingCall.objects.exists()


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "decline"},
        {"action": "accept"},
        {"action": "accept", "content": {"confirm": False}},
        {"action": "accept", "content": {"confirm": "true"}},
        {"action": "accept", "content": {"confirm": 1}},
    ],
)
def test_any_other_answer_is_a_refusal(answer: Any, asker: CheckedClient) -> None:
    state = state_of(asker)
    result = call(asker, inputResponses={"confirm": answer}, requestState=state)
    assert result["isError"]
    assert text_of(result).startswith("Nothing was run: the user was asked")
    assert RUNS == []
    flush()
    record = ToolCallRecord.objects.get(error_text=text_of(result))
    assert (record.outcome, record.error_code) == ("refused", "unconfirmed")
    # The refusal has consumed it.
    assert "been used already" in refused(asker, state)


CANCEL = {"confirm": {"action": "cancel"}}


@pytest.mark.off_tasks
def test_cancelled_form_queues_the_call(asker: CheckedClient, user: Any) -> None:
    state = state_of(asker)
    result = call(asker, inputResponses=CANCEL, requestState=state)
    assert (result["isError"], RUNS) == (True, [])
    waiting = PendingCall.objects.get()
    assert (waiting.status, waiting.user, waiting.tool) == ("waiting", user, "wipe")
    assert text_of(result) == text_of(call(CheckedClient(user=user)))
    flush()
    unconfirmed = ToolCallRecord.objects.filter(outcome="refused", error_code="unconfirmed")
    # The question, the cancelled form, and the call of a client without forms.
    assert unconfirmed.count() == 3
    assert "been used already" in refused(asker, state)
    # The client can still be asked; an approval applies to the call even if the form is cancelled.
    state = state_of(asker)
    waiting.decide(using="default", status="approved")
    assert not call(asker, inputResponses=CANCEL, requestState=state)["isError"]
    assert RUNS == [("all", 1)]


@pytest.mark.off_tasks
def test_cancelled_form_does_not_override_a_refusal(asker: CheckedClient, user: Any) -> None:
    state = state_of(asker)
    call(CheckedClient(user=user))
    PendingCall.objects.get().decide(using="default", status="refused", reason="Never.")
    result = call(asker, inputResponses=CANCEL, requestState=state)
    assert "Reason: Never." in text_of(result)


@pytest.mark.off_tasks
def test_cancelled_form_counts_with_its_question(asker: CheckedClient, hourly: None) -> None:
    result = call(asker, inputResponses=CANCEL, requestState=state_of(asker))
    assert "The call is pending" in text_of(result)
    PendingCall.objects.get().decide(using="default", status="approved")
    assert not call(asker)["isError"]


def test_confirmation_without_its_question_is_ignored(asker: CheckedClient) -> None:
    for params in ({}, {"requestState": None}):
        assert call(asker, inputResponses=YES, **params)["resultType"] == "input_required"
    again = call(asker, inputResponses={"other": YES["confirm"]}, requestState=state_of(asker))
    assert again["resultType"] == "input_required"
    assert RUNS == []


def test_malformed_answers_are_refused_without_consuming_the_state(asker: CheckedClient) -> None:
    state = state_of(asker)
    for responses in (None, [], {"confirm": 1}, {"confirm": {}}, {"confirm": {"action": "yes"}}):
        assert "inputResponses" in refused(asker, state, inputResponses=responses)
    assert not UsedState.objects.exists()


def test_confirmation_runs_a_call_once_under_asgi(asker: CheckedClient, settings: Any) -> None:
    serve(settings, wipe, awipe, confirm=True, asynchronous=True)
    for name in ("wipe", "awipe"):
        RUNS.clear()
        state = state_of(asker, name=name)
        assert not call(asker, name, inputResponses=YES, requestState=state)["isError"]
        assert RUNS == [("all", 1)]
        assert "been used already" in refused(asker, state, name=name)


@pytest.mark.off_tasks
def test_tools_own_question_does_not_count_as_confirmation(
    asker: CheckedClient, settings: Any
) -> None:
    def nosy(context: Context) -> str:
        """Ask, under the key of the server's own question."""
        if "confirm" not in context.input_responses:
            RUNS.append("asked")
            form = FormElicitRequest("?", {"type": "object", "properties": {}})
            raise InputRequired({"confirm": form})
        return str(RUNS.append("answered"))

    serve(settings, nosy)
    params: dict[str, Any] = {"name": "nosy", "arguments": {}}
    state = state_of(asker, **params)
    set_tool("nosy", confirm=True)
    assert "another call" in refused(asker, state, **params)
    first = state_of(asker, **params)
    second = call(asker, inputResponses=YES, requestState=first, **params)
    assert RUNS == ["asked", "asked"]
    last = {**params, "requestState": second["requestState"]}
    assert not call(asker, inputResponses=YES, **last)["isError"]
    assert RUNS == ["asked", "asked", "answered"]
    for used in (first, second["requestState"]):
        assert "been used already" in refused(asker, used, **params)


def test_failed_call_consumes_its_confirmation(asker: CheckedClient, settings: Any) -> None:
    def broken() -> None:
        """Fail."""
        raise RuntimeError

    serve(settings, broken, confirm=True)
    params = {"name": "broken", "arguments": {}}
    state = state_of(asker, **params)
    assert call(asker, inputResponses=YES, requestState=state, **params)["isError"]
    assert "been used already" in refused(asker, state, **params)


class Robot:
    """A caller of custom authentication that is not a user of the database."""

    pk, is_authenticated, is_active = 7, True, True

    def get_username(self) -> str:
        return "robot"

    def has_perms(self, permissions: Any) -> bool:
        return True


@pytest.mark.parametrize("capabilities", [{}, FORM])
def test_non_user_caller_cannot_be_asked(capabilities: Any) -> None:
    result = call(CheckedClient(user=Robot(), capabilities=capabilities), inputResponses=YES)
    assert "Call it with the credential of a user" in text_of(result)
    assert (RUNS, PendingCall.objects.count()) == ([], 0)


@pytest.mark.parametrize("capabilities", [{}, FORM])
def test_anonymous_caller_cannot_be_asked(capabilities: Any, settings: Any) -> None:
    serve(settings, wipe, confirm=True, public=True)
    set_tool("wipe")
    result = call(CheckedClient(capabilities=capabilities), inputResponses=YES)
    assert "Call it with the credential of a user" in text_of(result)
    assert (RUNS, PendingCall.objects.count()) == ([], 0)


def test_invalid_arguments_are_refused_before_the_question(asker: CheckedClient) -> None:
    assert text_of(call(asker, arguments={})) == "/name: is required and was not sent"


@pytest.mark.off_tasks
def test_arguments_are_checked_once_for_each_request(
    asker: CheckedClient, user: Any, settings: Any
) -> None:
    CHECKED.clear()
    serve(settings, drop, confirm=True)
    state = state_of(asker, name="drop")
    assert len(CHECKED) == 1
    call(asker, "drop", inputResponses=YES, requestState=state)
    assert len(CHECKED) == 2
    call(CheckedClient(user=user), "drop")
    assert len(CHECKED) == 3


@pytest.mark.off_tasks
def test_four_eyes_requires_another_person(asker: CheckedClient, settings: Any) -> None:
    state = state_of(asker)
    settings.MCP_BRIDGE = {"FOUR_EYES": True}
    for params in ({}, {"inputResponses": YES}, {"inputResponses": YES, "requestState": state}):
        text = text_of(call(asker, **params))
        assert "The call is pending" in text
        assert "by someone else with permission. Then repeat" in text
    assert (RUNS, PendingCall.objects.get().status) == ([], "waiting")


@pytest.mark.off_tasks
def test_form_does_not_override_a_refusal_in_the_queue(asker: CheckedClient, user: Any) -> None:
    state = state_of(asker)
    call(CheckedClient(user=user))
    PendingCall.objects.get().decide(using="default", status="refused", reason="Never.")
    assert "Reason: Never." in text_of(call(asker, inputResponses=YES, requestState=state))
    assert RUNS == []


@pytest.mark.off_tasks
def test_concurrent_refusal_is_not_overridden_in_a_form(asker: CheckedClient, user: Any) -> None:
    state = state_of(asker)
    call(CheckedClient(user=user))
    refusing: list[Any] = [PendingCall.objects.get()]

    def refuse_before(execute: Any, sql: str, *args: Any) -> Any:
        """Another person decides after the call has been read, and before the yes is written."""
        if refusing and sql.startswith("UPDATE") and PendingCall._meta.db_table in sql:
            refusing.pop().decide(using="default", status="refused", reason="Never.")
        return execute(sql, *args)

    with connection.execute_wrapper(refuse_before):
        result = call(asker, inputResponses=YES, requestState=state)
    assert "Reason: Never." in text_of(result)
    assert (RUNS, refusing, PendingCall.objects.get().status) == ([], [], "refused")


def test_administrator_can_require_confirmation_of_any_tool(
    asker: CheckedClient, settings: Any
) -> None:
    def plain() -> str:
        """Do it."""
        return Group.objects.create(name="done").name

    serve(settings, plain)
    set_tool("plain", confirm=True)
    params = {"name": "plain", "arguments": {}}
    state = state_of(asker, **params)
    assert not Group.objects.exists()
    assert not call(asker, inputResponses=YES, requestState=state, **params)["isError"]
    assert Group.objects.get().name == "done"


@pytest.fixture
def hourly(settings: Any) -> Iterator[None]:
    cache.clear()
    serve(settings, wipe, confirm=True, throttle="1/hour")
    yield
    cache.clear()


def test_question_and_answer_count_once(asker: CheckedClient, hourly: None) -> None:
    state = state_of(asker)
    assert not call(asker, inputResponses=YES, requestState=state)["isError"]
    assert RUNS == [("all", 1)]
    assert "Too many calls" in text_of(call(asker))


@pytest.mark.off_tasks
def test_queued_call_and_its_repetition_count_once(modern: CheckedClient, hourly: None) -> None:
    assert "requires a person's approval" in text_of(call(modern))
    row = PendingCall.objects.get()
    row.decide(using="default", status="approved")
    assert not call(modern)["isError"]
    assert RUNS == [("all", 1)]
    assert "Too many calls" in text_of(call(modern))


def test_rate_limited_call_is_not_asked_about(asker: CheckedClient, hourly: None) -> None:
    state_of(asker)
    assert "Too many calls" in text_of(call(asker))
    assert "Too many calls" in text_of(call(asker, arguments={"name": 5}))
    assert "Too many calls" in text_of(call(asker, requestState="forged"))


def test_invalid_state_counts_as_a_call(asker: CheckedClient, hourly: None) -> None:
    assert "Invalid requestState" in refused(asker, "forged")
    assert "Too many calls" in text_of(call(asker))


def test_questions_of_a_tool_and_their_answers_count_once(user: Any, settings: Any) -> None:
    cache.clear()

    def ask(context: Context) -> str:
        """Ask for a name."""
        if "name" not in context.input_responses:
            form = FormElicitRequest("Who?", EMPTY)
            raise InputRequired({"name": form}, tool_state="kept")
        return f"{context.tool_state}: {context.input_responses['name']['action']}"

    serve(settings, ask, throttle="1/hour")
    client = CheckedClient(user=user, capabilities=FORM)
    asked = call(client, "ask", arguments={})
    answers = {"inputResponses": {"name": {"action": "accept"}}}
    result = call(client, "ask", arguments={}, requestState=asked["requestState"], **answers)
    assert text_of(result) == "kept: accept"
    assert "Too many calls" in text_of(call(client, "ask", arguments={}))


def test_tool_cannot_suppress_its_question(asker: CheckedClient, settings: Any) -> None:
    def careful(context: Context) -> str:
        """Ask, in a try."""
        try:
            raise InputRequired({"name": FormElicitRequest("Who?", EMPTY)})
        except Exception:
            return "swallowed"

    async def acareful(context: Context) -> str:
        """Ask, in a try of a coroutine."""
        return careful(context)

    for asynchronous in (False, True):
        serve(settings, careful, acareful, asynchronous=asynchronous)
        for name in ("careful", "acareful"):
            assert call(asker, name, arguments={})["resultType"] == "input_required"

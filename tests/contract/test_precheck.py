"""A precheck validates a call's arguments before a person is asked and before the tool runs."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.core.management import call_command
from django.db import transaction
from django.urls import path
from modernrpc import RpcRequestContext
from modernrpc.server import RpcServer
from pydantic import BaseModel

from mcp_bridge import Context, ToolError, mcp_tool
from mcp_bridge.elicitation import elicit
from mcp_bridge.models import PendingCall, ToolCallRecord, UsedState
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry.fingerprints import canonical_definition
from mcp_bridge.registry.registry import registry
from mcp_bridge.schemas.django import Lookup
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from tests.support.confirming import FORM, YES, call, state_of
from tests.support.recording import record

ASKED: list[Any] = []
RUNS: list[Any] = []
BOTH = pytest.mark.parametrize("asynchronous", [False, True])
EDITED = {"name": "edit", "arguments": {"group": "press"}}


def edit(group: Annotated[Group, Lookup("name")], text: str = "nothing") -> str:
    """Edit what a group reads."""
    RUNS.append((group.name, text))
    return "edited"


async def aedit(group: Annotated[Group, Lookup("name")], text: str = "nothing") -> str:
    """Edit what a group reads, in a coroutine."""
    return edit(group, text)


def is_member(group: Group, context: Context) -> None:
    ASKED.append(group.name)
    if not context.user.groups.contains(group):
        raise PermissionDenied(f"You are not in {group.name}.")


async def ais_member(group: Group, context: Context) -> None:
    ASKED.append(group.name)
    if not await context.user.groups.acontains(group):
        raise PermissionDenied(f"You are not in {group.name}.")


@pytest.fixture(autouse=True)
def press(db: None) -> Group:
    ASKED.clear()
    RUNS.clear()
    return Group.objects.create(name="press")


@pytest.fixture
def asker(user: Any) -> CheckedClient:
    return CheckedClient(user=user, capabilities=FORM)


@BOTH
@pytest.mark.parametrize("precheck", [is_member, ais_member])
@pytest.mark.parametrize("tool", ["edit", "aedit"])
@pytest.mark.parametrize("confirm", [False, True])
def test_precheck_error_is_returned_and_nothing_runs(
    confirm: bool, tool: str, precheck: Any, asynchronous: bool, asker: CheckedClient, settings: Any
) -> None:
    serve(settings, edit, aedit, confirm=confirm, precheck=precheck, asynchronous=asynchronous)
    result = asker.call_tool(tool, {"group": "press"})
    assert (result["isError"], text_of(result)) == (True, "You are not in press.")
    assert (ASKED, RUNS) == (["press"], [])
    assert not PendingCall.objects.exists()
    recorded = record()
    assert (recorded.outcome, recorded.error_code) == (Outcome.REFUSED, ErrorCode.TOOL_ERROR)


@pytest.mark.off_tasks
@BOTH
@pytest.mark.parametrize("precheck", [is_member, ais_member])
@pytest.mark.parametrize("tool", ["edit", "aedit"])
def test_call_passing_the_precheck_runs(
    tool: str, precheck: Any, asynchronous: bool, user: Any, press: Group, settings: Any
) -> None:
    user.groups.add(press)
    serve(settings, edit, aedit, precheck=precheck, asynchronous=asynchronous)
    result = CheckedClient(user=user).call_tool(tool, {"group": "press", "text": "x"})
    assert (result["isError"], ASKED, RUNS) == (False, ["press"], [("press", "x")])


@pytest.mark.off_tasks
def test_precheck_runs_again_with_the_answer(
    asker: CheckedClient, user: Any, press: Group, settings: Any
) -> None:
    serve(settings, edit, confirm=True, precheck=is_member)
    user.groups.add(press)
    state = state_of(asker, **EDITED)
    user.groups.clear()
    refused = call(asker, inputResponses=YES, requestState=state, **EDITED)
    assert (text_of(refused), RUNS) == ("You are not in press.", [])
    # The confirmation is not consumed.
    assert not UsedState.objects.exists()
    user.groups.add(press)
    assert not call(asker, inputResponses=YES, requestState=state, **EDITED)["isError"]
    assert (ASKED, RUNS) == (["press"] * 3, [("press", "nothing")])


@pytest.mark.off_tasks
def test_precheck_runs_again_before_an_approval_is_used(
    modern: CheckedClient, user: Any, press: Group, settings: Any
) -> None:
    serve(settings, edit, confirm=True, precheck=is_member)
    user.groups.add(press)
    assert "The call is pending" in text_of(call(modern, **EDITED))
    PendingCall.objects.get().decide(using="default", status="approved")
    user.groups.clear()
    assert text_of(call(modern, **EDITED)) == "You are not in press."
    assert PendingCall.objects.get().status == "approved"
    user.groups.add(press)
    assert not call(modern, **EDITED)["isError"]
    assert PendingCall.objects.get().status == "done"


def test_arguments_are_checked_first(modern: CheckedClient, settings: Any) -> None:
    serve(settings, edit, precheck=is_member)
    assert "/group: " in text_of(modern.call_tool("edit", {"group": "nobody"}))
    assert "/text: " in text_of(modern.call_tool("edit", {"group": "press", "text": 5}))
    codes = ToolCallRecord.objects.values_list("error_code", flat=True)
    assert (ASKED, RUNS, set(codes)) == ([], [], {ErrorCode.INVALID})


@pytest.mark.off_tasks
def test_precheck_receives_any_parameters_with_defaults(
    modern: CheckedClient, settings: Any
) -> None:
    def short(text: str) -> None:
        ASKED.append(text)

    def whole(**arguments: Any) -> None:
        ASKED.append(sorted(arguments))

    def none() -> None:
        ASKED.append(None)

    for precheck in (short, whole, none):
        serve(settings, edit, precheck=precheck)
        modern.call_tool("edit", {"group": "press"})
    assert ASKED == ["nothing", ["group", "text"], None]
    assert len(RUNS) == 3


@pytest.mark.off_tasks
def test_precheck_can_receive_the_rpc_context(modern: CheckedClient, settings: Any) -> None:
    def check(rpc: RpcRequestContext, word: str) -> None:
        ASKED.append((rpc.request.user.get_username(), rpc.auth_result, word))

    server = RpcServer(register_system_procedures=False)

    @server.register_procedure(context_target="rpc", auth=lambda request: "granted")
    @mcp_tool(precheck=check)
    def say(rpc: RpcRequestContext, word: str) -> str:
        """Say a word."""
        return word

    route(settings, path("rpc", server.view))
    assert not modern.call_tool("say", {"word": "hello"})["isError"]
    assert ASKED == [("ada", "granted", "hello")]


@pytest.mark.parametrize(
    ("returned", "is_error"), [(False, True), (None, False), (True, False), (0, False)]
)
def test_precheck_returning_false_refuses(
    returned: object, is_error: bool, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, edit, precheck=lambda group: returned)
    result = modern.call_tool("edit", {"group": "press"})
    assert result["isError"] is is_error
    assert (text_of(result) == "You do not have permission to do that.") is is_error
    assert bool(RUNS) is not is_error


@pytest.mark.off_tasks
@BOTH
@pytest.mark.parametrize("tool", ["edit", "aedit"])
@pytest.mark.django_db(transaction=True)
def test_writes_of_a_precheck_are_rolled_back(
    tool: str, asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    def write(group: Group) -> None:
        transaction.on_commit(lambda: ASKED.append("committed"))
        Group.objects.create(name="left behind")
        group.name = "renamed"
        group.save()

    serve(settings, edit, aedit, precheck=write, asynchronous=asynchronous)
    assert not modern.call_tool(tool, {"group": "press"})["isError"]
    assert list(Group.objects.values_list("name", flat=True)) == ["press"]
    assert (ASKED, len(RUNS)) == ([], 1)


class Fault(Exception):
    pass


@pytest.mark.parametrize("how", ["raises", "asks", "exits"])
@BOTH
def test_unexpected_precheck_error_is_logged_and_nothing_runs(
    how: str,
    asynchronous: bool,
    asker: CheckedClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Answer(BaseModel):
        yes: bool

    def check(context: Context) -> None:
        if how == "asks":
            elicit(context, "May it?", Answer)
        raise Fault("SECRET-MARKER") if how == "raises" else SystemExit("SECRET-MARKER")

    serve(settings, edit, confirm=True, precheck=check, asynchronous=asynchronous)
    with caplog.at_level(logging.ERROR):
        text = text_of(asker.call_tool("edit", {"group": "press"}))
    assert "The tool edit failed: the site's log says why under the reference" in text
    assert ("cannot request input from the client" in caplog.text) is (how == "asks")
    assert (RUNS, PendingCall.objects.count()) == ([], 0)
    assert (record().outcome, record().error_code) == (Outcome.REFUSED, ErrorCode.INTERNAL_ERROR)


def test_precheck_refusal_counts_as_a_call(user: Any, settings: Any) -> None:
    cache.clear()

    def refuse(text: str) -> None:
        raise ToolError("Not this.")

    for confirm in (False, True):
        serve(settings, edit, confirm=confirm, precheck=refuse, throttle="1/hour")
        client = CheckedClient(user=user)
        assert text_of(client.call_tool("edit", {"group": "press"})) == "Not this."
        assert "Too many calls" in text_of(client.call_tool("edit", {"group": "press"}))
        cache.clear()


def test_mcp_call_runs_the_precheck(user: Any, settings: Any, capsys: Any) -> None:
    serve(settings, edit, precheck=is_member)
    with pytest.raises(Exception, match="The result is an error"):
        call_command("mcp_call", "edit", '{"group": "press"}', user="ada")
    assert "You are not in press." in capsys.readouterr().out


def test_precheck_with_unknown_parameters_withholds_the_tool(settings: Any) -> None:
    def check(article: object) -> None:
        """Never asked."""

    serve(settings, edit, precheck=check)
    registry.forget()
    (message,) = registry.discovered.messages
    assert message.id == "mcp_bridge.E006"
    assert "its precheck takes 'article', which the tool does not" in message.msg
    assert list(registry.discovered.tools) == []


def test_precheck_is_part_of_approval_but_not_sent(settings: Any) -> None:
    definitions, sent = set(), []
    for precheck in (None, is_member):
        serve(settings, edit, precheck=precheck)
        registry.forget()
        tool = registry.discovered.tools["edit"]
        definitions.add(canonical_definition(tool))
        sent.append(tool.definition(LATEST))
    assert len(definitions) == 2
    assert sent[0] == sent[1]


@pytest.mark.parametrize("precheck", ["is_member", 5, []])
def test_precheck_must_be_a_function(precheck: Any) -> None:
    with pytest.raises(TypeError, match="precheck must be a function"):
        mcp_tool(precheck=precheck)

"""Interceptors see every request, and change, answer or reject calls and results."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from rest_framework.authentication import BaseAuthentication

from mcp_bridge import RejectError, ToolError
from mcp_bridge.calls import interceptors
from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.records.rows import flush
from mcp_bridge.server import perform
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.asgi import Departing, posted
from tests.support.confirming import FORM
from tests.support.recording import record

# Events, in order.
SEEN: list[str] = []


def echo(word: str) -> dict[str, str]:
    """Return a word."""
    SEEN.append(f"echo {word}")
    if word == "broken":
        raise ToolError("The word is broken.")
    return {"word": word}


async def aecho(word: str) -> dict[str, str]:
    """Return a word."""
    return echo(word)


def write(word: str) -> str:
    """Make a group."""
    Group.objects.create(name=word)
    return word


async def awrite(word: str) -> str:
    """Make a group."""
    await Group.objects.acreate(name=word)
    return word


@pytest.fixture
def site(settings: Any) -> Callable[..., None]:
    """Serve tools behind interceptors of this module."""
    SEEN.clear()

    def serve_behind(*names: str, tools: Any = (echo, aecho), **options: Any) -> None:
        paths = [f"{__name__}.{name}" for name in names]
        settings.MCP_BRIDGE = {"INTERCEPTORS": paths, "AUDIT": {"ARGUMENTS": "full"}}
        serve(settings, *tools, **options)

    return serve_behind


class First:
    name = "First"

    def request(self, request: Any, context: Any) -> None:
        SEEN.append(f"{self.name} {request.method} {context.user}")

    def call(self, call: Any) -> Any:
        SEEN.append(f"{self.name} begins {call.sent['word']}")
        result = yield call._replace(sent={"word": call.sent["word"] + "!"})
        SEEN.append(f"{self.name} ends {result.is_error}")
        return result

    def result(self, call: Any, result: CallToolResult) -> CallToolResult:
        SEEN.append(f"{self.name} result {call.arguments['word']}")
        return result


class Second(First):
    name = "Second"


def third(call: Any) -> Any:
    """Do what First does, as a function."""
    SEEN.append(f"third begins {call.sent['word']}")
    result = yield call
    SEEN.append("third ends")
    return result


METHODS = {"legacy": ["initialize", "ping"], "modern": ["server/discover"]}


def test_every_method_is_seen_in_order(
    client: CheckedClient, user: Any, site: Callable[..., None]
) -> None:
    site("First", "Second", "third")
    era = "modern" if client.revision.modern else "legacy"
    for method in [*METHODS[era], "tools/list"]:
        params = {} if method != "initialize" else {"protocolVersion": client.revision.version}
        client.post(method, **params)
        assert [f"First {method} ada", f"Second {method} ada"] == SEEN
        SEEN.clear()


@pytest.mark.off_tasks
@pytest.mark.parametrize("tool", ["echo", "aecho"])
@pytest.mark.parametrize("word", ["hi", "broken"])
def test_call_runs_inside_of_all(
    client: CheckedClient, tool: str, word: str, site: Callable[..., None]
) -> None:
    site("First", "Second", "third")
    changed = f"{word}!!"
    assert changed in text_of(client.call_tool(tool, {"word": word}))
    assert SEEN[2:] == [
        f"First begins {word}",
        f"Second begins {word}!",
        f"third begins {changed}",
        f"echo {changed}",
        f"First result {changed}",
        f"Second result {changed}",
        "third ends",
        "Second ends False",
        "First ends False",
    ]
    assert json.loads(record().arguments) == {"word": changed}


class Wrong:
    def call(self, call: Any) -> Any:
        result = yield call._replace(sent={"word": 5})
        SEEN.append(f"is error {result.is_error}")
        return result


def test_changed_arguments_are_checked(modern: CheckedClient, site: Callable[..., None]) -> None:
    site("Wrong")
    refused = modern.call_tool("echo", {"word": "hi"})
    assert (refused["isError"], "/word" in text_of(refused)) == (True, True)
    assert (SEEN, record().error_code) == (["is error True"], "invalid")


@pytest.mark.off_tasks
def test_error_results_arrive_at_the_yield(
    modern: CheckedClient, site: Callable[..., None]
) -> None:
    site("Guarding")
    assert modern.call_tool("echo", {"word": "broken"})["isError"] is True
    assert SEEN == ["echo broken", "is error True"]


class Cache:
    kept: dict[str, CallToolResult] = {}

    def call(self, call: Any) -> Any:
        key = str(call.sent)
        if key in self.kept:
            return self.kept[key]
        self.kept[key] = result = yield call
        return result


@pytest.mark.parametrize("tool", ["echo", "aecho"])
def test_interceptor_may_answer_in_the_tools_place(
    modern: CheckedClient, tool: str, site: Callable[..., None]
) -> None:
    Cache.kept.clear()
    site("third", "Cache", read_only=True)
    first, second = (modern.call_tool(tool, {"word": "hi"}) for _ in range(2))
    assert first["structuredContent"] == second["structuredContent"] == {"word": "hi"}
    assert SEEN.count("echo hi") == 1
    assert SEEN[-2:] == ["third begins hi", "third ends"]
    flush()
    ends = ToolCallRecord.objects.order_by("started_at").values_list("outcome", "error_code")
    assert [*ends] == [("succeeded", ""), ("succeeded", "answered")]


class Value:
    def call(self, call: Any) -> Any:
        return {"word": "given"}
        yield call


def test_answer_may_be_a_value_of_the_tool(
    modern: CheckedClient, site: Callable[..., None]
) -> None:
    site("Value")
    assert modern.call_tool("echo", {"word": "hi"})["structuredContent"] == {"word": "given"}


class Masking:
    def result(self, call: Any, result: CallToolResult) -> CallToolResult:
        word = result.structured_content["word"].replace("4111", "****")  # type: ignore[index]
        return replace(call.tool.encode({"word": word}), is_error=result.is_error)


@pytest.mark.parametrize("tool", ["echo", "aecho"])
def test_result_is_changed_before_it_is_sent(
    client: CheckedClient, tool: str, site: Callable[..., None]
) -> None:
    site("Masking")
    assert "4111" not in str(client.call_tool(tool, {"word": "a 4111"}))


class Secrets:
    def result(self, call: Any, result: CallToolResult) -> CallToolResult:
        if "secret" in str(result.content):
            raise RejectError("That must not leave the site.", data={"why": "secret"})
        return result


@pytest.mark.off_tasks
@pytest.mark.off_rest
@pytest.mark.parametrize("tool", [write, awrite])
def test_rejected_result_undoes_what_was_written(
    client: CheckedClient, tool: Any, site: Callable[..., None]
) -> None:
    site("Secrets", tools=[tool])
    with pytest.raises(MCPError) as rejected:
        client.call_tool(tool.__name__, {"word": "secret"})
    expected = {"code": 403, "message": "That must not leave the site.", "data": {"why": "secret"}}
    assert (rejected.value.error, client.response.status_code) == (expected, 200)
    assert not Group.objects.filter(name="secret").exists()
    assert (record().outcome, record().error_code) == ("failed", "rejected")
    client.call_tool(tool.__name__, {"word": "open"})
    assert Group.objects.filter(name="open").exists()


class Rejecting:
    def request(self, request: Any, context: Any) -> None:
        if request.method == "tools/list":
            raise RejectError("Not now.", code=1234)

    def call(self, call: Any) -> Any:
        if call.sent["word"] == "hidden cause!":
            try:
                raise RejectError("The cause.")
            except RejectError as cause:
                raise ValueError("SECRET-MARKER") from cause
        raise RejectError("Not this word.")
        yield call


@pytest.mark.off_rest
@pytest.mark.parametrize("word", ["hi", "hidden cause"])
def test_rejection_is_answered_with_its_text(
    client: CheckedClient, word: str, site: Callable[..., None]
) -> None:
    site("First", "Rejecting")
    with pytest.raises(MCPError) as listed:
        client.list_tools()
    assert listed.value.error == {"code": 1234, "message": "Not now."}
    with pytest.raises(MCPError) as called:
        client.call_tool("echo", {"word": word})
    text = "Not this word." if word == "hi" else "The cause."
    assert called.value.error == {"code": 403, "message": text}
    assert client.response.status_code == 200
    found = record()
    assert (found.outcome, found.error_code) == ("refused", "rejected")
    assert f"echo {word}!" not in SEEN


class Unwelcome:
    def request(self, request: Any, context: Any) -> None:
        raise RejectError("Not welcome.") if request.method == "tools/call" else ValueError


def test_call_rejected_as_a_request_is_recorded(
    client: CheckedClient, site: Callable[..., None]
) -> None:
    site("Unwelcome", "First")
    with pytest.raises(MCPError, match="Not welcome"):
        client.call_tool("echo", {"word": "hi"})
    found = record()
    assert (found.tool, found.outcome, found.error_code) == ("echo", "refused", "rejected")
    assert SEEN == []


class Catching:
    def call(self, call: Any) -> Any:
        try:
            result = yield call
        except Exception as error:
            SEEN.append(type(error).__name__)
            raise
        return result


def test_error_of_a_later_one_arrives_and_passes(
    modern: CheckedClient, site: Callable[..., None]
) -> None:
    site("Catching", "Rejecting")
    with pytest.raises(MCPError, match="Not this word"):
        modern.call_tool("echo", {"word": "hi"})
    assert SEEN == ["RejectError"]


class Faulty:
    def request(self, request: Any, context: Any) -> None:
        if request.method == "tools/list":
            raise ValueError("SECRET-MARKER")

    def call(self, call: Any) -> Any:
        word = call.sent["word"]
        if word == "raises":
            raise ValueError("SECRET-MARKER")
        if word == "none":
            return None
        if word == "is its own cause":
            error = ValueError("SECRET-MARKER")
            raise error from error
        if word == "exits":
            raise SystemExit("SECRET-MARKER")
        if word == "rejects with no JSON":
            raise RejectError("no", data={"SECRET-MARKER"})
        if word == "rejects with no code":
            raise RejectError("no", code="SECRET-MARKER")  # type: ignore[arg-type]
        if word == "yields no arguments":
            call = call._replace(sent=["SECRET-MARKER"])
        if word == "answers with no JSON":
            return CallToolResult(structured={"word": {1, 2}})
        if word == "keeps a transaction":
            atomic = transaction.atomic()
            with atomic:
                yield call
        if word == "recurses":
            perform.call(call.tool, call.sent, call.context)
        result = yield None if word == "yields none" else call
        if word == "twice":
            yield call
        if word == "raises later":
            raise ValueError("SECRET-MARKER")
        return None if word == "returns none" else result

    def result(self, call: Any, result: CallToolResult) -> Any:
        if call.arguments["word"] == "raises at the result":
            raise ValueError("SECRET-MARKER")
        if call.arguments["word"] == "stops at the result":
            raise StopIteration
        return None if call.arguments["word"] == "no result" else result


# With whether the tool has run, and the record's outcome.
FAULTS = {
    **dict.fromkeys(["raises", "none", "yields none", "is its own cause", "exits"], "refused"),
    **dict.fromkeys(["rejects with no JSON", "rejects with no code"], "refused"),
    **dict.fromkeys(["yields no arguments", "keeps a transaction"], "refused"),
    "answers with no JSON": "refused",
    **dict.fromkeys(["twice", "raises later", "returns none"], "succeeded"),
    **dict.fromkeys(["raises at the result", "no result", "stops at the result"], "failed"),
}


@pytest.mark.off_rest
@pytest.mark.parametrize("tool", ["echo", "aecho"])
@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_interceptor_fails_its_call_alone(
    modern: CheckedClient,
    tool: str,
    fault: str,
    site: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    site("Faulty")
    with pytest.raises(MCPError) as failed:
        modern.call_tool(tool, {"word": fault})
    found = record()
    code = "" if FAULTS[fault] == "succeeded" else "internal_error"
    assert (found.outcome, found.error_code) == (FAULTS[fault], code)
    assert failed.value.error["code"] == -32603
    assert "reference" in failed.value.error["message"]
    assert "SECRET-MARKER" not in str(failed.value.error)
    assert f"The interceptor {__name__}.Faulty failed (reference" in caplog.text
    assert modern.call_tool(tool, {"word": "fine"})["isError"] is False
    with pytest.raises(MCPError, match="failed to answer"):
        modern.list_tools()


class Chained:
    """An interceptor that rejects by the cause, or the context, of another error."""

    blocks = False

    def result(self, call: Any, result: CallToolResult) -> CallToolResult:
        try:
            raise RejectError("The cause.")
        except RejectError as error:
            if call.arguments["word"] == "context":
                raise ValueError from KeyError()
            raise ValueError from error


@pytest.mark.parametrize("tool", ["echo", "aecho"])
@pytest.mark.parametrize("word", ["cause", "context"])
def test_rejection_is_found_among_all_causes(
    modern: CheckedClient, tool: str, word: str, site: Callable[..., None]
) -> None:
    site("Chained")
    with pytest.raises(MCPError, match="The cause"):
        modern.call_tool(tool, {"word": word})
    assert record().error_code == "rejected"


def test_masked_arguments_are_recorded_if_rejected(
    modern: CheckedClient, site: Callable[..., None]
) -> None:
    site("First", "Rejecting")
    with pytest.raises(MCPError, match="Not this word"):
        modern.call_tool("echo", {"word": "hi"})
    assert json.loads(record().arguments) == {"word": "hi!"}


def test_answers_are_counted(
    modern: CheckedClient, site: Callable[..., None], settings: Any
) -> None:
    site("Value")
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "THROTTLE_RATES": {"tools": "2/day"}}
    assert [modern.call_tool("echo", {"word": "hi"})["isError"] for _ in range(3)][1:] == [
        *(False, True)
    ]


class Scoped(BaseAuthentication):
    """Authenticate the user with a credential that has one scope."""

    def authenticate(self, request: Any) -> Any:
        return get_user_model().objects.get(), SimpleNamespace(scope="films")


@pytest.mark.off_rest
@pytest.mark.off_stdio
def test_scopes_are_checked_before_an_answer(
    user: Any, site: Callable[..., None], settings: Any
) -> None:
    site("Value", scopes=["books"])
    classes = {"AUTHENTICATION_CLASSES": [f"{__name__}.Scoped"]}
    # Its user can ask there for more scopes, so that the tool is not hidden.
    servers = {"AUTHORIZATION_SERVERS": ["https://auth.example.com"]}
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, **classes, **servers}
    with pytest.raises(MCPError, match="requires the scopes books"):
        MCPClient(token="films").call_tool("echo", {"word": "hi"})
    assert record().error_code == "insufficient_scope"


class Guarding:
    """An interceptor that notes how its generator ends."""

    def call(self, call: Any) -> Any:
        try:
            result = yield call
        except GeneratorExit:
            SEEN.append("closed")
            raise
        SEEN.append(f"is error {result.is_error}")
        return result


@pytest.mark.django_db(transaction=True)
def test_generators_of_a_cancelled_call_are_closed(site: Callable[..., None]) -> None:
    async def wait(word: str) -> str:
        """Wait for ever."""
        SEEN.append("waits")
        await asyncio.Event().wait()
        return word

    site("Guarding", tools=[wait], public=True, asynchronous=True)

    async def main() -> None:
        departing = Departing("wait", word="hi")
        while "waits" not in SEEN:
            await asyncio.sleep(0.01)
        await departing.go()
        await departing.end()

    asyncio.run(asyncio.wait_for(main(), 20))
    assert SEEN == ["waits", "closed"]


def test_question_passes_by_as_no_error(user: Any, site: Callable[..., None]) -> None:
    site("Guarding", confirm=True)
    asker = CheckedClient(user=user, capabilities=FORM)
    assert asker.post("tools/call", name="echo", arguments={"word": "hi"})["resultType"] == (
        "input_required"
    )
    assert SEEN == ["is error False"]


def test_hidden_tool_is_unknown_to_interceptors(
    modern: CheckedClient, site: Callable[..., None]
) -> None:
    site("First", permissions="auth.add_group")
    with pytest.raises(MCPError, match="Unknown tool: echo"):
        modern.call_tool("echo", {"word": "hi"})
    assert SEEN == ["First tools/call ada"]


@pytest.mark.off_tasks
def test_approver_sees_what_will_run(modern: CheckedClient, site: Callable[..., None]) -> None:
    site("First", confirm=True)
    modern.call_tool("echo", {"word": "hi"})
    assert json.loads(PendingCall.objects.get().arguments) == {"word": "hi!"}


# At the limit of recursion, even a destructor that calls a function fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.off_rest
def test_recursion_ends_with_an_error(modern: CheckedClient, site: Callable[..., None]) -> None:
    site("Faulty")
    with pytest.raises(MCPError) as failed:
        modern.call_tool("echo", {"word": "recurses"})
    assert failed.value.error["code"] in (-32603, 429, 503)
    assert modern.call_tool("echo", {"word": "fine"})["isError"] is False


class Here(First):
    blocks = False
    threads: list[int] = []

    def call(self, call: Any) -> Any:
        self.threads.append(threading.get_ident())
        result = yield call
        self.threads.append(threading.get_ident())
        return result

    def result(self, call: Any, result: CallToolResult) -> CallToolResult:
        self.threads.append(threading.get_ident())
        return result


class There(Here):
    blocks = True


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("name", "stays"), [("Here", True), ("There", False)])
def test_methods_that_never_block_stay_on_the_loop(
    name: str, stays: bool, site: Callable[..., None]
) -> None:
    Here.threads.clear()
    site(name, tools=[aecho], public=True, read_only=True, asynchronous=True)

    async def main() -> list[bool]:
        await posted("aecho", word="hi")
        return [each == threading.get_ident() for each in Here.threads]

    # The beginning may run in a thread that the request needed before.
    _begin, result, _end = asyncio.run(main())
    assert result is stays


def test_slow_interceptor_is_logged_by_name(
    modern: CheckedClient,
    site: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(interceptors, "LONG", -1)
    site("First")
    modern.list_tools()
    assert f"The interceptor {__name__}.First took" in caplog.text


class Silencing:
    """An interceptor that rejects notifications."""

    def request(self, request: Any, context: Any) -> None:
        if request.id is None:
            SEEN.append(request.method)
            raise RejectError("Not now.")


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_rejected_notification_is_a_bad_request(
    user: Any, site: Callable[..., None], version: str
) -> None:
    site("Silencing")
    client = MCPClient(user=user)
    body = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    sent = {"MCP-Protocol-Version": version, "Mcp-Method": "notifications/initialized"}
    response = client.send(body, sent)
    assert (response.status_code, json.loads(response.content)["id"]) == (400, None)
    assert SEEN == ["notifications/initialized"]
    # A request passes.
    assert client.call_tool("echo", {"word": "hi"})["isError"] is False

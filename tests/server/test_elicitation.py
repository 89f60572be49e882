"""Tools that ask their client in the middle of a call."""

from __future__ import annotations

import json
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from pydantic import BaseModel, Field, SecretStr

from mcp_bridge import Context
from mcp_bridge.elicitation import elicit
from mcp_bridge.exceptions import Declined, InputRequired
from mcp_bridge.protocol.input_requests import (
    CreateMessageRequest,
    FormElicitRequest,
    ListRootsRequest,
    URLElicitRequest,
)
from mcp_bridge.schemas.forms import form_schema
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Class(Enum):
    FIRST = "first"
    SECOND = "second"


class Booking(BaseModel):
    """A seat."""

    seats: int = Field(ge=1, le=8, description="How many?")
    day: date
    travel: Class = Class.SECOND
    meal: Literal["none", "vegan"] | None = None
    extras: list[Literal["bike", "dog"]] = []
    window: bool = False
    price: float | None = None
    code: str = Field(default="", max_length=4, pattern="^[a-z]*$")


class Name(BaseModel):
    name: str


def book(context: Context, train: str) -> dict[str, Any]:
    """Book a seat."""
    Group.objects.create(name="written before")
    booking = elicit(context, f"Which seats on {train}?", Booking)
    Group.objects.create(name="written between")
    who = elicit(context, "For whom?", Name)
    again = elicit(context, "For whom?", Name)
    return {"booking": booking.model_dump(mode="json"), "names": [who.name, again.name]}


async def abook(context: Context) -> str:
    """Book a seat, in a coroutine."""
    try:
        return elicit(context, "For whom?", Name).name
    except Declined as declined:
        return f"nobody ({declined.action})"


@pytest.fixture
def asker(user: Any, settings: Any) -> CheckedClient:
    serve(settings, book, abook)
    return CheckedClient(user=user, capabilities=ALL)


def rounds(client: CheckedClient, name: str, arguments: Any, *answers: Any) -> dict[str, Any]:
    """Answer one question after the other; returns the last result."""
    params = {"name": name, "arguments": arguments}
    result = client.post("tools/call", **params)
    for answer in answers:
        assert result.get("resultType") == "input_required", result
        (key,) = result["inputRequests"]
        response = answer if "action" in answer else {"action": "accept", "content": answer}
        sent = {"inputResponses": {key: response}, "requestState": result["requestState"]}
        result = client.post("tools/call", **params, **sent)
    return result


def message(result: dict[str, Any]) -> str:
    (request,) = result["inputRequests"].values()
    return str(request["params"]["message"])


SEATS = {"seats": 2, "day": "2026-12-24", "extras": ["dog"], "price": 10}


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.django_db(transaction=True)
def test_a_tool_asks_several_times_and_keeps_what_it_wrote_last(
    asker: CheckedClient, atomic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    arguments, answers = {"train": "IC 1"}, [SEATS, {"name": "Ada"}, {"name": "Bob"}]
    for count, question in enumerate(["Which seats on IC 1?", "For whom?", "For whom?"]):
        assert message(rounds(asker, "book", arguments, *answers[:count])) == question
        assert not Group.objects.exists()
    result = rounds(asker, "book", arguments, *answers)["structuredContent"]
    assert (result["names"], result["booking"]["seats"]) == (["Ada", "Bob"], 2)
    assert result["booking"]["travel"] == "second"
    assert Group.objects.count() == 2


def test_an_answer_that_breaks_the_model_is_not_taken(asker: CheckedClient) -> None:
    wrong = {"seats": 9, "day": "24.12.", "code": "AB"}
    text = message(rounds(asker, "book", {"train": "IC 1"}, wrong))
    for line in ("was not accepted", "seats: Input should be less", "day: ", "code: "):
        assert line in text
    result = rounds(asker, "book", {"train": "IC 1"}, wrong, {}, SEATS)
    assert message(result) == "For whom?"


@pytest.mark.requirement("elicit.declined")
def test_who_declines_is_told_to_the_tool_or_else_to_the_model(asker: CheckedClient) -> None:
    result = rounds(asker, "abook", {}, {"action": "cancel"})
    assert text_of(result) == "nobody (cancel)"
    result = rounds(asker, "book", {"train": "IC 1"}, {"action": "decline"})
    assert result["isError"]
    assert "asked “Which seats on IC 1?” and did not answer: decline" in text_of(result)
    assert not Group.objects.exists()


def test_an_answer_counts_for_its_own_question(asker: CheckedClient, settings: Any) -> None:
    asked = iter(["Delete 3?", "Delete 500?"])

    def purge(context: Context) -> str:
        """Delete what is there by now."""
        return elicit(context, next(asked), Name).name

    serve(settings, purge)
    assert message(rounds(asker, "purge", {}, {"name": "yes"})) == "Delete 500?"


def test_a_coroutine_function_asks_as_well(asker: CheckedClient) -> None:
    assert text_of(rounds(asker, "abook", {}, {"name": "Ada"})) == "Ada"


@pytest.mark.requirement("mrtr.once")
def test_a_round_is_answered_once(asker: CheckedClient) -> None:
    result = rounds(asker, "abook", {})
    (key,) = result["inputRequests"]
    answer = {key: {"action": "accept", "content": {"name": "Ada"}}}
    sent = {"name": "abook", "inputResponses": answer, "requestState": result["requestState"]}
    assert text_of(asker.post("tools/call", **sent)) == "Ada"
    with pytest.raises(MCPError, match="been used already"):
        asker.post("tools/call", **sent)


@pytest.mark.requirement(
    "meta.undeclared",
    "meta.capability-missing",
    "mrtr.declared",
    "elicit.mode",
    "initialize.capabilities",
    "error.meaning",
)
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_a_client_that_cannot_be_asked_is_told_what_it_lacks(
    revision: str, user: Any, settings: Any
) -> None:
    serve(settings, book)
    client = CheckedClient(user=user, revision=revision, capabilities={"elicitation": {"url": {}}})
    with pytest.raises(MCPError) as raised:
        client.call_tool("book", {"train": "IC 1"})
    assert raised.value.error["code"] == -32021
    assert raised.value.error["data"] == {"requiredCapabilities": {"elicitation": {}}}
    modern = revision == "2026-07-28"
    assert client.response.status_code == (400 if modern else 200)
    text = raised.value.error["message"]
    assert ("declare it in params._meta" in text) is modern
    legacy = "its user (elicitation), which requires MCP 2026-07-28; this client uses MCP 2025-"
    assert (legacy in text) is not modern


@pytest.mark.requirement("elicit.flat")
def test_the_form_has_what_mcp_lets_a_form_have() -> None:
    schema = form_schema(Booking)
    assert schema["required"] == ["seats", "day"]
    assert {name: each["type"] for name, each in schema["properties"].items()} == {
        **{"seats": "integer", "day": "string", "travel": "string", "meal": "string"},
        **{"extras": "array", "window": "boolean", "price": "number", "code": "string"},
    }
    assert schema["properties"]["travel"]["enum"] == ["first", "second"]
    assert schema["properties"]["extras"]["items"] == {"type": "string", "enum": ["bike", "dog"]}
    assert schema["properties"]["day"]["format"] == "date"


@pytest.mark.requirement("elicit.flat")
@pytest.mark.parametrize(
    "hint",
    [Name, dict[str, str], list[str], list[Name], int | str, Literal[1, 2], Any, None],
)
def test_a_model_that_no_form_can_show_is_refused(hint: Any) -> None:
    model = type("Bad", (BaseModel,), {"__annotations__": {"field": hint}})
    with pytest.raises(TypeError, match=r"Bad\.field is not supported in a form"):
        form_schema(model)


class Key(BaseModel):
    key: SecretStr


class Marked(BaseModel):
    word: str = Field(json_schema_extra={"format": "password"})


class Card(BaseModel):
    number: int
    cvc: int


@pytest.mark.requirement("elicit.no-secrets", "elicit.url-for-secrets")
@pytest.mark.parametrize(("model", "field"), [(Key, "key"), (Marked, "word"), (Card, "cvc")])
def test_no_form_asks_for_a_secret(
    model: type[BaseModel], field: str, user: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(context: Context) -> str:
        """Ask for what a client should not see."""
        return str(elicit(context, "Please?", model))

    serve(settings, ask)
    result = CheckedClient(user=user, capabilities=ALL).call_tool("ask")
    assert (result["isError"], "inputRequests" in result) == (True, False)
    assert f"{model.__name__}.{field} is a secret" in caplog.text
    assert "URLElicitRequest" in caplog.text


@pytest.mark.requirement("elicit.flat", "elicit.no-secrets")
@pytest.mark.parametrize(
    ("field", "schema", "why"),
    [
        ("place", {"type": "object", "properties": {"x": {"type": "number"}}}, "is not supported"),
        ("place", {}, "is not supported"),
        ("names", {"type": "array", "items": {"type": "string"}}, "is not supported"),
        ("word", {"type": "string", "format": "password"}, "is a secret by its name"),
        ("word", {"type": "string", "writeOnly": True}, "is a secret by its name"),
        ("api_key", {"type": "string"}, "is a secret by its name"),
    ],
)
def test_a_form_by_hand_is_held_to_the_same_rules(
    field: str,
    schema: Any,
    why: str,
    user: Any,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def ask(context: Context) -> None:
        """Ask by a schema of its own."""
        form = {"type": "object", "properties": {field: schema}}
        raise InputRequired({"form": FormElicitRequest("Please?", form)})

    serve(settings, ask)
    result = CheckedClient(user=user, capabilities=ALL).call_tool("ask")
    assert (result["isError"], "inputRequests" in result) == (True, False)
    assert f"the field {field!r} {why}" in caplog.text


def test_a_form_by_hand_may_have_titles_for_its_choices(user: Any, settings: Any) -> None:
    choices = [{"const": "a", "title": "The first"}, {"const": "b", "title": "The second"}]
    properties = {
        "one": {"type": "string", "oneOf": choices},
        "some": {"type": "array", "items": {"anyOf": choices}},
    }

    def ask(context: Context) -> None:
        """Ask for choices."""
        form = {"type": "object", "properties": properties}
        raise InputRequired({"form": FormElicitRequest("Please?", form)})

    serve(settings, ask)
    result = CheckedClient(user=user, capabilities=ALL).call_tool("ask")
    assert result["inputRequests"]["form"]["params"]["requestedSchema"]["properties"] == properties


@pytest.mark.requirement("mrtr.declared", "meta.undeclared")
def test_who_declares_no_tools_for_its_model_is_sent_none(user: Any, settings: Any) -> None:
    def ask(context: Context) -> None:
        """Have the client's model use tools."""
        options = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
        message = {"role": "user", "content": {"type": "text", "text": "Hi"}}
        raise InputRequired({"words": CreateMessageRequest([message], 9, options)})

    serve(settings, ask)
    with pytest.raises(MCPError) as raised:
        CheckedClient(user=user, capabilities={"sampling": {}}).call_tool("ask")
    assert raised.value.error["code"] == -32021
    wanted = {"sampling": {"tools": {}}}
    assert raised.value.error["data"] == {"requiredCapabilities": wanted}
    result = CheckedClient(user=user, capabilities=wanted).call_tool("ask")
    assert result["inputRequests"]["words"]["params"]["tools"][0]["name"] == "look"


@pytest.mark.requirement("elicit.url-valid")
@pytest.mark.parametrize(
    "url", ["", "sign", "/sign", "https://", "javascript:alert(1)", "http://[x"]
)
def test_a_question_leads_to_a_page(
    url: str, user: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(context: Context) -> None:
        """Send the user somewhere."""
        raise InputRequired({"page": URLElicitRequest("Sign.", url)})

    serve(settings, ask)
    assert CheckedClient(user=user, capabilities=ALL).call_tool("ask")["isError"]
    assert "ValueError" in caplog.text


def gather(context: Context) -> str:
    """Ask for everything at once, and for more where something is missing."""
    requests = {
        "name": FormElicitRequest("Name?", form_schema(Name)),
        "signed": URLElicitRequest("Sign.", "https://example.com/sign"),
        "words": CreateMessageRequest(
            [{"role": "user", "content": {"type": "text", "text": "Hi"}}], 9, {"temperature": 0.5}
        ),
        "roots": ListRootsRequest(),
    }
    missing = {key: requests[key] for key in requests if key not in context.input_responses}
    if missing:
        raise InputRequired(missing, tool_state=[context.tool_state, len(missing)])
    return json.dumps([context.tool_state, sorted(context.input_responses)])


GIVEN: dict[str, Any] = {
    "name": {"action": "accept", "content": {"name": "Ada"}},
    "signed": {"action": "accept"},
    "words": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hello"}},
    "roots": {"roots": [{"uri": "file:///tmp"}]},
}


def answer(client: CheckedClient, result: Any, **responses: Any) -> dict[str, Any]:
    state = result["requestState"]
    return client.post("tools/call", name="gather", inputResponses=responses, requestState=state)


@pytest.mark.requirement(
    "mrtr.pattern",
    "mrtr.unique-keys",
    "mrtr.known-requests",
    "mrtr.not-empty",
    "mrtr.unknown-answers",
    "mrtr.ask-again",
    "http.no-requests",
    "result.known-type",
)
def test_everything_is_asked_at_once_and_what_is_missing_again(user: Any, settings: Any) -> None:
    serve(settings, gather)
    client = CheckedClient(user=user, capabilities=ALL)
    result = client.call_tool("gather")
    assert set(result["inputRequests"]) == set(GIVEN)
    # What was not asked is ignored; what was asked stays answered.
    some = {"name": GIVEN["name"], "roots": GIVEN["roots"], "other": 1}
    result = answer(client, result, **some)
    assert set(result["inputRequests"]) == {"signed", "words"}
    result = answer(client, result, signed=GIVEN["signed"], words=GIVEN["words"])
    assert json.loads(text_of(result)) == [[[None, 4], 2], sorted(GIVEN)]


@pytest.mark.requirement("state.named", "mrtr.state-untrusted")
def test_answers_without_the_state_of_their_questions_are_not_taken(
    user: Any, settings: Any
) -> None:
    serve(settings, gather)
    client = CheckedClient(user=user, capabilities=ALL)
    for state in ({}, {"requestState": None}):
        result = client.post("tools/call", name="gather", inputResponses=GIVEN, **state)
        assert set(result["inputRequests"]) == set(GIVEN)


@pytest.mark.requirement("mrtr.calls-alone")
@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
def test_nothing_is_asked_but_by_a_call(method: str, asker: CheckedClient) -> None:
    state = rounds(asker, "abook", {})["requestState"]
    for sent in ({}, {"requestState": state, "inputResponses": {}}):
        assert asker.post(method, name="abook", **sent)["resultType"] == "complete"


@pytest.mark.requirement("mrtr.malformed")
@pytest.mark.parametrize(
    ("key", "response"),
    [
        ("name", {"action": "perhaps"}),
        ("name", {"action": "accept", "content": "Ada"}),
        ("signed", []),
        ("words", {"role": "assistant", "model": "m"}),
        ("words", {"role": 1, "model": "m", "content": {}}),
        ("roots", {"roots": ["file:///tmp"]}),
        ("roots", {"roots": [{}]}),
        ("roots", {}),
    ],
)
def test_a_malformed_answer_is_refused(key: str, response: Any, user: Any, settings: Any) -> None:
    serve(settings, gather)
    client = CheckedClient(user=user, capabilities=ALL)
    result = client.call_tool("gather")
    with pytest.raises(MCPError, match=f"inputResponses..{key}") as raised:
        answer(client, result, **{**GIVEN, key: response})
    assert raised.value.error["code"] == -32602


@pytest.mark.requirement("meta.capability-missing", "mrtr.declared")
def test_all_that_is_lacking_is_named(user: Any, settings: Any) -> None:
    serve(settings, gather)
    client = CheckedClient(user=user, capabilities={"roots": {}, "elicitation": {}})
    with pytest.raises(MCPError) as raised:
        client.call_tool("gather")
    wanted = {"elicitation": {"url": {}}, "sampling": {}}
    assert raised.value.error["data"] == {"requiredCapabilities": wanted}


def test_a_state_that_is_no_json_is_the_sites_fault(user: Any, settings: Any) -> None:
    def broken(context: Context) -> None:
        """Keep what cannot be kept."""
        raise InputRequired({}, tool_state=object())

    serve(settings, broken)
    result = CheckedClient(user=user, capabilities=ALL).call_tool("broken")
    assert "asked for input that cannot be sent" in text_of(result)

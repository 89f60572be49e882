"""People read all arguments of a call that they confirm, but no secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core import serializers
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from mcp_bridge.access.confirmation import HIDDEN, render_arguments
from mcp_bridge.features.tools import Tool
from mcp_bridge.models import PendingCall
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.audit.test_redaction import (
    EXAMPLES,
    MARKER,
    SECRET_MEMBERS,
    SENT,
    SPELLINGS,
    values,
    with_member,
    with_secrets,
)
from tests.support.confirming import call
from tests.support.serving import served

pytestmark = pytest.mark.django_db


ANY = Tool(
    name="any",
    description="",
    input_schema={"type": "object"},
    check=dict,
    invoke=str,
    encode=CallToolResult.error,
)


class Login(BaseModel):
    user: str
    word: SecretStr


def take(value: Any) -> str:
    """Take anything."""
    raise AssertionError


def connect(login: Login, many: list[SecretStr], names: list[str], **others: SecretStr) -> str:
    """Connect."""
    raise AssertionError


def read(arguments: Any, name: str = "take") -> Any:
    """What a person reads of the arguments, as the JSON that it is."""
    return json.loads(render_arguments(served(name), arguments))


def shown_and_kept(asker: CheckedClient, user: Any, value: Any) -> str:
    """What the client's user reads of a call, and what the database keeps of it in the queue."""
    arguments = {"value": value}
    result = call(asker, "take", arguments=arguments)
    (question,) = result["inputRequests"].values()
    PendingCall.objects.all().delete()
    call(CheckedClient(user=user), "take", arguments=arguments)
    return question["params"]["message"] + serializers.serialize("json", PendingCall.objects.all())


def test_a_secret_by_its_name_is_not_shown(asker: CheckedClient, user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"SENSITIVE_NAMES": ["iban", "-"]}}
    serve(settings, take, confirm=True)
    value = dict.fromkeys([*SPELLINGS, "IBAN"], MARKER)
    assert read({"value": {**value, "page": "x"}}) == {
        "value": {**dict.fromkeys(value, HIDDEN), "page": "x"}
    }
    text = shown_and_kept(asker, user, [value, json.dumps({"page": "seen", **value})])
    assert MARKER not in text
    assert "seen" in text


def test_the_sites_own_names_count_without_an_audit(settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": None}
    serve(settings, take, confirm=True)
    assert read({"value": {"token": MARKER, "iban": "x"}}) == {
        "value": {"token": HIDDEN, "iban": "x"}
    }


def test_a_secret_by_its_type_is_not_shown(settings: Any) -> None:
    serve(settings, connect, confirm=True)
    arguments = {
        "login": {"user": "ada", "word": MARKER},
        "many": [MARKER, MARKER],
        "names": ["x"],
        "door": MARKER,
    }
    assert read(arguments, "connect") == {
        "login": {"user": "ada", "word": HIDDEN},
        "many": HIDDEN,
        "names": ["x"],
        "door": HIDDEN,
    }


@pytest.mark.parametrize(("member", "beside"), SECRET_MEMBERS.values(), ids=SECRET_MEMBERS)
def test_a_value_that_a_given_schema_marks_is_not_shown(
    member: Any, beside: Any, asker: CheckedClient, user: Any, settings: Any
) -> None:
    serve(settings, take, confirm=True, input_schema=with_member(member, beside))
    text = shown_and_kept(asker, user, {"code": MARKER, "shown": "seen"})
    assert MARKER not in text
    assert text.count("seen") == 2


@examples(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 200)
@given(with_secrets(SENT))
def test_a_secret_is_shown_nowhere(value: Any) -> None:
    assert MARKER not in render_arguments(ANY, {"value": value})


@examples(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 200)
@given(values(st.none() | st.booleans() | st.integers() | st.text(), names=st.sampled_from("abc")))
def test_all_else_is_shown_to_the_last_character(value: Any) -> None:
    text = render_arguments(ANY, {"value": value})
    assert json.loads(text) == {"value": value}
    assert all(each.isprintable() or each == "\n" for each in text)


LONG = "a" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        *(LONG, '{"a": [1,  2.50], "a2": "b"}', '["x"', '"quoted"', "{}", "[1, 1]", "{not JSON}"),
        '{"a": 1, "a": 2}',
    ],
)
def test_a_text_is_shown_as_it_was_sent(text: str, settings: Any) -> None:
    serve(settings, take)
    assert read({"value": [text]}) == {"value": [text]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a":1,"token":"MARKER"}', '{"a": 1, "token": "•••"}'),
        ('["{\\"pin\\": 1}", "b"]', '["{\\"pin\\": \\"•••\\"}", "b"]'),
        ('{"token": "MARKER', HIDDEN),
        ('{"a": {"token": "MARKER"}, "a": 1}', HIDDEN),
    ],
)
def test_a_secret_in_a_string_of_json_is_not_shown(text: str, shown: str, settings: Any) -> None:
    serve(settings, take)
    assert read({"value": text}) == {"value": shown}


def test_a_deeply_nested_value_is_shown(settings: Any) -> None:
    serve(settings, take)
    deep: Any = "end"
    for _ in range(12):
        for _ in range(55):
            deep = [deep]
        deep = json.dumps(deep)
    for text in (deep, "[" * 100_000, "[" * 1_000 + "]" * 1_000):
        assert read({"value": text}) == {"value": text}


@pytest.mark.parametrize("hidden", "\u202e\u200b\u00a0\0\u3164\u2800\ufe0f\U000e0041\u034f")
def test_a_character_that_does_not_show_is_spelled_out(hidden: str, settings: Any) -> None:
    serve(settings, take)
    text = render_arguments(served("take"), {f"a{hidden}": f"b{hidden}"})
    assert hidden not in text
    assert json.loads(text) == {f"a{hidden}": f"b{hidden}"}

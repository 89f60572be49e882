"""People see all arguments of a call that they confirm, except secrets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.core import serializers
from django.core.management import call_command
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from mcp_bridge.confirmation.rendering import HIDDEN, render_arguments
from mcp_bridge.features.tools import Tool
from mcp_bridge.models import PendingCall
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.records.test_redaction import (
    EXAMPLES,
    MARKER,
    SECRET_MEMBERS,
    SPELLINGS,
    values,
    with_member,
)
from tests.support.administrator import serve_tools
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


class Secretive(BaseModel):
    token: str


def take(value: Any) -> str:
    """Take anything."""
    raise AssertionError


def connect(login: Login, many: list[SecretStr], names: list[str], **others: SecretStr) -> str:
    """Connect."""
    raise AssertionError


def read(arguments: Any, name: str = "take") -> Any:
    """Return the arguments as shown to a person, parsed from JSON."""
    return json.loads(render_arguments(served(name), arguments))


def shown_and_kept(asker: CheckedClient, user: Any, value: Any) -> str:
    """Return the question to the client's user and the row of the call in the queue."""
    arguments = {"value": value}
    result = call(asker, "take", arguments=arguments)
    (question,) = result["inputRequests"].values()
    PendingCall.objects.all().delete()
    call(CheckedClient(user=user), "take", arguments=arguments)
    return question["params"]["message"] + serializers.serialize("json", PendingCall.objects.all())


def declaring(*names: str) -> dict[str, Any]:
    """Return an input schema with a parameter, ``value``, whose schema names these members."""
    members = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    either = {"anyOf": [{"type": "array", "items": members}, members]}
    return {"type": "object", "properties": {"value": either}}


def test_secret_names_are_hidden(asker: CheckedClient, user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"SENSITIVE_NAMES": ["iban", "-"]}}
    value = dict.fromkeys([*SPELLINGS, "IBAN"], MARKER)
    serve(settings, take, confirm=True, input_schema=declaring(*value, "page"))
    assert read({"value": {**value, "page": "x"}}) == {
        "value": {**dict.fromkeys(value, HIDDEN), "page": "x"}
    }
    text = shown_and_kept(asker, user, [value, {"page": "seen", **value}])
    assert MARKER not in text
    assert "seen" in text


def test_configured_sensitive_names_apply_without_audit(settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": None}
    serve(settings, take, confirm=True, input_schema=declaring("token", "iban"))
    assert read({"value": {"token": MARKER, "iban": "x"}}) == {
        "value": {"token": HIDDEN, "iban": "x"}
    }


def sign_in(password: str, login: Login, text: str, data: dict[str, Any]) -> str:
    """Sign in."""
    raise AssertionError


# Values that try to hide their content from the reader.
BLINDS = [
    f'"{MARKER} # password',
    f"{{ password: {MARKER}",
    f'[{{"token": "{MARKER}"}}]',
    f' {{"password": 1, "text": "{MARKER}"}}',
    json.dumps(json.dumps({"secret": MARKER})),
    f'\ufeff{{"word": "{MARKER}"}}',
]


@pytest.mark.parametrize("text", BLINDS)
def test_crafted_values_are_shown_to_the_decider(
    text: str, asker: CheckedClient, user: Any, settings: Any, admin_client: Any, capsys: Any
) -> None:
    serve_tools(settings, take, confirm=True)
    for value in (text, [text], {"password": text}, {text: "x"}):
        told = shown_and_kept(asker, user, value)
        assert told.count(MARKER) == 2, told
        row = PendingCall.objects.get()
        page = admin_client.get(f"/admin/mcp_bridge/pendingcall/{row.pk}/change/").content.decode()
        assert MARKER in page, page
        for options in ([], ["--json"]):
            call_command("mcp_pending", "list", str(row.pk), *options)
            assert MARKER in capsys.readouterr().out


def test_only_names_declared_by_the_schema_are_hidden(settings: Any) -> None:
    serve(settings, sign_in, confirm=True)
    # The schema marks "word" in a place other than the one the caller uses.
    seen = {"password": "seen", "word": "seen", "deep": [{"login": {"word": "seen"}}]}
    arguments = {
        "password": MARKER,
        "login": {"user": "ada", "word": MARKER},
        "text": json.dumps(seen),
        "data": seen,
    }
    assert read(arguments, "sign_in") == {
        **arguments,
        "password": HIDDEN,
        "login": {"user": "ada", "word": HIDDEN},
    }


def test_name_in_one_item_hides_nothing_in_others(settings: Any) -> None:
    def pair(value: tuple[Secretive, dict[str, str]], *, branch: Secretive | str) -> str:
        """Take a pair."""
        raise AssertionError

    serve(settings, pair, confirm=True)
    held = {"token": "x"}
    assert read({"value": [held, held], "branch": held}, "pair") == {
        "value": [{"token": HIDDEN}, held],
        "branch": {"token": HIDDEN},
    }


def test_secret_types_are_hidden(settings: Any) -> None:
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
def test_values_marked_by_an_explicit_schema_are_hidden(
    member: Any, beside: Any, asker: CheckedClient, user: Any, settings: Any
) -> None:
    serve(settings, take, confirm=True, input_schema=with_member(member, beside))
    text = shown_and_kept(asker, user, {"code": MARKER, "shown": "seen"})
    assert MARKER not in text
    assert text.count("seen") == 2


@examples(max_examples=EXAMPLES, deadline=None)
@given(values(st.none() | st.booleans() | st.integers() | st.text(), names=st.text(max_size=9)))
def test_other_values_are_shown_completely(value: Any) -> None:
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
def test_strings_are_shown_as_sent(text: str, settings: Any) -> None:
    serve(settings, take)
    assert read({"value": [text]}) == {"value": [text]}


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
def test_schema_can_hide_unnamed_members(keyword: str) -> None:
    schema = {"type": "object", "properties": {"named": {}}, keyword: {"writeOnly": True}}
    shown = render_arguments(replace(ANY, input_schema=schema), {"named": "seen", "other": MARKER})
    assert json.loads(shown) == {"named": "seen", "other": HIDDEN}


def test_letters_of_every_script_are_shown_unescaped() -> None:
    assert "für Žofie и 愛" in render_arguments(ANY, {"value": "für Žofie и 愛"})


def test_deeply_nested_value_is_shown(settings: Any) -> None:
    serve(settings, take)
    deep: Any = "end"
    for _ in range(12):
        for _ in range(55):
            deep = [deep]
        deep = json.dumps(deep)
    for text in (deep, "[" * 100_000, "[" * 1_000 + "]" * 1_000):
        assert read({"value": text}) == {"value": text}


@pytest.mark.parametrize("hidden", "\u202e\u200b\u00a0\0\u3164\u2800\ufe0f\U000e0041\u034f")
def test_invisible_characters_are_escaped(hidden: str, settings: Any) -> None:
    serve(settings, take)
    text = render_arguments(served("take"), {f"a{hidden}": f"b{hidden}"})
    assert hidden not in text
    assert json.loads(text) == {f"a{hidden}": f"b{hidden}"}


def test_invalid_schema_hides_everything() -> None:
    broken = replace(ANY, input_schema={"type": "object", "allOf": 5})
    assert json.loads(render_arguments(broken, {"value": MARKER})) == {"value": HIDDEN}


@pytest.mark.parametrize("value", ["x" * 70_000, [[]] * 70_000, [[]] * 20_000])
def test_rendering_stops_at_the_limit(value: Any, asker: CheckedClient, settings: Any) -> None:
    serve(settings, take, confirm=True)
    assert "the limit of 65536 characters" in text_of(
        call(asker, "take", arguments={"value": value})
    )
    assert not PendingCall.objects.exists()

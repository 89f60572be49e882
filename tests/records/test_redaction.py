"""Recorded arguments are storable, bounded, and without secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import SecretStr

from mcp_bridge import ToolError
from mcp_bridge.features import Context, Tool
from mcp_bridge.features.secrets import SENSITIVE, SENSITIVE_WORDS
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.protocol.text import storable
from mcp_bridge.records.redaction import (
    CUT,
    HIDDEN,
    SensitiveFields,
    redact_to_json,
    sensitive_fields,
)
from mcp_bridge.server.perform import call
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.schemas.drawing import texts
from tests.support.recording import record
from tests.support.serving import served, taking

MARKER = "MARKER-7f3a"
BY_MARKS = SensitiveFields(name_parts=None)
SPELLINGS = [
    "password",
    "PASSWORD",
    "new_password",
    "userPassword",
    "api-key",
    "API_KEY",
    "apiKey",
    "x.access.token",
    "clientSecret",
    "Set-Cookie",
    "userPin",
    "PIN",
    "otp_code",
    "http_auth",
    *SENSITIVE,
    *SENSITIVE_WORDS,
]
TEXT = st.text(max_size=20) | st.text(st.characters(codec=None, categories=["Cs", "Cc"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary()
# Values that a client can send, and a tool receives.
SENT = st.none() | st.integers(-9, 9) | texts(max_size=9)
# "make fuzz" tries more, and new ones.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))


def values(
    scalars: st.SearchStrategy[Any], names: st.SearchStrategy[str] | None = None
) -> st.SearchStrategy[Any]:
    """Return the scalars, alone and in lists and objects with members of these names."""
    if names is None:
        names = texts(max_size=9) if scalars is SENT else TEXT
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
        max_leaves=20,
    )


def secret(value: Any) -> Any:
    """Return the marker at the end of a value: alone, listed, or under a name."""
    return {"value": value, "more": [MARKER, {"x": MARKER, MARKER: 1}], "text": MARKER}


@st.composite
def with_secrets(draw: st.DrawFn, scalars: st.SearchStrategy[Any] = SCALARS) -> Any:
    """Return a value in which only a secret name holds the marker, at some depth."""
    around = values(scalars)
    held: Any = {draw(st.sampled_from(SPELLINGS)): secret(draw(around))}
    for _ in range(draw(st.integers(0, 9))):
        match draw(st.integers(0, 3)):
            case 0:
                held = [draw(around), held]
            case 1:
                held = {"value": draw(around), "inner": held}
            case 2:
                held = (held,)
            case _:
                # As several clients send objects; truncated, or wrapped in text.
                try:
                    held = json.dumps(held) + draw(st.sampled_from(["", " ", "]", "x"]))
                except (TypeError, ValueError):
                    held = {"inner": held}
    return held


@examples(max_examples=EXAMPLES, deadline=None)
@given(with_secrets(), st.integers(256, 2000))
def test_member_with_a_secret_name_is_not_recorded(value: Any, limit: int) -> None:
    text = redact_to_json(value, limit=limit, secrets=SensitiveFields())
    assert MARKER not in text
    assert len(text.encode()) <= limit
    assert "\0" not in text
    # The record is JSON, and redacting it again changes nothing that is hidden.
    assert MARKER not in redact_to_json(json.loads(text), limit=limit, secrets=SensitiveFields())


@examples(max_examples=100, deadline=None)
@given(values(SCALARS), st.integers(256, 400), st.booleans())
def test_record_is_bounded_json(value: Any, limit: int, by_name: bool) -> None:
    text = redact_to_json(value, limit=limit, secrets=SensitiveFields() if by_name else BY_MARKS)
    assert len(text.encode()) <= limit
    json.loads(text)


@given(st.text(), st.integers(1, 50))
def test_text_is_made_storable(text: str, length: int) -> None:
    kept = storable(text, length)
    assert len(kept) <= length
    assert "\0" not in kept
    kept.encode()
    assert storable(kept, length) == kept


@pytest.mark.parametrize(
    "harmless", ["page", "keyboard", "author", "footpath", "passenger", "spinner", "opinion", "id"]
)
def test_other_names_are_kept(harmless: str) -> None:
    assert json.loads(
        redact_to_json({harmless: "said"}, limit=1000, secrets=SensitiveFields())
    ) == {harmless: "said"}


def test_site_can_add_further_names() -> None:
    value = {"IBAN": MARKER, "bank-iban": MARKER, "password": "x"}
    with override_settings(MCP_BRIDGE={"AUDIT": {"SENSITIVE_NAMES": ["iban", "_"]}}):
        kept = redact_to_json({**value, "name": "x"}, limit=1000, secrets=sensitive_fields(None))
    assert json.loads(kept) == {**dict.fromkeys(value, HIDDEN), "name": "x"}
    assert json.loads(redact_to_json(value, limit=1000, secrets=BY_MARKS)) == value


def test_json_in_strings_is_redacted() -> None:
    value = {"a": json.dumps({"password": MARKER, "b": 1}), "c": '{"password": "' + MARKER}
    kept = json.loads(redact_to_json(value, limit=1000, secrets=SensitiveFields()))
    assert json.loads(kept["a"]) == {"password": HIDDEN, "b": 1}
    assert kept["c"] == HIDDEN


def connect(user: str, *, look: dict[str, str], **others: SecretStr) -> str:
    """Connect."""
    raise AssertionError


def test_schema_can_mark_all_members_without_a_name(settings: Any) -> None:
    serve(settings, connect)
    value = {"user": "ada", "look": {"user": "x"}, "door": MARKER, "more": {"user": MARKER}}
    for by_name in (True, False):
        kept = redact_to_json(
            value, limit=1000, secrets=sensitive_fields(served("connect"), by_name=by_name)
        )
        assert json.loads(kept) == {**value, "door": HIDDEN, "more": HIDDEN}
    # The end of the secret in it cannot be found.
    text = json.dumps({"user": '{"door": "' + MARKER})
    assert MARKER not in redact_to_json(
        text, limit=1000, secrets=sensitive_fields(served("connect"), by_name=False)
    )


SECRET = {"type": "string", "writeOnly": True}
# Schemas of a member, each with the neighbours that it needs at the root.
SECRET_MEMBERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "writeOnly": (SECRET, {}),
    "format": ({"type": "string", "format": "password"}, {}),
    "format behind a reference": (
        {"$ref": "#/$defs/key"},
        {"$defs": {"key": {"type": "string", "format": "password"}}},
    ),
    "pointer": ({"$ref": "#/$defs/key"}, {"$defs": {"key": SECRET}}),
    "escaped pointer": ({"$ref": "#/$defs/a~1b~0"}, {"$defs": {"a/b~": SECRET}}),
    "percent-encoded": ({"$ref": "#/$defs/a%20key"}, {"$defs": {"a key": SECRET}}),
    "percent-encoded keyword": ({"$ref": "#/%24defs/key"}, {"$defs": {"key": SECRET}}),
    "anchor": ({"$ref": "#key"}, {"$defs": {"k": {"$anchor": "key", **SECRET}}}),
    "dynamic anchor": (
        {"$dynamicRef": "#key"},
        {"$defs": {"k": {"$dynamicAnchor": "key", **SECRET}}},
    ),
    "id": ({"$ref": "urn:key"}, {"$defs": {"k": {"$id": "urn:key", **SECRET}}}),
    "relative id": (
        {"$ref": "key.json"},
        {"$id": "https://example.com/all.json", "$defs": {"k": {"$id": "key.json", **SECRET}}},
    ),
    "within an id": (
        {"$ref": "urn:both#/$defs/one"},
        {
            "$defs": {
                "both": {
                    "$id": "urn:both",
                    "$defs": {"one": {"$ref": "#/$defs/two"}, "two": SECRET},
                },
                "two": {"type": "string"},
            }
        },
    ),
    "no keyword": ({"$ref": "#/own/key"}, {"own": {"key": SECRET}}),
    "chain": (
        {"$ref": "#one"},
        {
            "$defs": {
                "one": {"$anchor": "one", "allOf": [{"$ref": "#two"}]},
                "two": {"$anchor": "two", "anyOf": [{"type": "null"}, SECRET]},
            }
        },
    ),
    "items": (
        {"type": ["array", "string"], "items": {"$ref": "#key"}},
        {"$defs": {"k": {"$anchor": "key", **SECRET}}},
    ),
    "a member of what is referred to": (
        {"$ref": "#code"},
        {
            "$defs": {
                "c": {
                    "$anchor": "code",
                    "type": ["object", "string"],
                    "properties": {"key": {}},
                    "additionalProperties": {"$ref": "#key"},
                },
                "k": {"$anchor": "key", **SECRET},
            }
        },
    ),
}


def with_member(member: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    """
    Return an input schema with a parameter, ``value``, that has a member ``code`` of that schema.
    """
    value = {"type": "object", "properties": {"code": member, "shown": {"type": "string"}}}
    return {"type": "object", "properties": {"value": value}, **beside}


@pytest.mark.parametrize(("member", "beside"), SECRET_MEMBERS.values(), ids=SECRET_MEMBERS)
def test_value_marked_by_a_given_schema_is_not_recorded(
    member: Any, beside: Any, modern: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}}
    serve(settings, taking(Any), input_schema=with_member(member, beside))
    result = modern.call_tool("take", {"value": {"code": MARKER, "shown": "seen"}})
    assert not result["isError"]
    assert json.loads(record().arguments) == {"value": {"code": HIDDEN, "shown": "seen"}}


def test_recursive_schema_is_read_once(settings: Any) -> None:
    tree = {"type": "object", "properties": {}, "additionalProperties": {"$ref": "#"}}
    serve(settings, taking(Any), input_schema=tree)
    fields = sensitive_fields(served("take"))
    assert (fields.marked, fields.allowed) == (frozenset(), None)


def test_unreadable_schema_makes_every_argument_a_secret(settings: Any) -> None:
    serve(settings, taking(str))
    broken = replace(served("take"), input_schema={"type": "object", "allOf": 5})
    text = redact_to_json({"value": MARKER}, limit=1000, secrets=sensitive_fields(broken))
    assert json.loads(text) == {"value": HIDDEN}


@pytest.mark.parametrize(
    ("sent", "recorded"),
    [
        ("data:image/png;base64,iVBORw0KGgo=", "data:image/png;base64,… (8 bytes)"),
        (
            "data:text/plain;charset=utf-8;base64,YQ==",
            "data:text/plain;charset=utf-8;base64,… (1 bytes)",
        ),
        ("DATA:;base64,YWJj", "DATA:;base64,… (3 bytes)"),
        ("data:,hello", "data:,… (5 bytes)"),
        ("data:image/png;base64," + "A" * 4_000_000, "data:image/png;base64,… (3000000 bytes)"),
        ("data: the figures, all of them", "data: the figures, all of them"),
        ("see data:image/png;base64,iVBORw0KGgo=", "see data:image/png;base64,iVBORw0KGgo="),
    ],
    ids=["picture", "parameter", "no type", "not encoded", "large", "prose", "inside"],
)
def test_media_type_and_size_of_a_file_are_recorded(sent: str, recorded: str) -> None:
    text = redact_to_json({"files": [sent]}, limit=1000, secrets=SensitiveFields())
    assert json.loads(text) == {"files": [recorded]}


@pytest.mark.parametrize("limit", [256, 300, 400])
@pytest.mark.parametrize(
    "value",
    [10**308, "\\" * 500, ['"' * 90] * 9, [[[10**300] * 3] * 3] * 3],
    ids=["number", "escaped", "texts", "numbers"],
)
def test_record_is_bounded_at_every_cut(value: Any, limit: int) -> None:
    for count in range(limit):
        text = redact_to_json(["x" * count, value], limit=limit, secrets=SensitiveFields())
        assert len(text.encode()) <= limit
        json.loads(text)


@pytest.mark.parametrize(("limit", "count"), [(256, 3), (300, 5), (400, 8)])
def test_hidden_values_count_by_their_replacement(limit: int, count: int) -> None:
    value = [{"password": "x"}] * 100
    text = redact_to_json(value, limit=limit, secrets=SensitiveFields())
    assert text.count(HIDDEN) == count


def test_beginning_of_a_cut_text_is_recorded() -> None:
    text = redact_to_json(["ab" * 500, 1], limit=400, secrets=SensitiveFields())
    begun, *rest = json.loads(text)
    assert begun[:30] == "ab" * 15
    assert begun.strip("ab") == "…"
    assert rest == [1]


def nested(times: int, around: Callable[[Any], Any]) -> Any:
    """Return a text in so many lists or objects."""
    value: Any = "end"
    for _ in range(times):
        value = around(value)
    return value


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (["ab" * 60, "cd" * 60], ["abababababababab…", "cdcdcdcdcdcd…"]),
        ({"a": "b" * 120, "c": 1, "d": 2}, {"a": "bbbbbbbbbbbbbbbb…", "c": 1, "d": 2}),
        ({"a" * 120: 1, "b": 2}, {"aaaaaaaaaaaaaaaaa…": 1, "b": 2}),
        ([1] * 40, [1] * 15 + ["…", "…"]),
        (
            {str(number): number for number in range(40)},
            {**{str(number): number for number in range(10)}, "10": "…", "…": "…"},
        ),
    ],
    ids=["texts", "member", "name", "items", "members"],
)
def test_each_value_is_cut_to_its_share(value: Any, recorded: Any) -> None:
    assert json.loads(redact_to_json(value, limit=256, secrets=SensitiveFields())) == recorded


@pytest.mark.parametrize("around", [lambda value: [value], lambda value: {"a": value}])
def test_eight_levels_are_recorded(around: Callable[[Any], Any]) -> None:
    for times in range(9):
        value = nested(times, around)
        text = redact_to_json(value, limit=1000, secrets=SensitiveFields())
        assert json.loads(text) == value
    text = redact_to_json(nested(9, around), limit=1000, secrets=SensitiveFields())
    assert "end" not in text
    assert text.count("a") in (0, 8)


def test_json_text_counts_from_its_level() -> None:
    value = [[[[[json.dumps([[[["end"]]]])]]]]]
    text = redact_to_json(value, limit=1000, secrets=SensitiveFields())
    assert "end" not in text
    assert CUT in text


# The bytes that a record reserves for its end, and those counted around each value.
AROUND = 150


@pytest.mark.parametrize("value", ["a" * 40, "", 12345, -1, True, None, 1.5, 2**2048 - 1])
def test_value_that_just_fits_is_kept(value: Any) -> None:
    least = AROUND + len(json.dumps(value))
    kept = redact_to_json(value, limit=least, secrets=BY_MARKS)
    assert json.loads(kept) == value
    assert json.loads(redact_to_json(value, limit=least - 1, secrets=BY_MARKS)) != value


def test_larger_integers_are_recorded_by_their_type() -> None:
    kept = redact_to_json([2**2048, -(2**2048)], limit=10_000, secrets=BY_MARKS)
    assert json.loads(kept) == ["(int)", "(int)"]


def test_object_without_space_is_cut_whole() -> None:
    cut = [redact_to_json({"a": 1}, limit=AROUND + more, secrets=BY_MARKS) for more in (0, 1)]
    assert [json.loads(each) for each in cut] == [CUT, {CUT: CUT}]


def test_broken_json_with_a_marked_name_is_hidden() -> None:
    secrets = SensitiveFields(marked=frozenset({"door", "gate"}), name_parts=None)
    value = ['{"door": "' + MARKER, '{"window": "open', '{"window": "gate']
    kept = redact_to_json(value, limit=1000, secrets=secrets)
    assert json.loads(kept) == [HIDDEN, '{"window": "open', HIDDEN]


@pytest.mark.parametrize(("kept", "said"), [("full", MARKER), ("redacted", HIDDEN)])
def test_error_shows_what_arguments_show(
    kept: str, said: str, modern: CheckedClient, settings: Any
) -> None:
    def enter(password: str) -> None:
        """Enter."""
        raise ToolError(f"The password {password} is wrong.")

    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": kept}}
    serve(settings, enter)
    modern.call_tool("enter", {"password": MARKER.replace("-", "")})
    found = record()
    assert found.error_text == f"The password {said.replace('-', '')} is wrong."
    assert json.loads(found.arguments) == {"password": said.replace("-", "")}


def test_protocol_error_is_recorded_with_its_text(user: Any, settings: Any) -> None:
    serve(settings, taking(str))
    with pytest.raises(MCPError) as refused:
        MCPClient(user=user).call_tool("made-up")
    assert record().error_text == refused.value.error["message"]


def test_value_outside_of_json_is_recorded_by_its_type() -> None:
    value = [Decimal("1.5"), {1}, float("nan"), 2**3000, None]
    text = redact_to_json(value, limit=1000, secrets=SensitiveFields())
    assert json.loads(text) == ["(Decimal)", "(set)", "nan", "(int)", None]


def test_value_that_raises_when_read_is_not_kept(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError(MARKER)

    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    tool = Tool(
        name="odd",
        description="",
        check=dict,
        invoke=lambda call: 1,
        encode=lambda value: CallToolResult.error("no"),
    )
    arguments: Any = {Odd(): 1}
    assert call(tool, arguments, Context(user=None)).is_error  # type: ignore[union-attr]
    found = record()
    assert (found.outcome, found.arguments, found.error_text) == ("failed", "", "")
    said = [each.getMessage() for each in caplog.records if each.name == "mcp_bridge.records"]
    assert [text.split(" of a ")[0] for text in said] == ["The arguments", "The error"]

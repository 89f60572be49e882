"""Secrets are hidden by the names of members, also in JSON texts, and credentials by form."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mcp_bridge.records.redaction import SensitiveFields, redact_to_json, sensitive_fields
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.recording import record
from tests.support.serving import taking

MARKER = "MARKER-7f3a"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.MARKER-7f3a"
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))

HIDDEN_IN: dict[str, Any] = {
    # Names in other characters.
    "full-width name": {"\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44": MARKER},
    "full-width word": {"\uff30\uff29\uff2e": MARKER},
    "name with an accent": {"pa\u0301ssword": MARKER},
    "name with a zero-width space": {"pass\u200bword": MARKER},
    "name with a soft hyphen": {"pass\u00adword": MARKER},
    "mathematical letters": {"\U0001d429\U0001d41a\U0001d42c\U0001d42cword": MARKER},
    "long s": {"pa\u017f\u017fword": MARKER},
    # Texts of JSON.
    "JSON after a BOM": "\ufeff" + json.dumps({"password": MARKER}),
    "JSON after BOMs and white space": " \ufeff\n\ufeff " + json.dumps({"password": MARKER}),
    "JSON with a BOM inside JSON": json.dumps({"a": "\ufeff" + json.dumps({"otp": MARKER})}),
    "escaped name in JSON": f'{{"\\u0074oken": "{MARKER}"}}',
    "full-width name in JSON": f'{{"\uff54oken": "{MARKER}"}}',
    "full-width name in broken JSON": f'{{"\uff54oken": "{MARKER}"',
    # Credentials, by their form.
    "user in an address": f"see postgres://ada:{MARKER}@db.example:5432/site for it",
    "user without a password": f"https://{MARKER}@x.example/",
    "bearer": f"curl -H 'X: Bearer {MARKER}' it",
    "basic": f"it sent basic {MARKER} there",
    "a token of this app": f"use mcp_{'x' * 36}{MARKER} please",
    "JWT": f"use {JWT} for it",
    "base64 of JSON": f"eyJwYXNzd29yZCI6ICJ{MARKER}",
    "PEM": f"the key\n-----BEGIN RSA PRIVATE KEY-----\n{MARKER}\n-----END RSA PRIVATE KEY-----\nok",
    "PEM that is cut": f"-----BEGIN PRIVATE KEY-----\nMIIE{MARKER}",
    "PEM in one line": f"-----BEGIN OPENSSH PRIVATE KEY-----\\n{MARKER}\\n",
    "in a key": {f"Bearer {MARKER}": 1},
}


@pytest.mark.parametrize("sent", HIDDEN_IN.values(), ids=HIDDEN_IN)
def test_secrets_are_not_recorded(sent: Any) -> None:
    for value in (sent, [sent], {"deep": {"deeper": [sent]}}):
        kept = redact_to_json({"value": value}, limit=16_384, secrets=SensitiveFields())
        assert MARKER not in kept
        assert "[redacted]" in kept
        again = redact_to_json(json.loads(kept), limit=16_384, secrets=SensitiveFields())
        assert again == kept


def test_text_around_a_credential_is_kept() -> None:
    for sent, kept in [
        (f"see https://ada:{MARKER}@x.example/a", "see https://[redacted]@x.example/a"),
        (f"-H 'X: Bearer {MARKER}' it", "-H 'X: [redacted]' it"),
        (f"a\n-----BEGIN A-----\n{MARKER}\n-----END A-----\nb", "a\n[redacted]\nb"),
    ]:
        text = redact_to_json({"a": sent}, limit=1000, secrets=SensitiveFields())
        assert json.loads(text) == {"a": kept}


HARMLESS: dict[str, Any] = {
    "prose": "The author passes: it is said that 5 > 3, and a = b; see https://x.example/?page=1",
    "pair": {"name": "title", "value": "said"},
    "name as a value": {"name": "password", "value": "said"},
    "form": "user=ada&password=said",
    "tags": ["news", "author", "opinion"],
    "percent": "100% of 50%25 at 20 %",
    "backslash": "C:\\users\\ada \\n \\u00e4",
    "address": "https://x.example:8000/a@b?q=1#a",
    "mail": "ada@x.example",
    "basic prose": "the basic idea and its bearer",
    "certificate word": "-----BEGIN----- of it",
    "numbers": [1, 2.5, None, True],
}


@pytest.mark.parametrize("sent", HARMLESS.values(), ids=HARMLESS)
def test_other_values_are_kept(sent: Any) -> None:
    kept = redact_to_json({"value": sent}, limit=16_384, secrets=SensitiveFields())
    assert json.loads(kept) == {"value": sent}


def test_call_leaves_no_secret_in_its_record(modern: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    serve(settings, taking(Any))
    result = modern.call_tool("take", {"value": list(HIDDEN_IN.values())})
    assert not result["isError"]
    kept = record().arguments
    assert MARKER not in kept
    assert kept.count("[redacted]") >= len(HIDDEN_IN)


def test_names_of_the_site_are_hidden_in_json_texts() -> None:
    with override_settings(MCP_BRIDGE={"AUDIT": {"SENSITIVE_NAMES": ["iban"]}}):
        secrets = sensitive_fields(None)
    kept = redact_to_json([json.dumps({"IBAN": MARKER})], limit=999, secrets=secrets)
    assert json.loads(kept) == ['{"IBAN": "[redacted]"}']


def test_unmarked_values_are_kept_if_only_marks_count() -> None:
    by_marks = SensitiveFields(name_parts=None)
    for sent in HIDDEN_IN.values():
        assert MARKER in redact_to_json([sent], limit=16_384, secrets=by_marks)


@examples(max_examples=EXAMPLES, deadline=None)
@given(st.text(st.sampled_from("a=:\"'<>%\\&; \npassword7eyJ.{}[]@/-\ufeff"), max_size=60))
def test_redacted_text_is_not_changed_again(text: str) -> None:
    once = redact_to_json([text], limit=16_384, secrets=SensitiveFields())
    assert redact_to_json(json.loads(once), limit=16_384, secrets=SensitiveFields()) == once


LONG = {
    "a word": "x",
    "spaces": "a ",
    "blanks": " ",
    "addresses": "://a",
    "users": "://a@",
    "keys": "-----BEGIN ",
    "JWT": "eyJ",
    "schemes": "Bearer ",
    "brackets": "[",
    # Prefixes that occur once, before the repeated part.
    "a key without end": ("-----BEGIN ", "A"),
    "a key of ends": ("-----BEGIN A-----", "-----END A"),
    "a scheme of blanks": ("Bearer", " "),
    "a credential of letters": ("Bearer ", "~"),
    "a user without end": ("://", "a"),
    "a file without data": ("data:a/b", ";a"),
}


@pytest.mark.parametrize("part", LONG.values(), ids=LONG)
def test_long_texts_take_proportional_time(part: str | tuple[str, str]) -> None:
    """The time is at most a second: in quadratic time it would be minutes."""
    start, part = ("", part) if isinstance(part, str) else part
    text = start + part * (256_000 // len(part))
    began = time.thread_time()
    redact_to_json([text], limit=10_000_000, secrets=SensitiveFields())
    assert time.thread_time() - began < 10

"""A secret is hidden in whatever spelling its name stands beside it, and in whatever text it is."""

from __future__ import annotations

import json
import os
import time
from typing import Any
from urllib.parse import quote

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mcp_bridge.features.secrets import SENSITIVE, SENSITIVE_WORDS
from mcp_bridge.records.redaction import SensitiveFields, redact_to_json
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.recording import record
from tests.support.serving import taking

MARKER = "MARKER-7f3a"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.MARKER-7f3a"
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))

HIDDEN_IN: dict[str, Any] = {
    # Objects and lists that hold a name and its value apart.
    "name and value": {"name": "password", "value": MARKER},
    "key and value": [{"key": "API_KEY", "value": {"any": [MARKER]}}],
    "value before its name": {"Value": MARKER, "Name": "client-secret"},
    "a header": {"header": "Authorization", "content": MARKER},
    "several values": {"field": "apiKey", "values": [MARKER]},
    "a header in a list": [["Accept", "*/*"], ["Authorization", f"Bearer {MARKER}"]],
    "a header with a colon": ["Cookie:", MARKER],
    "options of a command": ["curl", "--user", "ada", "--password", MARKER, "https://x.example"],
    "an option with its value": ["mysql", f"--password={MARKER}"],
    # Names in other characters.
    "full-width name": {"\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44": MARKER},
    "full-width word": {"\uff30\uff29\uff2e": MARKER},
    "name with an accent": {"pa\u0301ssword": MARKER},
    "name with a zero-width space": {"pass\u200bword": MARKER},
    "name with a soft hyphen": {"pass\u00adword": MARKER},
    "mathematical letters": {"\U0001d429\U0001d41a\U0001d42c\U0001d42cword": MARKER},
    "long s": {"pa\u017f\u017fword": MARKER},
    "percent-encoded name": {"pass%77ord": MARKER},
    "twice percent-encoded name": {"pass%2577ord": MARKER},
    "escaped name": {"pass\\u0077ord": MARKER},
    "name escaped in hex": {"pass\\x77ord": MARKER},
    # Texts.
    "JSON after a BOM": "\ufeff" + json.dumps({"password": MARKER}),
    "JSON after BOMs and white space": " \ufeff\n\ufeff " + json.dumps({"password": MARKER}),
    "JSON with a BOM inside JSON": json.dumps({"a": "\ufeff" + json.dumps({"otp": MARKER})}),
    "a pair in JSON in a text": json.dumps({"name": "password", "value": MARKER}),
    "full-width name in JSON": f'{{"\uff54oken": "{MARKER}"}}',
    "full-width name in broken JSON": f'{{"\uff54oken": "{MARKER}"',
    "escaped name in broken JSON": f'{{"\\u0074oken": "{MARKER}"',
    "JSON after a prefix": ")]}',\n" + json.dumps({"password": MARKER}),
    "JSON as an event": "data: " + json.dumps({"x": 1, "password": MARKER}),
    "JSON in quotes in a text": "sent " + json.dumps(json.dumps({"password": MARKER})),
    "percent-encoded JSON": quote(json.dumps({"password": MARKER})),
    "twice percent-encoded JSON": quote(quote(json.dumps({"password": MARKER}))),
    "form": f"user=ada&password={MARKER}&page=2",
    "form with an encoded name": f"user=ada&pass%77ord={MARKER}",
    "form with a plus": f"a=1&my+api+key={MARKER}",
    "query of an address": f"https://x.example/path?page=2&access_token={MARKER}#top",
    "fragment of an address": f"https://x.example/cb#access_token={MARKER}&state=1",
    "user in an address": f"see postgres://ada:{MARKER}@db.example:5432/site for it",
    "user without a password": f"https://{MARKER}@x.example/",
    "header line": f"GET / HTTP/1.1\r\nAuthorization: Digest username=a, response={MARKER}\r\nX: y",
    "cookies": f"Cookie: theme=dark; session={MARKER}; x=y",
    "bearer": f"curl -H 'X: Bearer {MARKER}' it",
    "basic": f"it sent basic {MARKER} there",
    "a token of this app": f"use mcp_{'x' * 36}{MARKER} please",
    "JWT": f"use {JWT} for it",
    "base64 of JSON": f"eyJwYXNzd29yZCI6ICJ{MARKER}",
    "PEM": f"the key\n-----BEGIN RSA PRIVATE KEY-----\n{MARKER}\n-----END RSA PRIVATE KEY-----\nok",
    "PEM that is cut": f"-----BEGIN PRIVATE KEY-----\nMIIE{MARKER}",
    "PEM in one line": f"-----BEGIN OPENSSH PRIVATE KEY-----\\n{MARKER}\\n",
    "YAML": f"user: ada\npassword: {MARKER}\npage: 1",
    "two words": f"the api key: {MARKER}",
    "environment": f'export DB_PASSWORD="{MARKER} and more" X=1',
    "single quotes": f"{{'password': '{MARKER} x'}}",
    "arrow": f'"password" => "{MARKER}"',
    "element": f"<login><user>ada</user><password>{MARKER}</password></login>",
    "attribute": f"<input name=x password='{MARKER}'>",
    "assignment with a type": f'password: str = "{MARKER}"',
    "full-width in a form": f"\uff50assword={MARKER}",
    "full-width sign": f"password\uff1d{MARKER}",
    "name and value in a form": f"name=password&value={MARKER}",
    "name and value in broken JSON": f'{{"name": "otp", "value": "{MARKER}',
    "several lines": f"x: password: {{\n a: {MARKER}\n}}",
    "a block of YAML": f"password: |\n  one\n  {MARKER}\npage: 1",
    "three quotation marks": f'password = """{MARKER}"""',
    "after a backslash": f"C:\\pin={MARKER}",
    "after an escaped line": f"a\\npin={MARKER}",
    "HTML": f"user=ada&#38;&#112;in={MARKER}",
    "HTML in 5,000 digits": f"user=ada&#38;&#{'0' * 5000}112;in={MARKER}",
    "member given twice": f'{{"a": {{"b": "pin={MARKER}"}}, "a": 1}}',
    "a multipart form": f'Content-Disposition: form-data; name="password"\r\n\r\n{MARKER}\r\n--x',
    "in a key": {f"token={MARKER}": 1},
}


@pytest.mark.parametrize("sent", HIDDEN_IN.values(), ids=HIDDEN_IN)
def test_a_secret_beside_its_name_is_not_recorded(sent: Any) -> None:
    for value in (sent, [sent], {"deep": {"deeper": [sent]}}):
        kept = redact_to_json({"value": value}, limit=16_384, secrets=SensitiveFields())
        assert MARKER not in kept
        assert "[redacted]" in kept
        again = redact_to_json(json.loads(kept), limit=16_384, secrets=SensitiveFields())
        assert again == kept


def test_what_stands_around_a_secret_is_kept() -> None:
    for sent, kept in [
        (f"user=ada&password={MARKER}&page=2", "user=ada&password=[redacted]&page=2"),
        (f"see https://ada:{MARKER}@x.example/a", "see https://[redacted]@x.example/a"),
        (f"a\nPassword: {MARKER}\nb: c", "a\nPassword: [redacted]\nb: c"),
        (f"Authorization: Bearer {MARKER}\nb", "Authorization: [redacted]\nb"),
        (f"name=password value={MARKER} value=2", "name=password value=[redacted] value=2"),
        (f"<password>{MARKER}</password><b>c</b>", "<password>[redacted]</password><b>c</b>"),
        (
            f'name="password"\r\n\r\n{MARKER}\r\n--b\r\nvalue: 2',
            'name="password"\r\n\r\n[redacted]\r\n--b\r\nvalue: 2',
        ),
        ({"name": "password", "value": MARKER, "page": 1}, None),
    ]:
        text = redact_to_json({"a": sent}, limit=1000, secrets=SensitiveFields())
        expected = kept or {"name": "password", "value": "[redacted]", "page": 1}
        assert json.loads(text) == {"a": expected}


HARMLESS: dict[str, Any] = {
    "prose": "The author passes: it is said that 5 > 3, and a = b; see https://x.example/?page=1",
    "pair": {"name": "title", "value": "said"},
    "pairs": [["Accept", "text/html"], ["Host", "x.example"]],
    "name alone": {"name": "password"},
    "tags": ["news", "author", "opinion"],
    "percent": "100% of 50%25 at 20 %",
    "escaped five times": "100%25252525",
    "backslash": "C:\\users\\ada \\n \\u00e4",
    "address": "https://x.example:8000/a@b?q=1#a",
    "mail": "ada@x.example",
    "basic prose": "the basic idea and its bearer",
    "certificate word": "-----BEGIN----- of it",
    "numbers": [1, 2.5, None, True],
}


@pytest.mark.parametrize("sent", HARMLESS.values(), ids=HARMLESS)
def test_what_is_no_secret_is_kept_as_it_is(sent: Any) -> None:
    kept = redact_to_json({"value": sent}, limit=16_384, secrets=SensitiveFields())
    assert json.loads(kept) == {"value": sent}


def test_a_call_leaves_no_secret_whatever_way_it_was_sent(
    modern: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    serve(settings, taking(Any))
    result = modern.call_tool("take", {"value": list(HIDDEN_IN.values())})
    assert not result["isError"]
    kept = record().arguments
    assert MARKER not in kept
    assert kept.count("[redacted]") >= len(HIDDEN_IN)


def test_the_names_of_the_site_are_looked_for_in_texts_too() -> None:
    with override_settings(MCP_BRIDGE={"AUDIT": {"SENSITIVE_NAMES": ["iban"]}}):
        from mcp_bridge.records.redaction import sensitive_fields

        secrets = sensitive_fields(None)
    kept = redact_to_json([f"iban={MARKER}", ["IBAN", MARKER]], limit=999, secrets=secrets)
    assert json.loads(kept) == ["iban=[redacted]", ["IBAN", "[redacted]"]]


def test_all_is_kept_where_only_marks_count() -> None:
    by_marks = SensitiveFields(name_parts=None)
    for sent in HIDDEN_IN.values():
        assert MARKER in redact_to_json([sent], limit=16_384, secrets=by_marks)


def test_a_number_of_thousands_of_digits_in_html_is_no_character() -> None:
    """Python makes no integer of so many (``sys.set_int_max_str_digits``)."""
    sent = [f"a &#{'9' * 5000};", f"a &#x{'f' * 5000};", "a &#12345678901234567890123;"]
    assert json.loads(redact_to_json(sent, limit=16_384, secrets=SensitiveFields())) == sent


# Names as they are spelt, and what divides them from a value in some text.
NAMES = st.sampled_from([*SENSITIVE, *SENSITIVE_WORDS])
SPELT = st.sampled_from([str.upper, str.title, str, lambda name: "x_" + name, quote])
BETWEEN = st.sampled_from(["=", ": ", " = ", '": "', "': '", " => ", "="])
AROUND = st.text(max_size=12)


@examples(max_examples=EXAMPLES, deadline=None)
@given(AROUND, NAMES, SPELT, BETWEEN, AROUND)
def test_no_text_around_it_shows_a_secret(
    before: str, name: str, spelt: Any, between: str, after: str
) -> None:
    text = f"{before} {spelt(name)}{between}{MARKER} {after}"
    once = redact_to_json([text], limit=16_384, secrets=SensitiveFields())
    assert MARKER not in once
    assert redact_to_json(json.loads(once), limit=16_384, secrets=SensitiveFields()) == once


@examples(max_examples=EXAMPLES, deadline=None)
@given(st.text(st.sampled_from("a=:\"'<>%\\&; \npassword7eyJ.{}[]@/-\ufeff"), max_size=60))
def test_what_is_redacted_once_stays_as_it_is(text: str) -> None:
    once = redact_to_json([text], limit=16_384, secrets=SensitiveFields())
    assert redact_to_json(json.loads(once), limit=16_384, secrets=SensitiveFields()) == once


LONG = {
    "a word": "x",
    "spaces": "a ",
    "blanks": " ",
    "signs": "=",
    "quotes": 'a"',
    "escapes": "%25",
    "names": "name=",
    "pairs": "name=pin value:",
    "lines": "pin:",
    "blocks": "pin={",
    "one word": "pin ",
    "marks": 'pin="',
    "and": "&amp;",
    "backslashes": "\\u005c",
    "addresses": "://a",
    "users": "://a@",
    "keys": "-----BEGIN ",
    "JWT": "eyJ",
    "secrets": "password=",
    "schemes": "Bearer ",
    "elements": "<password>",
    "brackets": "[",
    # What is said once, before all that is repeated.
    "an element without end": ("<", "a"),
    "an element of names": ("<", "a:"),
    "an element of words": ("<", "a "),
    "an element of blanks": ("<a", " "),
    "an end of an element": ("</", "a"),
    "a key without end": ("-----BEGIN ", "A"),
    "a key of ends": ("-----BEGIN A-----", "-----END A"),
    "a scheme of blanks": ("Bearer", " "),
    "a credential of letters": ("Bearer ", "~"),
    "a user without end": ("://", "a"),
    "a quotation without end": ('pin="', "\\"),
    "a block of blanks": ("pin: |", " "),
    "a block of digits": ("pin: |", "1"),
    "a form's part of blanks": ('name="pin"', " "),
    "blanks before a sign": ("pin", " "),
    "a reference to a character": ("&#", "9"),
    "a file without data": ("data:a/b", ";a"),
}


@pytest.mark.parametrize("part", LONG.values(), ids=LONG)
def test_a_long_text_takes_no_longer_than_its_length(part: str | tuple[str, str]) -> None:
    """It takes a second at most: by the square of its length it would take minutes."""
    start, part = ("", part) if isinstance(part, str) else part
    text = start + part * (256_000 // len(part))
    began = time.thread_time()
    redact_to_json([text], limit=10_000_000, secrets=SensitiveFields())
    assert time.thread_time() - began < 10

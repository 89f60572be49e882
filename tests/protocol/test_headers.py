from __future__ import annotations

import base64
from typing import Any

import pytest

from mcp_bridge.protocol import Headers
from mcp_bridge.protocol.errors import HeaderMismatchError
from mcp_bridge.protocol.headers import parameter_headers
from mcp_bridge.transports.http import headers_of

VERSION = "2026-07-28"


def sentinel(raw: bytes) -> str:
    return f"=?base64?{base64.b64encode(raw).decode()}?="


def check(sent: str | None, expected: str) -> None:
    """Return whether Mcp-Name agrees with the body."""
    headers = Headers(version=VERSION, method="tools/call", name=sent)
    headers.check(VERSION, "tools/call", expected)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("add", "add"),
        (" add\t", "add"),
        ("\t add  ", "add"),
        ("", ""),
        ("a b", "a b"),
        ("\u00a0add", "\u00a0add"),
        ("add\x0b", "add\x0b"),
    ],
)
def test_blanks_around_a_value_are_ignored(value: str, read: str) -> None:
    headers = headers_of(
        {
            "HTTP_MCP_PROTOCOL_VERSION": value,
            "HTTP_MCP_METHOD": value,
            "HTTP_MCP_NAME": value,
        }
    )
    assert headers[:3] == (read, read, read)


def test_repr_shows_no_other_header() -> None:
    assert "secret" not in repr(Headers(environ={"HTTP_AUTHORIZATION": "Bearer secret"}))


def test_missing_header_is_none() -> None:
    assert headers_of({"CONTENT_TYPE": "x"}) == Headers(environ={"CONTENT_TYPE": "x"})


@pytest.mark.parametrize("name", ["add", "a b", "=?base64?", "?=", "=?BASE64?YWRk?=", "YWRk"])
def test_equal_name_passes(name: str) -> None:
    check(name, name)


@pytest.mark.parametrize("name", ["add", "é", "\N{GRINNING FACE}", " add ", "a\r\nb", "=?base64?"])
def test_name_in_base64_is_decoded_before_comparison(name: str) -> None:
    check(sentinel(name.encode()), name)


@pytest.mark.requirement("header.values-case")
@pytest.mark.parametrize(
    "sent",
    [None, "", "Add", "ADD", "add2", "ad", "add,add", "add, drop", "=?base64?YWRk", "YWRk?="]
    + ["=?BASE64?YWRk?=", "=?base64?YWRk?= ", "=?Base64?YWRk?=", "=?utf-8?B?YWRk?="],
)
def test_different_name_is_a_mismatch(sent: str | None) -> None:
    with pytest.raises(HeaderMismatchError):
        check(sent, "add")


@pytest.mark.parametrize(
    "encoded",
    ["=", "YWR", "YWRk=", "YW Rk", "YWRk\n", "Y-_k", "YWRkZ", "YWQ", "YWR=", "!!!!", "é", "A==="],
)
def test_name_in_broken_base64_is_always_a_mismatch(encoded: str) -> None:
    sent = f"=?base64?{encoded}?="
    for expected in ("add", "ad", "", sent):
        with pytest.raises(HeaderMismatchError):
            check(sent, expected)


def test_overlapping_base64_markers_are_a_mismatch() -> None:
    for expected in ("", "=?base64?=", "add"):
        with pytest.raises(HeaderMismatchError):
            check("=?base64?=", expected)


@pytest.mark.parametrize("raw", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", "add".encode("utf-16")])
def test_base64_name_outside_of_utf_8_is_a_mismatch(raw: bytes) -> None:
    with pytest.raises(HeaderMismatchError, match="Base64"):
        check(sentinel(raw), "add")


def test_name_is_required_only_for_methods_that_have_one() -> None:
    Headers(version=VERSION, method="tools/list").check(VERSION, "tools/list", None)
    Headers(version=VERSION, method="tools/list", name="x").check(VERSION, "tools/list", None)


@pytest.mark.requirement("header.values-case")
@pytest.mark.parametrize("field", ["version", "method"])
@pytest.mark.parametrize("value", [None, "", "other", "TOOLS/LIST", VERSION + ", " + VERSION])
def test_version_and_method_must_be_present_and_equal(field: str, value: str | None) -> None:
    sent = {"version": VERSION, "method": "tools/list", field: value}
    with pytest.raises(HeaderMismatchError):
        Headers(**sent).check(VERSION, "tools/list", None)


@pytest.mark.requirement("header.undecoded")
@pytest.mark.parametrize("field", ["version", "method"])
def test_version_and_method_are_never_decoded(field: str) -> None:
    expected = {"version": VERSION, "method": "tools/list"}
    sent = {**expected, field: sentinel(expected[field].encode())}
    with pytest.raises(HeaderMismatchError):
        Headers(**sent).check(VERSION, "tools/list", None)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("x" * 10**5, "y" * 10**5),
        (sentinel(b"x" * 10**5), "y"),
        ("\x80" * 10**5, "\U000e0001" * 10**5),
        ("x", "\x00" * 64),
    ],
    ids=["long", "long in base64", "unprintable", "controls"],
)
def test_mismatch_has_a_short_message(sent: str, expected: str) -> None:
    with pytest.raises(HeaderMismatchError) as raised:
        check(sent, expected)
    length = len(raised.value.message)
    assert length <= 300


PATHS = {"Zone-Id": ["place", "zone"], "Dry": ["dry"]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[("eu", "eu"), ("", ""), (7, "7"), (7.0, "7"), (7.5, "7.5"), (True, "true")],
        *[(False, "false"), ("a\tb", "a\tb"), ("=?base64", "=?base64"), ("x?=", "x?=")],
        *[(" eu", "=?base64?IGV1?="), ("é", "=?base64?w6k=?="), ("a\n", "=?base64?YQo=?=")],
        ("=?base64?", "=?base64?PT9iYXNlNjQ/?="),
    ],
)
def test_header_of_a_parameter_repeats_its_argument(value: Any, text: str) -> None:
    arguments = {"place": {"zone": value}, "dry": None}
    assert parameter_headers(PATHS, arguments) == {"Mcp-Param-Zone-Id": text}
    environ = {"HTTP_MCP_PARAM_ZONE_ID": f"\t {text} "}
    Headers(environ=environ).check_parameters(PATHS, arguments)


@pytest.mark.parametrize("arguments", [{}, {"place": "eu"}, {"place": {"zone": []}, "dry": {}}])
def test_missing_argument_has_no_header(arguments: Any) -> None:
    assert parameter_headers(PATHS, arguments) == {}
    Headers(environ={}).check_parameters(PATHS, arguments)

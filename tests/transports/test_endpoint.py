"""The endpoint as HTTP: verbs, addresses, media types, sizes and the headers of every answer."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.test import Client

from mcp_bridge import Context
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support import wire
from tests.support.revisions import ERAS
from tests.support.toolsets import serve_toolsets
from tests.support.values import dumps
from tests.support.wire import accepted, answered, caller, compact, good, headers, message, refused

quiet = wire.quiet

PATHS = ("/mcp", "/mcp/")
JSON = "application/json"


def send(client: MCPClient, **more: str | None) -> Any:
    """Post the good call with additional headers."""
    return client.send(good(client).encode(), headers(client, **more))


# Verbs and addresses.


@pytest.mark.requirement("http.other-verbs", "legacy.get")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "verb", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "post"]
)
def test_other_verb_is_not_allowed(verb: str, path: str, quiet: None) -> None:
    body = b"" if verb == "TRACE" else good(caller()).encode()
    sent = {"Accept": "text/event-stream", "Origin": "http://testserver"}
    response = Client().generic(verb.replace("post", "POSTS"), path, body, JSON, headers=sent)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert b" accepts only POST." in response.content or verb == "HEAD"
    assert "Location" not in response.headers
    assert not any(name.startswith("Access-Control") for name in response.headers)


LOGIN = {
    "RESOURCE": "https://example.com/mcp",
    "AUTHORIZATION_SERVERS": ["https://example.com"],
    "TOOLSETS": {"reading": ["*"]},
}
METADATA = "https://example.com/.well-known/oauth-protected-resource/mcp"


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("options", "path", "how"),
    [
        ({}, "/mcp", "in the Authorization header, such as: Bearer TOKEN."),
        ({}, "/mcp/", "in the Authorization header, such as: Bearer TOKEN."),
        ({"RESOURCE": "https://example.com/mcp"}, "/mcp", "Bearer TOKEN."),
        (LOGIN, "/mcp", f"must log in, as {METADATA} describes."),
        (LOGIN, "/mcp/reading", f"must log in, as {METADATA}/reading describes."),
    ],
)
def test_get_of_the_old_transport_explains_the_login(
    options: Any, path: str, how: str, asynchronous: bool, settings: Any
) -> None:
    settings.MCP_BRIDGE = options
    serve_toolsets(settings, options.get("TOOLSETS", {}), asynchronous=asynchronous)
    response = Client().get(path, headers={"Accept": "text/event-stream"})
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    told = response.content.decode()
    assert told.startswith("This MCP endpoint accepts only POST. ")
    assert told.endswith(f"{how}\n")


@pytest.mark.requirement("http.one-endpoint")
@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("path", PATHS)
def test_endpoint_answers_at_both_addresses_without_a_redirect(
    path: str, append: bool, settings: Any
) -> None:
    settings.APPEND_SLASH = append
    for revision in ERAS:
        assert answered(send(caller(revision, path=path)))["isError"] is False


def test_verb_in_another_header_is_ignored(sender: MCPClient) -> None:
    assert answered(send(sender, X_HTTP_Method_Override="DELETE", X_Method="GET"))


def test_query_changes_nothing(sender: MCPClient) -> None:
    sender.path += "?method=tools/list&cursor=%FF&access_token=x"
    assert answered(send(sender))["isError"] is False


# Media types.


@pytest.mark.parametrize(
    "value",
    [JSON, f"{JSON}; charset=utf-8", f"{JSON};charset=UTF-8", f'{JSON}; charset="utf-8"']
    + ["Application/JSON", f" {JSON} ", f"{JSON}; charset=utf8", f"{JSON}; profile=x", f"{JSON};"],
)
def test_json_in_utf_8_is_taken(sender: MCPClient, value: str) -> None:
    assert answered(send(sender, Content_Type=value))["isError"] is False


@pytest.mark.parametrize(
    "value",
    [None, "text/plain", "text/json", "application/x-www-form-urlencoded", "application/jsonx"]
    + ["multipart/form-data; boundary=x", "multipart/form-data", "application/json-rpc", "json"]
    + [f"{JSON}, text/plain", "text/plain; application/json", "application/*", "*/*", ";", "é/é"]
    + [f"{JSON}; charset=utf-16", f"{JSON}; charset=latin-1", f"{JSON}; charset=nope", "x" * 9999],
    ids=lambda value: str(value)[:32],
)
def test_any_other_media_type_is_refused(sender: MCPClient, value: str, quiet: None) -> None:
    refused(send(sender, Content_Type=value), 415, -32600)


@pytest.mark.parametrize("value", ["gzip", "deflate", "br", "GZIP", "gzip, identity", "x", ""])
def test_encoded_body_is_refused_and_never_inflated(
    sender: MCPClient, value: str, quiet: None
) -> None:
    refused(send(sender, Content_Encoding=value), 415, -32600)


def test_body_with_identity_encoding_is_taken(sender: MCPClient) -> None:
    assert answered(send(sender, Content_Encoding="identity"))


@pytest.mark.parametrize(
    "value",
    [None, "", "*/*", "application/*", JSON, f"{JSON}, text/event-stream", "Application/JSON"]
    + [f"text/event-stream, {JSON}", f"{JSON};q=0.1", "text/html, */*;q=0.1"],
)
def test_client_that_accepts_json_is_answered(sender: MCPClient, value: str | None) -> None:
    assert answered(send(sender, Accept=value))["isError"] is False


@pytest.mark.parametrize("value", ["text/html", "text/event-stream", "image/*", "text/*, a/b", "x"])
def test_client_that_does_not_accept_json_is_refused(
    sender: MCPClient, value: str, quiet: None
) -> None:
    refused(send(sender, Accept=value), 406, -32600)


@pytest.mark.parametrize(
    "value",
    ["text/" + "h" * 20_000, "text/html; a*=nope''x", "text/html; q=x", "text/html; a*0*=x''y"]
    + [", ".join(["text/html"] * 2000), ";;;=,,,", 'text/html; q="', "\x80/\xff"],
    ids=["long", "unknown charset", "odd quality", "odd parameter", "many", "marks", "quote", "é"],
)
def test_odd_accept_header_does_not_fail_the_server(
    sender: MCPClient, value: str, quiet: None
) -> None:
    refused(send(sender, Accept=value), 406, -32600)


# Sizes.


def padded(client: MCPClient, size: int) -> bytes:
    """Return a call of ``echo`` of exactly that size."""
    text = compact(message(client, name="echo", arguments={"text": "@"}))
    return text.replace("@", "x" * (size - len(text) + 1)).encode()


def echo(client: MCPClient, body: bytes) -> Any:
    return client.send(body, headers(client, name="echo"))


@pytest.mark.parametrize(("given", "limit"), [({}, 2**20), ({"MAX_BODY_BYTES": 600}, 600)])
def test_body_is_read_to_its_limit(
    sender: MCPClient, given: Any, limit: int, settings: Any
) -> None:
    settings.MCP_BRIDGE = given
    assert answered(echo(sender, padded(sender, limit)))["isError"] is False
    refused(echo(sender, padded(sender, limit + 1)), 413, -32600)


@pytest.mark.parametrize("limit", [1, 1000])
def test_limits_of_djangos_forms_do_not_apply(sender: MCPClient, limit: int, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = limit
    settings.MCP_BRIDGE = {"MAX_BODY_BYTES": 2**22}
    assert answered(echo(sender, padded(sender, 2**21)))["isError"] is False


class Stream(io.BytesIO):
    """A body that counts the bytes read from it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.taken += len(content)
        return content


class Broken(io.BytesIO):
    error: Exception = ConnectionResetError("gone")

    def read(self, size: int | None = -1, /) -> bytes:
        raise self.error


def raw(client: MCPClient, stream: io.BytesIO, length: str | None, **more: Any) -> Any:
    """Post the content of a stream, under a Content-Length that need not be true."""
    client.http.credentials(**{"wsgi.input": stream, "CONTENT_LENGTH": length, **more})
    return client.send(b"{}", headers(client, name="echo" if more else "add"))


@pytest.mark.off_lane
def test_oversized_body_is_not_read(sender: MCPClient, quiet: None) -> None:
    stream = Stream(good(sender).encode())
    refused(raw(sender, stream, str(2**20 + 1)), 413, -32600)
    assert stream.taken == 0


def test_body_is_cut_at_its_declared_length(sender: MCPClient, quiet: None) -> None:
    stream = Stream(good(sender).encode())
    refused(raw(sender, stream, "50"), 400, -32700)
    assert stream.taken <= 50


def test_body_shorter_than_its_length_is_incomplete(sender: MCPClient, quiet: None) -> None:
    """RFC 9112, section 8: an incomplete request is not handled as if it were whole."""
    body = good(sender).encode()
    refused(raw(sender, Stream(body), str(len(body) + 50)), 400, -32600)


@pytest.mark.parametrize("length", ["-1", "0", "", None, "x", "1e3", "5.0", "0x10", "٣", "+ 5"])
def test_invalid_length_is_refused(sender: MCPClient, length: str | None, quiet: None) -> None:
    response = raw(sender, Stream(good(sender).encode()), length)
    assert response.status_code == 400
    assert wire.strict(response.content)["error"]["code"] in (-32600, -32700)


@pytest.mark.off_lane
def test_interrupted_body_is_refused(sender: MCPClient, quiet: None) -> None:
    refused(raw(sender, Broken(), "100"), 400, -32600)


def in_chunks(client: MCPClient, stream: io.BytesIO, **more: Any) -> Any:
    """Post a body without a length, as a WSGI server passes on a body in chunks."""
    return raw(client, stream, None, HTTP_TRANSFER_ENCODING="chunked", **more)


@pytest.mark.off_lane
def test_body_in_chunks_is_read_to_its_limit(sender: MCPClient) -> None:
    stream, ended = Stream(padded(sender, 2**20)), {"wsgi.input_terminated": True}
    assert "result" in in_chunks(sender, stream, **ended).json()
    stream = Stream(padded(sender, 2**21))
    refused(in_chunks(sender, stream, **ended), 413, -32600)
    assert stream.taken == 2**20 + 1


def test_unreadable_chunks_are_refused(sender: MCPClient, quiet: None) -> None:
    stream = Broken()
    # gunicorn raises its own exceptions for these.
    stream.error = ValueError("Invalid chunk size: zz")
    refused(in_chunks(sender, stream, **{"wsgi.input_terminated": True}), 400, -32600)


def test_chunks_that_the_server_does_not_join_are_refused(sender: MCPClient, quiet: None) -> None:
    error = refused(in_chunks(sender, Stream(good(sender).encode())), 400, -32600)
    assert "Content-Length" in error["message"]


# The headers of every answer.


def test_answer_sets_no_cookie_and_may_not_be_shared(sender: MCPClient) -> None:
    for response in (send(sender), send(sender, Content_Type="text/plain")):
        assert not response.cookies
        assert "public" not in response.headers.get("Cache-Control", "")


def test_unrelated_headers_are_ignored(sender: MCPClient) -> None:
    more = {"Mcp_Param_a": "2", "Last_Event_ID": "7", "X_Forwarded_Host": "evil.example"}
    assert answered(send(sender, **more))["isError"] is False


@pytest.mark.requirement("header.matches")
@pytest.mark.parametrize(
    "sent",
    [{"Mcp-Name": "add,add"}, {"Mcp-Name": "add, other"}, {"Mcp-Method": "tools/call,tools/call"}]
    + [{"Mcp-Name": "\xe9"}, {"MCP-Protocol-Version": "2026-07-28,2026-07-28"}],
)
def test_duplicate_or_non_ascii_header_is_a_mismatch(sent: Any, quiet: None) -> None:
    client = caller()
    refused(client.send(good(client).encode(), {**headers(client), **sent}), 400, -32020, id=1)


@pytest.mark.requirement("header.required", "header.mismatch-400")
@pytest.mark.parametrize("name", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_missing_header_of_a_modern_call_is_a_mismatch(
    name: str, quiet: None, caplog: pytest.LogCaptureFixture
) -> None:
    client = caller()
    sent = headers(client)
    assert name in sent
    response = client.send(good(client).encode(), {**sent, name: None})
    assert name in refused(response, 400, -32020, id=1)["message"]
    # Django warns of each answer with 400, as of any page of the site.
    assert {each.name for each in caplog.records} <= {"django.request"}


@pytest.mark.requirement("header.decoded")
@pytest.mark.parametrize("name", ["add", " add", "\tadd\t ", wire.sentinel("add")])
def test_name_header_may_have_blanks_or_be_base64(name: str) -> None:
    assert answered(send(caller(), Mcp_Name=name))["isError"] is False


MESSAGES = [b"", b"{}", b"[]", b"\xff", b'{"jsonrpc":"2.0","id":1,"method":"x"}', b"[" * 10**5]


@pytest.mark.parametrize("body", MESSAGES, ids=range(len(MESSAGES)))
def test_debug_changes_no_answer(sender: MCPClient, body: bytes, settings: Any) -> None:
    plain = sender.send(body, headers(sender))
    settings.DEBUG = True
    shown = sender.send(body, headers(sender))
    assert (shown.status_code, shown.content) == (plain.status_code, plain.content)
    assert shown.headers.items() == plain.headers.items()


@pytest.mark.parametrize("middleware", [[], None])
def test_no_middleware_is_needed(sender: MCPClient, middleware: Any, settings: Any) -> None:
    settings.MIDDLEWARE = settings.MIDDLEWARE if middleware is None else middleware
    assert answered(send(sender))["isError"] is False
    accepted(sender.send(b'{"jsonrpc":"2.0","method":"x"}', headers(sender)))


def test_answer_to_a_post_may_not_be_stored(modern: CheckedClient) -> None:
    bodies = [
        dumps(modern.message("tools/list")),
        dumps(modern.message("tools/call", name="add", arguments={"a": 1, "b": 2})),
        dumps(modern.message("tools/call", name="missing")),
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
        b"no json",
    ]
    for body in bodies:
        assert modern.send(body)["Cache-Control"] == "no-store"
    modern.http.force_authenticate(None)
    modern.http.credentials(HTTP_AUTHORIZATION="Bearer forged")
    response = modern.send(bodies[0])
    assert (response.status_code, response["Cache-Control"]) == (401, "no-store")


def test_procedure_may_read_the_body(modern: CheckedClient, settings: Any) -> None:
    def peek(context: Context) -> bool:
        """Read the body of the request."""
        return b'"peek"' in context.request.body

    serve(settings, peek)
    assert modern.call_tool("peek")["structuredContent"] == {"result": True}

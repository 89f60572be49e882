"""Headers on the caller and the content: host, origin, media types, and others."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import Change, body, header
from tests.hostile.wanted import ECHOED, NOT_A_MESSAGE, Either, Http, Refused

FORBIDDEN = Refused(403, status=403, echoes=False, headers={"Access-Control-Allow-Origin": ""})
UNSUPPORTED_TYPE = Refused(-32600, status=415, echoes=False)
NOT_ACCEPTABLE = Refused(-32600, status=406, echoes=False)
# Django's own middleware reads the host before a view does.
NO_SUCH_HOST = Either((NOT_A_MESSAGE, Http((400,), foreign=True)))


def each(kind: str, name: str, *values: str) -> dict[str, Change]:
    """Return a draft for each value of a header."""
    return {f"the {kind} {value[:40]!r}": header(name, value) for value in values}


THEME = Theme("headers")
THEME.add(
    FORBIDDEN,
    each(
        "origin",
        "Origin",
        *("https://evil.example", "null", "", "*", "file://", "http://127.0.0.1"),
        *("https://127.0.0.1:{port}", "http://127.0.0.1:{port}/", "http://127.0.0.1:{port}0"),
        *("http://127.0.0.1:{port}.evil.example", "http://evil.example#127.0.0.1:{port}"),
        *("http://127.0.0.1:{port}@evil.example", "http://user@127.0.0.1:{port}"),
        *("HTTP://127.0.0.1:{port}", "http://localhost:{port}", "http://[::1]:{port}"),
        *("http://127.0.0.1:{port}, https://evil.example", "\xff\xfe", "x" * 4000),
    ),
)
THEME.add(
    FORBIDDEN,
    {
        "two origins": header("Origin", "http://127.0.0.1:{port}", "https://evil.example"),
        "the right origin twice": header("Origin", *["http://127.0.0.1:{port}"] * 2),
        "another origin with a body that is none": (header("Origin", "null"), body("{")),
        "another origin with a form": (
            header("Origin", "https://evil.example"),
            header("Content-Type", "text/plain"),
        ),
        "another origin with a bad credential": (
            header("Origin", "https://evil.example"),
            header("Authorization", "Bearer wrong"),
        ),
    },
)
THEME.add(
    NO_SUCH_HOST,
    each(
        "host",
        "Host",
        *("evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost"),
        *("127.0.0.1:{port}:1", "127.0.0.1 evil", "user@127.0.0.1", "[::1", "127.0.0.1/x"),
        *("127.0.0.1,evil.example", "2130706433", "x" * 300),
    ),
)
THEME.add(
    NO_SUCH_HOST,
    {
        "another host, with its origin": (
            header("Host", "evil.example"),
            header("Origin", "http://evil.example"),
        ),
        "two hosts": header("Host", "127.0.0.1:{port}", "evil.example"),
    },
)
THEME.add(
    UNSUPPORTED_TYPE,
    each(
        "type",
        "Content-Type",
        *("text/plain", "text/json", "application/x-www-form-urlencoded", "application/jsonx"),
        *("multipart/form-data; boundary=x", "multipart/form-data", "application/xml", ""),
        *("application/json-rpc", "application/json; charset=utf-16", "json", "*/*"),
        *("application/json, text/plain", "text/plain; application/json", "application/*"),
        *("application/json; charset=latin-1", "application/json\xff"),
    ),
)
THEME.add(
    UNSUPPORTED_TYPE,
    {
        "no type": header("Content-Type"),
        **{
            f"the encoding {coding!r}": header("Content-Encoding", coding)
            for coding in ("gzip", "br", "deflate", "zstd", "gzip, identity", "x", "identity, gzip")
        },
        "a bomb that calls itself gzip": (
            header("Content-Encoding", "gzip"),
            body(b"\x1f\x8b\x08" + b"\0" * 100_000),
        ),
    },
)
THEME.add(
    Either((UNSUPPORTED_TYPE, Http((400,), foreign=True))),
    {"two types": header("Content-Type", "text/plain", "application/json")},
)
THEME.add(
    NOT_ACCEPTABLE,
    {
        f"an answer as {kind!r}": header("Accept", kind)
        for kind in ("text/html", "image/*", "text/event-stream", "application/xml", "x", "text/*")
    },
)
THEME.add(
    ECHOED,
    {
        "the site's own origin": header("Origin", "http://127.0.0.1:{port}"),
        "the type with its charset": header("Content-Type", "application/json; charset=UTF-8"),
        "the type in capital letters": header("Content-Type", "Application/JSON"),
        "the encoding that is none": header("Content-Encoding", "identity"),
        "any answer": header("Accept", "*/*"),
        "an answer of one kind": header("Accept", "application/*;q=0.1"),
        "no word on the answer": header("Accept"),
        "a session that nobody began": header("Mcp-Session-Id", "1" * 200),
        "two sessions": header("Mcp-Session-Id", "1", "2"),
        "a stream to go on with": header("Last-Event-ID", "7"),
        "another host in a header": header("X-Forwarded-Host", "evil.example"),
        "other addresses in a header": header("X-Forwarded-For", "127.0.0.1, ' OR 1=1, \xff"),
        "a way in a header": header("Forwarded", "for=_hidden;host=evil.example;proto=https"),
        "a cookie of many": header("Cookie", "; ".join(f"c{each}=1" for each in range(300))),
        "a cookie of no form": header("Cookie", 'sessionid="; =; \xff\x80;;csrftoken'),
        "a language of nobody": header("Accept-Language", "xx-" + "y" * 500 + ",*;q=9,\xff"),
        "a language that is a path": header("Accept-Language", "../../etc/passwd"),
        "a user agent of markup": header("User-Agent", "<script>alert(1)</script>\xff"),
        "a long user agent": header("User-Agent", "x" * 7000),
        "a trace that is none": header("traceparent", "00-" + "g" * 32 + "-x-1"),
        "a range": header("Range", "bytes=0-1"),
        "a condition": header("If-None-Match", "*"),
        "a toolset of no name": header("X-MCP-Toolset", ""),
        "a method with an underscore": header("Mcp_Session_Id", "x"),
    },
)
THEME.add(
    NOT_A_MESSAGE,
    {
        f"the toolset {name!r}": header("X-MCP-Toolset", name)
        for name in ("nobody's", "../admin", "__class__", "x" * 500, "\xff")
    },
)

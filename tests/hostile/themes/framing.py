"""HTTP framing (RFC 9112): verbs, addresses, lengths, chunks. Mostly judged by the HTTP server."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import Change, Draft, body, header, rewritten, values
from tests.hostile.wanted import ECHOED, PARSE, Either, Http, Refused

MIB = 2**20
NOT_ALLOWED = Http((405,), {"Allow": "POST", "Access-Control-Allow-Origin": ""}, foreign=True)
BAD_REQUEST = Http((400, 405, 408, 413, 414, 431, 501, 505), foreign=True)
NOT_FOUND = Http((404,), foreign=True)
TOO_LARGE = Refused(-32600, status=413, echoes=False)
SERVED_OR_REFUSED = Either((ECHOED, BAD_REQUEST, NOT_FOUND))
CUT = Refused(-32600, echoes=False)


def sized(count: int) -> Change:
    """Fill the good message up to so many bytes with blanks, which JSON may end with."""

    def change(draft: Draft) -> None:
        draft.body = draft.content().ljust(count)

    return change


THEME = Theme("HTTP framing")
THEME.add(
    NOT_ALLOWED,
    {f"the verb {verb}": values(verb=verb) for verb in ("GET", "HEAD", "PUT", "PATCH", "DELETE")},
)
THEME.add(
    NOT_ALLOWED,
    {
        "the verb OPTIONS": values(verb="OPTIONS"),
        "a verb that nobody knows": values(verb="BREW"),
        "a preflight of another site": (
            values(verb="OPTIONS"),
            header("Origin", "https://evil.example"),
            header("Access-Control-Request-Method", "POST"),
        ),
        "a preflight of another site's credentials": (
            values(verb="OPTIONS"),
            header("Origin", "null"),
            header("Access-Control-Request-Headers", "authorization,content-type"),
        ),
        "a stream, as the older transport opens one": (
            values(verb="GET"),
            header("Accept", "text/event-stream"),
        ),
        "a session that is ended": (values(verb="DELETE"), header("Mcp-Session-Id", "1")),
        "a verb that a credential comes with": (
            values(verb="PUT"),
            header("Authorization", "Bearer {token}"),
        ),
    },
)
THEME.add(
    ECHOED,
    {
        "the address with a slash": values(target="/mcp/"),
        "the address with a query": values(target="/mcp?access_token=1&x[]=%00"),
        "the address with an escaped letter": values(target="/mc%70"),
        "HTTP/1.0": values(protocol="HTTP/1.0"),
        "Expect: 100-continue": header("Expect", "100-continue"),
        "one byte a chunk": values(chunks=1),
        "seven bytes a chunk": values(chunks=7),
        "one chunk": values(chunks=MIB),
        "as large as a body may be": sized(MIB),
        "as large as a body may be, in chunks": (sized(MIB), values(chunks=64 * 1024)),
        "another verb in a header": header("X-HTTP-Method-Override", "DELETE"),
        "another address in a header": header("X-Original-URL", "/admin/"),
    },
)
THEME.add(
    NOT_FOUND,
    {
        "capital letters in the address": values(target="/MCP"),
        "two slashes before the address": values(target="/x//mcp"),
        "two slashes after it": values(target="/mcp//"),
        "a parameter of the path": values(target="/mcp;x=1"),
        "a NUL in the address": values(target="/mcp%00"),
        "an address below": values(target="/mcp/echo"),
        "an address of no text": values(target="/%ff%fe"),
        "an address of 4,000 letters": values(target="/" + "m" * 4000),
    },
)
THEME.add(
    SERVED_OR_REFUSED,
    {
        "the whole URL as the target": values(target="http://127.0.0.1/mcp"),
        "a way up in the address": values(target="/x/../mcp"),
        "an upgrade to HTTP/2": (header("Upgrade", "h2c"), header("Connection", "Upgrade, close")),
        "an upgrade to a socket": (
            header("Upgrade", "websocket"),
            header("Connection", "Upgrade, close"),
            header("Sec-WebSocket-Version", "13"),
            header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ),
        "a protocol of the future": values(protocol="HTTP/9.9"),
        "a header of 200,000 letters": header("X-A", "x" * 200_000),
        "a length and chunks": (values(chunks=9), header("Content-Length", "5")),
        "no Host": header("Host"),
        "eighty headers": tuple(header(f"X-Header-{each}", "x") for each in range(80)),
    },
)
THEME.add(
    BAD_REQUEST,
    {
        "a length that is no number": header("Content-Length", "ten"),
        "a length below zero": header("Content-Length", "-1"),
        "a length with a sign": header("Content-Length", "+5"),
        "a length in hexadecimal": header("Content-Length", "0x10"),
        "two lengths that differ": header("Content-Length", "10", "20"),
        "an unknown way of transfer": (
            header("Transfer-Encoding", "xchunked"),
            header("Content-Length"),
        ),
        "chunks of no size": (
            header("Transfer-Encoding", "chunked"),
            header("Content-Length"),
            body("zz\r\n{}\r\n0\r\n\r\n"),
        ),
        "a header without a colon": header("X-A", "1\r\nno colon here"),
        "a NUL in a header": header("X-A", "a\0b"),
        "a blank before a colon": header("X-A ", "1"),
        "bytes of TLS": values(
            raw=b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500 + b"\r\n\r\n"
        ),
        "a line of nothing": values(raw=b"\0\xff\r\n\r\n"),
        "a line of one word": values(raw=b"POST\r\n\r\n"),
        "no protocol": values(protocol="X"),
        "two thousand headers": header("X-A", *["x" * 60] * 2000),
    },
)
# granian speaks HTTP/2, and closes the connection if it is configured not to.
THEME.add(
    Either((BAD_REQUEST, NOT_FOUND)),
    {
        "the preface of HTTP/2": values(raw=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    },
    servers=("gunicorn", "uvicorn", "direct on uvicorn"),
)
THEME.add(
    TOO_LARGE,
    {
        "one byte too many": sized(MIB + 1),
        "one byte too many, in chunks": (sized(MIB + 1), values(chunks=64 * 1024)),
        "two megabytes": sized(2 * MIB),
    },
)
# Django's own handler under ASGI waits for the whole body before it calls a view.
THEME.add(
    TOO_LARGE,
    {"a length of which nothing comes": (header("Content-Length", str(10**15)), body(""))},
    servers=("gunicorn", "direct on uvicorn", "direct on granian"),
)
THEME.add(
    Either((TOO_LARGE, BAD_REQUEST)),
    {
        "a length of thirty digits": (header("Content-Length", "9" * 30), body("")),
    },
)
THEME.add(
    PARSE,
    {
        "no body": body(""),
        "a body that is cut off": rewritten(lambda good: good[:-1]),
        "chunks without a byte": (body(""), values(chunks=1)),
    },
)
THEME.add(
    Either((PARSE, CUT, BAD_REQUEST)),
    {
        "half of the body": rewritten(lambda good: good[: len(good) // 2]),
        "no length, and so no body": header("Content-Length"),
    },
)
THEME.add(
    ECHOED,
    {
        "a second request behind the first": values(
            tail=b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        ),
        "bytes behind the body": values(tail=b"\0\xff{}" * 10),
    },
)

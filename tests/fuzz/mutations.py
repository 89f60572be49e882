"""Changes of good messages, made by a random number generator: the same ones for the same seed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

Header = tuple[bytes, bytes]

# Values that are easily forgotten, to replace any other.
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, -0.0, 2**53 + 1, 2**63, -(2**63), 10**40, 10**308, 1e308),
    *("", " ", "\x00", "\ud800", "\u202e", "\U000e0041", "é" * 40, "x" * 5000, "1" * 400),
    *([], {}, [[]], {"": ""}, [None] * 50, [[[[[[[[1]]]]]]]], {"a": {"a": {"a": {"a": {}}}}}),
    *({"$ref": "#"}, {"$ref": "http://127.0.0.1:9/"}, {"__proto__": {}}, {"__class__": "int"}),
    *("tools/call", "2026-07-28", "2025-11-25", "2025-03-26", "1900-01-01", "initialize"),
    *("../../etc/passwd", "' OR 1=1 --", "%s%n%(a)s{0}", "{{7*7}}", "=?base64?!?=", "=?base64??="),
    *("data:,", "data:;base64,AAAA", "9" * 10, "2026-02-30", "NaN", "Infinity", "\r\nX: y", "true"),
    *("<script>", "__import__('os')", "\u212a", "ſ", "null", "[]", "{}", '{"a":1}'),
]
NAMES = [
    *("", "id", "name", "method", "params", "_meta", "jsonrpc", "arguments", "result", "error"),
    *(
        "cursor",
        "requestState",
        "inputResponses",
        "self",
        "request",
        "context",
        "\ud800",
        "x" * 300,
    ),
    *("$ref", "__class__", "Id", "JSONRPC", "progressToken", "protocolVersion", "Name", "ſ"),
]
TOKENS = [
    *(b"NaN", b"-Infinity", b"-", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\"),
    *(b"\\ud800", b"\\u0000", b"[" * 2000, b'{"a":' * 1500, b"[]," * 500, b"1" * 4500, b"1e999"),
    *(b"0.", b"01", b"1E400", b'"', b",", b"}", b"]", b"{}", b"[]", b"null", b"\x00", b"//"),
    *(b"\r\n", b" " * 100, b'"id":2,', b'"jsonrpc":"1.0",', b"\xe2\x80\xa8", b"\xf4\x90\x80\x80"),
]
VALUES = [
    *(b"", b" ", b"x", b"2025-11-25", b"2025-06-18", b"2025-03-26", b"2024-11-05", b"2026-07-28"),
    *(b"2026-07-28, 2026-07-28", b"1900-01-01", b"tools/list", b"tools/call", b"echo", b"add"),
    *(b"=?base64?ZWNobw==?=", b"=?base64?ZWNobw?=", b"=?base64?/w==?=", b"=?BASE64?ZWNobw==?="),
    *(b"a" * 3000, b"caf\xe9", b"\xe2\x82\xac", b"application/json", b"text/plain", b"*/*"),
    *(b"application/json; charset=utf-16", b"application/json; charset", b"multipart/form-data"),
    *(b"text/event-stream;q=x", b"application/json;q=0", b"gzip", b"identity", b"null", b"-1"),
    *(b"99999999999999999999", b"1e3", b"http://evil.example", b"http://testserver", b"://"),
    *(b"Bearer", b"Bearer ", b"Bearer mcp_x", b"bearer a b", b"Basic Og==", b"\x01", b"\t", b"=;,"),
]
FIELDS = [
    *(b"origin", b"mcp-session-id", b"last-event-id", b"content-encoding", b"x-forwarded-host"),
    *(
        b"mcp-param-region",
        b"mcp-param-x",
        b"authorization",
        b"cookie",
        b"accept",
        b"accept-language",
    ),
    *(b"mcp-name", b"mcp-method", b"mcp-protocol-version", b"x-mcp-toolset", b"host", b"mcp_name"),
    *(b"content-type", b"content-length", b"transfer-encoding", b"x-forwarded-proto", b"forwarded"),
]
METHODS = ["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "post", "X"]


@dataclass
class Sent:
    """A request over HTTP: its headers in order, and the message that its body originally was."""

    message: Any
    headers: list[Header]
    body: bytes = b""
    method: str = "POST"
    changes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.changes} {self.method} {self.headers!r} {self.body!r}"


def written(random: Random, message: Any) -> bytes:
    """Return a message as JSON, as some client might write it."""
    is_short = random.random() < 0.7
    text = json.dumps(
        message,
        ensure_ascii=random.random() < 0.5,
        separators=(",", ":") if is_short else None,
        indent=None if is_short else random.choice([None, 1]),
    )
    return text.encode("utf-8", "surrogatepass")


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield from paths(value[key], (*path, key))


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def odd(random: Random) -> Any:
    kind = random.random()
    if kind < 0.7:
        return copied(random.choice(ODD))
    if kind < 0.8:
        return random.randint(-(2**70), 2**70)
    if kind < 0.9:
        return "".join(chr(random.randrange(0x3000)) for _ in range(random.randrange(12)))
    value = copied(random.choice(ODD))
    for _ in range(random.choice([3, 20, 60, 70, 200])):
        value = [value] if random.random() < 0.5 else {random.choice(NAMES): value}
    return value


def structure(random: Random, message: Any) -> Any:
    """Return a message in which one value is changed, gone, or moved."""
    message = copied(message)
    found = list(paths(message))
    if not found:
        return odd(random)
    *above, key = random.choice(found)
    parent = message
    for each in above:
        parent = parent[each]
    kind = random.randrange(9)
    if kind < 3:
        parent[key] = odd(random)
    elif kind == 3:
        del parent[key]
    elif kind == 4:
        parent[key] = random.choice([[parent[key]], {random.choice(NAMES): parent[key]}])
    elif kind == 5:
        # The value of another place.
        other: Any = message
        for each in random.choice(found):
            other = other[each]
        parent[key] = copied(other)
    elif kind == 6 and isinstance(parent[key], str):
        parent[key] = edited(random, parent[key])
    elif kind == 7 and isinstance(parent, dict):
        parent[random.choice(NAMES)] = parent.pop(key)
    elif isinstance(parent, dict):
        parent[random.choice(NAMES)] = odd(random)
    else:
        parent.insert(random.randrange(len(parent) + 1), odd(random))
    return message


def edited(random: Random, text: str) -> str:
    """Return a text with a character more, less or changed."""
    at = random.randrange(len(text) + 1)
    other = random.choice(["", "A", "=", "-", "_", "\x00", ".", ":", "é", text[:at], text[at:]])
    return text[:at] + other + text[at + random.randrange(2) :]


def noise(random: Random, body: bytes) -> bytes:
    """Return bytes with some changed, gone, doubled or put in."""
    changed = bytearray(body)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(changed) + 1)
        kind = random.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del changed[at : at + random.randint(1, 8)]
        elif kind == 2:
            changed[at:at] = changed[at : at + random.randint(1, 20)]
        elif kind == 3 and random.random() < 0.3:
            del changed[at:]
        elif kind == 4:
            changed[at:at] = bytes(random.randrange(256) for _ in range(random.randint(1, 4)))
        else:
            changed[at:at] = random.choice(TOKENS)
    return bytes(changed)


def other_headers(random: Random, headers: list[Header]) -> list[Header]:
    headers = list(headers)
    at = random.randrange(len(headers))
    name, value = headers[at]
    kind = random.randrange(7)
    if kind == 0:
        del headers[at]
    elif kind == 1:
        headers.insert(random.randrange(len(headers) + 1), headers[at])
    elif kind == 2:
        headers[at] = name, random.choice(VALUES)
    elif kind == 3:
        text = edited(random, value.decode("latin-1"))
        headers[at] = name, text.encode("latin-1", "replace").replace(b"\n", b"")
    elif kind == 4:
        pad = random.choice([b" ", b"\t", b"  "])
        headers[at] = name, pad + value + random.choice([b"", pad])
    elif kind == 5:
        headers[at] = name.replace(b"-", b"_"), value
    else:
        headers.append((random.choice(FIELDS), random.choice(VALUES)))
    return headers


def cursor(random: Random) -> str:
    """Return a text that looks like a cursor."""
    raw = random.choice(
        [b">echo", b">", b"0", b"5", b"999999999", b">a b", b"\xff", b"> echo", b"-1"]
    )
    text = base64.urlsafe_b64encode(noise(random, raw) if random.random() < 0.5 else raw).decode()
    return edited(random, text) if random.random() < 0.5 else text.rstrip("=")


def _change_message(random: Random, sent: Sent) -> Sent:
    return replace(sent, message=structure(random, sent.message))


def _change_body(random: Random, sent: Sent) -> Sent:
    return replace(sent, body=noise(random, sent.body or written(random, sent.message)))


def _change_headers(random: Random, sent: Sent) -> Sent:
    return replace(sent, headers=other_headers(random, sent.headers))


def _change_cursor(random: Random, sent: Sent) -> Sent:
    message = copied(sent.message)
    if isinstance(message, dict) and isinstance(message.get("params"), dict):
        message["params"]["cursor"] = cursor(random)
    return replace(sent, message=message)


def _change_arguments(random: Random, sent: Sent) -> Sent:
    """Change the arguments of a call, and nothing around them."""
    message = copied(sent.message)
    params = message.get("params") if isinstance(message, dict) else None
    if isinstance(params, dict) and "arguments" in params:
        params["arguments"] = structure(random, params["arguments"])
    return replace(sent, message=message)


def _change_state(random: Random, sent: Sent) -> Sent:
    message = copied(sent.message)
    params = message.get("params") if isinstance(message, dict) else None
    if isinstance(params, dict) and isinstance(params.get("requestState"), str):
        key = random.choice(["requestState", "requestState", "inputResponses", "arguments"])
        value = params.get(key)
        params[key] = edited(random, value) if isinstance(value, str) else structure(random, value)
    return replace(sent, message=message)


def _make_batch(random: Random, sent: Sent) -> Sent:
    count = random.choice([0, 1, 2, 3, 3, 5, 50, 51])
    batch = [sent.message] * count
    return replace(
        sent,
        message=[structure(random, each) if random.random() < 0.5 else each for each in batch],
    )


def _change_method(random: Random, sent: Sent) -> Sent:
    return replace(sent, method=random.choice(METHODS))


CHANGES: list[tuple[int, Callable[[Random, Sent], Sent]]] = [
    (30, _change_message),
    (22, _change_arguments),
    (22, _change_body),
    (16, _change_headers),
    (8, _change_state),
    (5, _change_cursor),
    (5, _make_batch),
    (1, _change_method),
]


def mutated(random: Random, sent: Sent) -> Sent:
    """Return a request that is changed once to three times, its body written."""
    weights, functions = zip(*CHANGES, strict=True)
    for change in random.choices(functions, weights, k=random.choice([1, 1, 1, 2, 2, 3])):
        # Changes that follow noise leave the bytes as they are.
        body, sent = sent.body, change(random, sent)
        sent = replace(sent, changes=[*sent.changes, change.__name__])
        if body and not sent.body:
            sent = replace(sent, body=body)
    if not sent.body:
        sent = replace(sent, body=written(random, sent.message))
    if random.random() < 0.9:
        length = str(len(sent.body)).encode()
        if b"content-length" not in dict(sent.headers):
            sent = replace(sent, headers=[*sent.headers, (b"content-length", length)])
    return sent

"""The JSON-RPC message: its members and their types."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import LEGACY, MODERN, body, edit, member, message, rewritten
from tests.hostile.wanted import (
    ECHOED,
    INVALID,
    NO_ENVELOPE,
    NOT_A_MESSAGE,
    PARAMS,
    Accepted,
    Answered,
)

THEME = Theme("envelope")
THEME.add(
    NOT_A_MESSAGE,
    {
        f"the body {text[:20]}": body(text)
        for text in (
            *("null", "true", "false", "0", "-1.5", "1e3", '""', '"ping"', '"{}"', "{}"),
            *('{"id":null}', '{"jsonrpc":"2.0"}', '{"method":"ping"}', '{"a":{"jsonrpc":"2.0"}}'),
        )
    },
)
THEME.add(
    NOT_A_MESSAGE,
    {
        f"the id {text[:20]} of {len(text)}": member("id", text)
        for text in (
            *("null", "true", "false", "1.5", "1.0", "1e3", "-0.0", "[]", "[1]", "{}", '{"id":1}'),
            *(
                str(2**63),
                str(-(2**63) - 1),
                "9" * 309,
                '"' + "x" * 257 + '"',
                '"' + "x" * 2**19 + '"',
            ),
        )
    },
)
THEME.add(
    Answered(),
    {
        f"the id {text[:20]} of {len(text)}": member("id", text)
        for text in (
            *("0", "-1", str(2**63 - 1), str(-(2**63)), '""', '"1"', '"null"', '"\\u0000"'),
            *(
                '"' + "x" * 256 + '"',
                '"' + "\u20ac" * 256 + '"',
                '"\\"]}<b>"',
                '"\u202e"',
                '"a\\nb"',
            ),
        )
    },
)
THEME.add(
    INVALID,
    {
        f"jsonrpc as {text}": member("jsonrpc", text)
        for text in (
            None,
            "null",
            "2",
            "2.0",
            '"1.0"',
            '"2.0 "',
            '"2"',
            '""',
            "true",
            '["2.0"]',
            "{}",
        )
    },
)
THEME.add(
    INVALID,
    {
        f"the method as {text}": member("method", text)
        for text in (None, "null", "1", "true", '["tools/call"]', '{"name":"tools/call"}', "[]")
    },
)
THEME.add(
    INVALID,
    {
        "jsonrpc in capital letters": edit('"jsonrpc"', '"JSONRPC"'),
        "the method in capital letters": edit('"method"', '"Method"'),
        "the method with a blank": edit('"method"', '"method "'),
        "the method with a letter of another alphabet": edit('"method"', '"m\u0435thod"'),
        "no method, but more of all else": edit('"method"', '"methods"'),
    },
)
THEME.add(
    {MODERN: NO_ENVELOPE, LEGACY: PARAMS},
    {
        f"params as {text}": rewritten(
            lambda good, text=text: (
                b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % text.encode()
            )
        )
        for text in ("null", "[]", '["echo",{"text":"hi"}]', '"x"', "1", "true", '""')
    },
)
THEME.add(
    {MODERN: NO_ENVELOPE, LEGACY: PARAMS},
    {"no params": body('{"jsonrpc":"2.0","id":1,"method":"tools/call"}')},
)
THEME.add(
    {MODERN: INVALID, LEGACY: Accepted()},
    {
        "a result": message({"jsonrpc": "2.0", "id": 1, "result": {}}),
        "an error": message({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}),
        "a result and an error": message({"jsonrpc": "2.0", "id": 1, "result": 1, "error": {}}),
        "a result of a tool": message(
            {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "isError": False}}
        ),
    },
)
THEME.add(
    ECHOED,
    {
        "members that nobody knows": edit('"id":1', '"id":1,"x":[],"__proto__":{},"":null'),
        "a result beside the method": edit('"id":1', '"id":1,"result":{}'),
        "an id of another case beside it": edit('"id":1', '"id":1,"ID":2,"Id":3'),
        "params that nobody knows": edit('"name":"echo"', '"name":"echo","x":{"y":[1]},"task":{}'),
    },
)
# Without "id" it is a notification, which is not answered.
THEME.add(
    Accepted(),
    {
        "an id in capital letters": edit('"id":1', '"ID":1'),
        "an id with a blank": edit('"id":1', '"id ":1'),
        "an id with a letter of another alphabet": edit('"id":1', '"\u0456d":1'),
    },
)

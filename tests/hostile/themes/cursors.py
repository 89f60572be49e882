"""Cursors that no page has given: refused, and never the first page."""

from __future__ import annotations

import base64
import pickle
from typing import Any

from tests.hostile.cases import Theme
from tests.hostile.drafts import LEGACY, MODERN, header, method
from tests.hostile.wanted import Answered, Refused

INVALID_CURSOR = Refused(-32602, status=200, message="Invalid cursor: .*")


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


GOOD = encoded(b">echo")
LAST = encoded(b">" + b"z" * 64)


def listed(result: dict[str, Any]) -> bool:
    return any(tool["name"] == "echo" for tool in result["tools"]) and "nextCursor" not in result


def nothing(result: dict[str, Any]) -> bool:
    return result["tools"] == [] and "nextCursor" not in result


THEME = Theme("cursors")
THEME.add(
    INVALID_CURSOR,
    {
        f"the cursor {str(each)[:30]!r}": method("tools/list", cursor=each)
        for each in (
            *(0, 1, -1, 1.5, True, [], {}, ["MQ"], {"offset": 1}),
            *("", " ", "0", "1", "next", "null", "=", "====", "A", "AA", "*", "%3D", "..", "\0"),
            *(GOOD + "A", GOOD + "==", GOOD + "===", GOOD[:-1], GOOD[1:], " " + GOOD),
            *(GOOD + "\n", GOOD.swapcase(), GOOD[::-1], GOOD + GOOD, "\u20ac", GOOD + "\u0661"),
            *("x" * 100_000, "A" * 500_000, "=" * 100_000),
        )
    },
)
THEME.add(
    INVALID_CURSOR,
    {
        f"what says {raw[:24]!r}": method("tools/list", cursor=encoded(raw))
        for raw in (
            *(b">", b"echo", b">echo ", b"> echo", b">echo\0", b">echo\n", b">\xff", b">../echo"),
            *(b">" + b"e" * 129, b"-1", b"+1", b"1.5", b"0x1", b"1e3", b"9" * 10, b"1 ", b" 1"),
            *(
                b'{"offset":1}',
                b"offset=1",
                b"' OR 1=1",
                b">echo' --",
                b">echo;x",
                b"<b>",
                b"\xd9\xa1",
            ),
            *(pickle.dumps({"after": "echo"}), b"\0" * 50, b">>echo", b">\xc3\xa9cho"),
        )
    },
)
# A null from a legacy client counts as absent.
NULL = method("tools/list", cursor=None)
THEME.add(INVALID_CURSOR, {"a cursor that is null": NULL}, eras=(MODERN,))
THEME.add(
    Answered(runs=0, check=lambda result: bool(result["tools"])),
    {"a cursor that is null": NULL},
    eras=(LEGACY,),
)
# Unused bits at the end, which would give one position several spellings.
THEME.add(
    INVALID_CURSOR,
    {
        f"another spelling, {cursor!r}": method("tools/list", cursor=cursor)
        for cursor in ("PmVjaH==", "PmVj aG8", "PmVjaG8\t", "MR", "MX==")
    },
)
THEME.add(
    Answered(runs=0, check=nothing),
    {
        "behind the last tool": method("tools/list", cursor=LAST),
        "an offset behind the last tool": method("tools/list", cursor=encoded(b"999999999")),
    },
)
THEME.add(
    Answered(runs=0, check=listed, most=2**20),
    {
        "no cursor, but params": method("tools/list", Cursor="x", offset=-1, limit=10**9),
        "an offset of nothing": method("tools/list", cursor=encoded(b"0")),
        "before the first tool": method("tools/list", cursor=encoded(b">-")),
        "a list by a name": (method("tools/list", name=["x"]), header("Mcp-Name", "x")),
    },
)

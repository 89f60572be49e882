"""Versions, and the metadata that each modern request carries."""

from __future__ import annotations

from typing import Any

from tests.hostile.cases import Theme
from tests.hostile.drafts import (
    CAPABILITIES,
    CLIENT,
    LEGACY,
    MODERN,
    VERSION,
    VERSION_HEADER,
    Change,
    header,
    meta,
    method,
    params,
)
from tests.hostile.wanted import (
    ECHOED,
    MISMATCH,
    NO_ENVELOPE,
    PARAMS,
    UNSUPPORTED,
    Answered,
    Refused,
)

ONLY_MODERN, ONLY_LEGACY = (MODERN,), (LEGACY,)
UNKNOWN = ("1999-01-01", "2026-07-29", "9999-12-31", "2.0", "latest", "DRAFT-2026-v1", "../x", "0")


def version(value: str) -> tuple[Change, Change]:
    """Name a version in the header and in the body."""
    return header(VERSION_HEADER, value), meta(VERSION, value)


THEME = Theme("versions")
THEME.add(UNSUPPORTED, {f"{each!r} in both": version(each) for each in UNKNOWN}, eras=ONLY_MODERN)
THEME.add(
    UNSUPPORTED,
    {
        "a legacy version in both": version(LEGACY),
        "the oldest version in both": version("2024-11-05"),
        "no letters in both": version(""),
        "1,000 letters in both": version("2" * 1000),
    },
    eras=ONLY_MODERN,
)
THEME.add(
    MISMATCH,
    {
        "no header": header(VERSION_HEADER),
        "the header of a legacy version": header(VERSION_HEADER, LEGACY),
        "the header of no version": header(VERSION_HEADER, "1999-01-01"),
        "an empty header": header(VERSION_HEADER, ""),
        "two headers": header(VERSION_HEADER, MODERN, MODERN),
        "two headers of two eras": header(VERSION_HEADER, MODERN, LEGACY),
        "two versions in one header": header(VERSION_HEADER, f"{MODERN}, {LEGACY}"),
        "a header in quotation marks": header(VERSION_HEADER, f'"{MODERN}"'),
        "a header in Base64": header(VERSION_HEADER, "=?base64?MjAyNi0wNy0yOA==?="),
        "an unknown version in the body alone": meta(VERSION, "1999-01-01"),
        "a legacy version in the body alone": meta(VERSION, LEGACY),
        "a version with a blank in the body alone": meta(VERSION, MODERN + " "),
        "a long version in the body alone": meta(VERSION, "x" * 100_000),
    },
    eras=ONLY_MODERN,
)
THEME.add(
    NO_ENVELOPE,
    {
        "no _meta": params(_meta=...),
        **{f"_meta as {each!r}": params(_meta=each) for each in (None, [], "x", 1, True, {}, [{}])},
        "no version": meta(VERSION, ...),
        "no capabilities": meta(CAPABILITIES, ...),
        **{
            f"the version as {str(each)[:20]}": meta(VERSION, each)
            for each in (None, 20260728, True, [MODERN], {"version": MODERN}, 2026.0728)
        },
        **{
            f"the capabilities as {str(each)[:20]}": meta(CAPABILITIES, each)
            for each in (None, [], "elicitation", 1, True, [{}])
        },
        **{
            f"the client as {str(each)[:20]}": meta(CLIENT, each)
            for each in (None, [], "hostile", 1, True)
        },
        **{
            f"the progress token as {str(each)[:20]}": meta("progressToken", each)
            for each in (None, True, 1.5, [], {})
        },
        "the version under another key": (meta(VERSION, ...), meta("protocolVersion", MODERN)),
        "the version in capital letters": (meta(VERSION, ...), meta(VERSION.upper(), MODERN)),
    },
    eras=ONLY_MODERN,
)
THEME.add(
    ECHOED,
    {
        "no client": meta(CLIENT, ...),
        "a client of odd members": meta(CLIENT, {"name": 1, "version": None, "icons": "x"}),
        "a client of markup": meta(CLIENT, {"name": "<img src=x>\u202e\0", "version": "1"}),
        "a long client": meta(CLIENT, {"name": "x" * 100_000, "version": "1"}),
        "keys that nobody knows": meta("org.example/x", {"a": [None]}),
        "keys that nobody may use": meta("io.modelcontextprotocol/serverInfo", {"name": "evil"}),
        "a progress token": meta("progressToken", "x" * 10_000),
        "a trace that is none": (meta("traceparent", [1]), meta("baggage", "x" * 10_000)),
        "capabilities that nobody knows": meta(CAPABILITIES, {"x": {"y": []}, "elicitation": 1}),
        "blanks around the version": header(VERSION_HEADER, f" \t{MODERN}\t "),
    },
    eras=ONLY_MODERN,
)
THEME.add(
    UNSUPPORTED,
    {
        f"the header {each[:20]!r}": header(VERSION_HEADER, each)
        for each in (*UNKNOWN, "", "2" * 1000, "\xff", f"{LEGACY}, {LEGACY}")
    },
    eras=ONLY_LEGACY,
)
THEME.add(
    Refused(-32602),
    {"the header of a modern version alone": header(VERSION_HEADER, MODERN)},
    eras=ONLY_LEGACY,
)
THEME.add(
    Refused(-32602, status=200, message="Invalid params: params._meta must be an object.*"),
    {f"_meta as {each!r}": params(_meta=each) for each in ([1], "x", 1, True)},
    eras=ONLY_LEGACY,
)
THEME.add(
    ECHOED,
    {
        "_meta that is null": params(_meta=None),
        "no header": header(VERSION_HEADER),
        "an older header": header(VERSION_HEADER, "2025-06-18"),
        "a progress token that is none": meta("progressToken", {}),
        "headers of the modern era": (
            header("Mcp-Method", "tools/call"),
            header("Mcp-Name", "echo"),
        ),
    },
    eras=ONLY_LEGACY,
)


def greeted(result: dict[str, Any]) -> bool:
    return bool(result["protocolVersion"] == LEGACY)


GREETED = Answered(runs=0, check=greeted)
THEME.add(
    GREETED,
    {
        f"initialize with {each[:20]!r}": method(
            "initialize", protocolVersion=each, capabilities={}
        )
        for each in (LEGACY, MODERN, "1999-01-01", "", "x" * 100_000, "2026-07-28 ")
    },
    eras=ONLY_LEGACY,
)
THEME.add(
    GREETED,
    {
        "initialize by a modern header": header(VERSION_HEADER, MODERN),
        "initialize by an unknown header": header(VERSION_HEADER, "1999-01-01"),
        "initialize by no header": header(VERSION_HEADER),
    },
    method("initialize", protocolVersion=LEGACY, capabilities={}),
    eras=ONLY_LEGACY,
)
THEME.add(
    PARAMS,
    {
        "initialize with nothing": method("initialize"),
        **{
            f"initialize with {each!r}": method("initialize", protocolVersion=each)
            for each in (None, 1, True, [], {}, [LEGACY])
        },
        "initialize with odd capabilities": method(
            "initialize", protocolVersion=LEGACY, capabilities=[]
        ),
        "initialize with an odd client": method(
            "initialize", protocolVersion=LEGACY, capabilities={}, clientInfo="x"
        ),
    },
    eras=ONLY_LEGACY,
)

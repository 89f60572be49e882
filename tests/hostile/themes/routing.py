"""The headers that mirror the body of a modern request, by which proxies route."""

from __future__ import annotations

import base64

from tests.hostile.cases import Theme
from tests.hostile.drafts import MODERN, call, header, in_header, method
from tests.hostile.wanted import ECHOED, MISMATCH, Answered, Either, Http

ECHO = base64.b64encode(b"echo").decode()
ERAS = (MODERN,)

THEME = Theme("routing headers")
THEME.add(
    MISMATCH,
    {
        f"the method {each[:24]!r}": header("Mcp-Method", each)
        for each in (
            *("tools/list", "TOOLS/CALL", "Tools/Call", "tools/call/", "tools", "", "tools%2Fcall"),
            *(
                "tools/call, tools/call",
                "tools/call;x=1",
                '"tools/call"',
                "=?base64?dG9vbHMvY2FsbA==?=",
            ),
            *("x" * 4000, "\xfftools/call", "initialize"),
        )
    },
    eras=ERAS,
)
THEME.add(
    MISMATCH,
    {
        "no method": header("Mcp-Method"),
        "the method twice": header("Mcp-Method", "tools/call", "tools/call"),
        "two methods": header("Mcp-Method", "tools/call", "tools/list"),
        "no name": header("Mcp-Name"),
        "the name twice": header("Mcp-Name", "echo", "echo"),
        "two names": header("Mcp-Name", "add", "echo"),
        "neither": (header("Mcp-Method"), header("Mcp-Name")),
        "method and name exchanged": (
            header("Mcp-Method", "echo"),
            header("Mcp-Name", "tools/call"),
        ),
        "a list of tools by the name of a call": (method("tools/list"), header("Mcp-Method", "x")),
    },
    eras=ERAS,
)
THEME.add(
    MISMATCH,
    {
        f"the name {each[:24]!r}": header("Mcp-Name", each)
        for each in (
            *("add", "Echo", "ECHO", "", "echo,echo", "echo x", "forbidden", "%65cho", "ech\xf6"),
            *("=?base64??=", f"=?base64?{ECHO[:-1]}?=", f"=?base64?{ECHO}", f"{ECHO}?=", ECHO),
            *(
                f"=?BASE64?{ECHO}?=",
                f"=?base64? {ECHO}?=",
                f"=?base64?{ECHO[:-2]}?=",
                "=?base64?*?=",
            ),
            *(f"=?base64?{ECHO}=?=", f"=?base64?{ECHO[:-3]}x==?=", "=?base64?/////w==?="),
            *(in_header("echo "), in_header("echo\n"), in_header("\u00e9cho"), "x" * 4000),
            *(in_header("echo\0"), "=?base64?ZWNobx==?=", "=?utf-8?B?ZWNobw==?=", '"echo"'),
        )
    },
    eras=ERAS,
)
THEME.add(
    ECHOED,
    {
        "blanks around the method": header("Mcp-Method", "  tools/call\t"),
        "blanks around the name": header("Mcp-Name", "\t echo  "),
        "the name in Base64": header("Mcp-Name", f"=?base64?{ECHO}?="),
    },
    eras=ERAS,
)
# A server may drop it, merge it with a header of the same name, or refuse the request.
THEME.add(
    Either((ECHOED, MISMATCH, Http((400,), foreign=True))),
    {
        "another name with an underscore": header("Mcp_Name", "add"),
        "another method with an underscore": header("Mcp_Method", "tools/list"),
        "another version with an underscore": header("MCP_Protocol_Version", "2025-11-25"),
    },
    eras=ERAS,
)
WEST = call("region", region="west")
THEME.add(
    Answered(text="west"),
    {
        "a parameter in its header": (WEST, header("Mcp-Param-Region", "west")),
        "a parameter in Base64": (WEST, header("Mcp-Param-Region", "=?base64?d2VzdA==?=")),
        "blanks around a parameter": (WEST, header("Mcp-Param-Region", "  west ")),
        "a header of no parameter": (
            WEST,
            header("Mcp-Param-Region", "west"),
            header("Mcp-Param-Colour", "red"),
        ),
    },
    eras=ERAS,
)
THEME.add(
    Answered(text="42"),
    {
        f"the number 42 as {text}": (call("region", number=42), header("Mcp-Param-No", text))
        for text in ("42", "42.0", " 42 ")
    },
    eras=ERAS,
)
THEME.add(
    MISMATCH,
    {
        "a parameter without its header": WEST,
        "a header without its parameter": (call("region"), header("Mcp-Param-Region", "west")),
        "another region": (WEST, header("Mcp-Param-Region", "east")),
        "a region in capital letters": (WEST, header("Mcp-Param-Region", "West")),
        "no letters for a region": (WEST, header("Mcp-Param-Region", "")),
        "a region twice": (WEST, header("Mcp-Param-Region", "west", "west")),
        "a region in broken Base64": (WEST, header("Mcp-Param-Region", "=?base64?d2VzdA=?=")),
        "a region beyond ASCII": (
            call("region", region="\xe9"),
            header("Mcp-Param-Region", "\xe9"),
        ),
        "a region of null with a header": (
            call("region", region=None),
            header("Mcp-Param-Region", "null"),
        ),
        **{
            f"the number 42 as {text[:12]!r}": (
                call("region", number=42),
                header("Mcp-Param-No", text),
            )
            for text in ("43", "4.2e1", "42.5", "0x2a", "forty-two", "42,42", "", "9" * 400, "+42")
        },
    },
    eras=ERAS,
)

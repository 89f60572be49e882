"""Messages without an id: taken with 202, and nothing runs because of them."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import VERSION_HEADER, header, member, message
from tests.hostile.wanted import NOT_A_MESSAGE, UNSUPPORTED, Accepted, Refused

THEME = Theme("notifications")
THEME.add(
    Accepted(),
    {
        f"{name} {str(params)[:30]}": message({"jsonrpc": "2.0", "method": name, "params": params})
        for name, params in (
            ("notifications/initialized", {}),
            ("notifications/cancelled", {"requestId": 1}),
            ("notifications/cancelled", {"requestId": [None], "reason": "x" * 10_000}),
            ("notifications/cancelled", {}),
            ("notifications/progress", {"progressToken": {}, "progress": "x"}),
            ("notifications/roots/list_changed", None),
            ("notifications/nobody/knows", [1, 2, 3]),
            ("tools/list", {}),
            ("tools/call", {"name": "echo", "arguments": {"text": "hi"}}),
            ("tools/call", ["echo"]),
            ("tools/call", "echo"),
            ("initialize", {}),
            ("server/discover", {}),
            ("__class__", {}),
            ("", {}),
            ("x" * 5000, {}),
        )
    },
)
THEME.add(
    Accepted(),
    {
        "a call without an id": member("id", None),
        "a call without an id, for another tool": (member("id", None), header("Mcp-Name", "add")),
        "a call without an id, by another method": (
            member("id", None),
            header("Mcp-Method", "tools/list"),
        ),
        "no params": message({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    },
)
THEME.add(
    NOT_A_MESSAGE,
    {
        "no method": message({"jsonrpc": "2.0"}),
        "a method that is no text": message({"jsonrpc": "2.0", "method": 1}),
        "a method that is null": message({"jsonrpc": "2.0", "method": None}),
        "another jsonrpc": message({"jsonrpc": "1.0", "method": "notifications/initialized"}),
        "no jsonrpc": message({"method": "notifications/initialized"}),
    },
)
THEME.add(
    Refused(-32022, echoes=False, data=UNSUPPORTED.data),
    {
        f"the version {version!r}": (
            message({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            header(VERSION_HEADER, version),
        )
        for version in ("1999-01-01", "2026-07-29", "latest", "")
    },
)

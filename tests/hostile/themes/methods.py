"""Unknown methods: 404 in the modern era, without a hint at other methods."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import LEGACY, MODERN, header, method
from tests.hostile.wanted import MISMATCH, PARAMS, Answered, Either, Refused

NOT_FOUND = {
    MODERN: Refused(-32601, status=404, message="Method not found: .{0,65}"),
    LEGACY: Refused(-32601, status=200, message="Method not found: .{0,65}"),
}

THEME = Theme("methods")
THEME.add(
    NOT_FOUND,
    {
        f"the method {name[:30]!r} of {len(name)}": method(name)
        for name in (
            *("", "tools", "tools/", "/tools/call", "tools.call", "tools/Call", "TOOLS/CALL"),
            *("echo", "add", "system.listMethods", "system.multicall", "rpc.discover", "__init__"),
            *("handle", "methods", "self.handle", "../tools/call", "tools/call/../list", "*"),
            *("roots/list", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"),
            *("sampling/createMessage", "elicitation/create"),
            *("tasks/list", "notifications/initialized", "x" * 3000),
            *("tools/call?x=1", "tools/call#x", "<script>", "%00", "' OR 1=1 --", "null", "1"),
        )
    },
)
# Only one of the sites has resources and prompts.
THEME.add(
    {era: Either((NOT_FOUND[era], Answered(runs=0))) for era in NOT_FOUND},
    {
        f"{name} of sites with and without them": method(name)
        for name in ("resources/list", "resources/templates/list", "prompts/list")
    },
)
THEME.add(
    {era: Either((NOT_FOUND[era], PARAMS)) for era in NOT_FOUND},
    {
        f"{name} of nothing": method(name)
        for name in ("resources/read", "prompts/get", "completion/complete")
    },
)
THEME.add(
    {MODERN: Either((NOT_FOUND[MODERN], MISMATCH)), LEGACY: NOT_FOUND[LEGACY]},
    {
        f"the method {name[:30]!r}": (method(name), header("Mcp-Method", "x"))
        for name in ("tools/call\n", "tools/call\0", "m\u00e9thode", "\u202etools", "x" * 500_000)
    },
)
THEME.add(
    {MODERN: NOT_FOUND[MODERN]},
    {
        "initialize in the modern era": method("initialize", protocolVersion=LEGACY),
        "ping in the modern era": method("ping"),
    },
)
THEME.add(
    {LEGACY: NOT_FOUND[LEGACY]},
    {"server/discover in the legacy era": method("server/discover")},
)
# Only under ASGI are there streams.
NO_FILTER = Refused(-32602, status=200, message="Invalid params: notifications must be .*")
THEME.add(
    {MODERN: Either((NOT_FOUND[MODERN], NO_FILTER)), LEGACY: NOT_FOUND[LEGACY]},
    {"subscriptions without a filter": method("subscriptions/listen")},
)
THEME.add({LEGACY: Answered(runs=0)}, {"ping with params": method("ping", x=[1], _meta={})})
THEME.add(
    {
        MODERN: Answered(
            runs=0,
            check=lambda found: found["capabilities"]["tools"] in ({}, {"listChanged": True}),
        )
    },
    {
        "server/discover with params": method("server/discover", cursor=1, name=[]),
        "server/discover by a name": (method("server/discover"), header("Mcp-Name", "echo")),
    },
)

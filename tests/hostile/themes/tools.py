"""Names of tools: a hidden tool is answered exactly like one that does not exist."""

from __future__ import annotations

import re

from tests.hostile.cases import Theme
from tests.hostile.drafts import call, params
from tests.hostile.wanted import PARAMS, Refused


def unknown(name: str) -> Refused:
    """Return the one answer for a tool that is missing or hidden; its name is cut."""
    shown = re.escape(name if len(name) <= 64 else name[:64] + "…")
    return Refused(-32602, status=200, message=f"Unknown tool: {shown}")


THEME = Theme("tools")
for name in (
    *("forbidden", "switched_off", "unmarked", "forbiddem", "Echo", "ECHO", "echo ", " echo"),
    *("echo\n", "echo\0", "ech\u043e", "\uff45cho", "echo,echo", "echo()", "echo?", "echo#", "*"),
    *("", " ", ".", "..", "../echo", "/etc/passwd", "echo/../forbidden", "probes.echo", "rpc.echo"),
    *("tests.hostile.probes.echo", "functions:echo", "system.listMethods", "system_listMethods"),
    *("__class__", "__init__", "_note_run", "os.system", "eval", "null", "None", "0", "true", "[]"),
    *("%65cho", "echo%00", "e" * 64, "e" * 65, "e" * 5000, "\u20ac" * 70, "\N{PILE OF POO}"),
    *(
        "' OR '1'='1",
        "<b>echo</b>",
        "{{7*7}}",
        "${x}",
        "\u202eohce",
        "echo\r\nX: y",
        "\x1b[31mecho",
    ),
):
    THEME.add(unknown(name), {f"the tool {name[:30]!r} of {len(name)}": call(name, text="hi")})
THEME.add(
    unknown("erase"), {"a tool for users alone": call("erase", word="x")}, callers=("anonymous",)
)
THEME.add(
    unknown("forbidden"),
    {
        "what is forbidden, with arguments that are wrong": call("forbidden", nothing=1),
        "what is forbidden, with none": (call("forbidden"), params(arguments=...)),
        "what is forbidden, with a state": (
            call("forbidden"),
            params(requestState="x", inputResponses={}),
        ),
        "what is forbidden, as a task": (call("forbidden"), params(task={"ttl": 1})),
    },
)
THEME.add(
    PARAMS,
    {
        "no name": params(name=...),
        **{
            f"the name as {str(each)[:20]}": params(name=each)
            for each in (None, 1, 1.5, True, False, [], ["echo"], {}, {"name": "echo"}, [["echo"]])
        },
    },
)

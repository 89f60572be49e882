"""Tools that raise, end, recurse, or return an unsendable value: one sentence, and no more."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import call
from tests.hostile.wanted import WRONG_ARGUMENTS, Answered, Either

SITES = ("faults",)
REFERENCE = r"the site's log says why under the reference [0-9a-f]{12}"
FAILED = Answered(is_error=True, runs=0, text=f"failed: {REFERENCE}")
UNSENDABLE = Answered(is_error=True, runs=0, text=f"cannot be sent: {REFERENCE}")
UNAVAILABLE = Answered(is_error=True, runs=0, text=REFERENCE)
DONE = Answered(runs=0, most=4 * 2**20)
KINDS = (
    *("arguments", "assertion", "broken pipe", "database", "exit", "generator exit", "group"),
    *("io", "keyboard", "memory", "stop", "stop async", "surrogate", "unspeakable", "cancelled"),
)

THEME = Theme("fault tools")
THEME.add(
    FAILED,
    {
        "an exception": call("boom"),
        "a TypeError inside": call("typeerr"),
        "an endless recursion": call("recur"),
        "the end of the process": call("exit"),
        **{f"raises {kind}": call("raises", kind=kind) for kind in KINDS},
        **{f"raises {kind} on the loop": call("araises", kind=kind) for kind in KINDS},
    },
    sites=SITES,
)
THEME.add(
    UNSENDABLE,
    {
        "what is no number": call("nan"),
        "what has no end": call("inf"),
        "what no JSON holds": call("unser"),
        "half a character": call("surrogate"),
        "5,001 digits": call("hugeint"),
        "5,000 levels": call("deep", n=5000),
        "100,000 levels": call("deep", n=100_000),
        "a list in itself": call("circle"),
        "another type": call("wrong"),
    },
    sites=SITES,
)
THEME.add(UNAVAILABLE, {"a broken transaction": call("broken")}, sites=SITES)
THEME.add(
    Answered(is_error=True, runs=0, text="bytes"),
    {"six megabytes": call("big", n=6 * 2**20), "thirty megabytes": call("big", n=30 * 10**6)},
    sites=SITES,
)
THEME.add(
    DONE,
    {
        "nothing": call("none"),
        "an empty text": call("big", n=0),
        "one megabyte": call("big", n=2**20),
        "ten levels": call("deep", n=10),
        "a rest": call("sleep", s=0.05),
        "a rest on the loop": call("asleep", s=0.05),
    },
    sites=SITES,
)
THEME.add(
    Either((DONE, UNSENDABLE)),
    {"300 levels": call("deep", n=300), "bytes": call("bytes")},
    sites=SITES,
)
THEME.add(
    WRONG_ARGUMENTS,
    {
        "a fault of no kind": call("raises", kind="nothing"),
        "a fault with too much": call("boom", x=1),
        "a rest that is no number": call("sleep", s="1"),
    },
    sites=SITES,
)

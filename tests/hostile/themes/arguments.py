"""Arguments: a violation of the schema is reported to the model, briefly, and nothing runs."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import argument, call, params
from tests.hostile.wanted import PARAMS, WRONG_ARGUMENTS, Answered, Either

THEME = Theme("arguments")
THEME.add(
    PARAMS,
    {
        f"arguments as {str(each)[:20]}": params(arguments=each)
        for each in ([], ["hi"], "", "hi", '{"text":"hi"}', 0, 1, 1.5, True, False, [{}])
    },
)
THEME.add(
    WRONG_ARGUMENTS,
    {
        "no arguments": params(arguments=...),
        "arguments of null": params(arguments=None),
        "arguments of nothing": params(arguments={}),
        **{
            f"a text as {each[:20]}": argument(each)
            for each in ("null", "1", "1.5", "true", "[]", '["hi"]', "{}", '{"text":"hi"}', "1e3")
        },
        "another name": call("echo", texts="hi"),
        "the name in capital letters": call("echo", Text="hi"),
        "the name with a blank": call("echo", **{"text ": "hi"}),
        "the name with a letter of another alphabet": call("echo", **{"t\u0435xt": "hi"}),
        **{
            f"also an argument {name[:20]!r}": call("echo", text="hi", **{name: 1})
            for name in (
                *("request", "context", "user", "self", "cls", "kwargs", "args", "_meta", "auth"),
                *(
                    "__class__",
                    "__proto__",
                    "constructor",
                    "",
                    " ",
                    "x" * 10_000,
                    "\u202ex",
                    "a/b~c",
                ),
                *("_rpc_context", "is_superuser", "confirm", "requestState", "\0", "a\nb", "$ref"),
            )
        },
    },
)
THEME.add(
    WRONG_ARGUMENTS,
    {
        f"a number as {str(each)[:20]}": call("add", a=each)
        for each in (
            *("1", "", "1e3", True, False, None, 1.5, [], [1], {}, "0x10", "one", "\u0661", -1.5),
        )
    },
)
THEME.add(
    WRONG_ARGUMENTS,
    {
        "a second number that is none": call("add", a=1, b="2"),
        "two wrong at once": call("add", a="x", b=[], c=1),
        "a name of 900,000 letters": call("echo", **{"x" * 900_000: 1}),
        "a value of 100,000 numbers": call("echo", text=list(range(100_000))),
        "10,000 names": call("echo", **{f"name{each}": each for each in range(10_000)}),
        "5,000 names like the right one": call(
            "echo", **{"text" + "_" * each: 1 for each in range(1, 900)}
        ),
        "names in names": call("echo", text={"a": {"b": {"c": {"d": [1, {"e": None}]}}}}),
        "a wrong value beside a state": (
            call("echo", text=1),
            params(requestState=None, inputResponses={}),
        ),
    },
)
THEME.add(
    Answered(),
    {
        "a number that is whole": call("add", a=3.0),
        "a number below zero": call("add", a=-(2**53)),
        "a coroutine": call("aecho", text="hi"),
    },
)
THEME.add(
    Either((Answered(), WRONG_ARGUMENTS)),
    {
        f"the number {str(each)[:12]}… of {len(str(each))} digits": call("add", a=each)
        for each in (2**63, -(2**63) - 1, 2**64, 10**100, 10**308)
    },
)

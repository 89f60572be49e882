"""States of confirmations: forged, exchanged, used twice, answered oddly. Nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.hostile.cases import Theme
from tests.hostile.drafts import CAPABILITIES, LEGACY, MODERN, Change, Draft, call, meta, params
from tests.hostile.wanted import PARAMS, WRONG_ARGUMENTS, Answered

USER = ("token",)
ERAS = (MODERN,)
YES = {"confirm": {"action": "accept", "content": {"confirm": True}}}
ASKS = meta(CAPABILITIES, {"elicitation": {}})
ASKED = Answered(kind="input_required", runs=0)
WAITS = Answered(is_error=True, runs=0, text="requires a person's approval")
NOT_AGREED = Answered(is_error=True, runs=0, text="and declined")


def answered(
    responses: Any = YES,
    change: Callable[[str], Any] = lambda state: state,
    *,
    tool: str = "erase",
    asked: str = "a",
    sent: dict[str, Any] | None = None,
    times: int = 0,
) -> Change:
    """Answer a question about ``erase`` that the server has just asked, after changes."""

    def make(draft: Draft) -> None:
        assert draft.ask_state is not None
        state = change(draft.ask_state("erase", {"word": asked}, use=times))
        call(tool, **({"word": "a"} if sent is None else sent))(draft)
        ASKS(draft)
        params(requestState=state, inputResponses=responses)(draft)

    return make


def flipped(at: int) -> Callable[[str], str]:
    """Change one letter of a state."""

    def change(state: str) -> str:
        place = at % len(state)
        return state[:place] + ("B" if state[place] != "B" else "C") + state[place + 1 :]

    return change


THEME = Theme("confirmations")
THEME.add(ASKED, {"a question": (call("erase", word="a"), ASKS)}, eras=ERAS, callers=USER)
THEME.add(Answered(), {"a yes": answered()}, eras=ERAS, callers=USER)
THEME.add(
    PARAMS,
    {
        f"the state {str(each)[:24]!r}": (
            call("erase", word="a"),
            ASKS,
            params(requestState=each, inputResponses=YES),
        )
        for each in (
            *("", "x", "a:b", "a:b:c", ".eJw:1:x", "\0", "\u20ac", "x" * 500_000, ":" * 1000),
            *(1, True, [], {}, ["x"], {"binding": "x"}),
            "eyJiaW5kaW5nIjoieCJ9:1vAAAA:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        )
    },
    eras=ERAS,
    callers=USER,
)
THEME.add(
    PARAMS,
    {
        **{
            f"a letter changed, at {at}": answered(change=flipped(at)) for at in (0, 7, 60, -50, -3)
        },
        "a letter behind it": answered(change=lambda state: state + "A"),
        "a letter less": answered(change=lambda state: state[:-1]),
        "the state twice": answered(change=lambda state: state + state),
        "the state in capital letters": answered(change=str.upper),
        "a time of later": answered(
            change=lambda state: ":".join([state.split(":")[0], "zzzzzz", state.split(":")[-1]])
        ),
        "no signature": answered(change=lambda state: state.rpartition(":")[0]),
        "other arguments": answered(sent={"word": "b"}),
        "the question of other arguments": answered(asked="b"),
        "another tool": answered(tool="echo", sent={"text": "a"}),
        "a state that was used": answered(times=1),
        "responses as a list": answered([YES]),
        "responses as a text": answered("yes"),
        "responses of null": answered(None),
        "a response that is none": answered({"confirm": True}),
        "a response as a list": answered({"confirm": [YES["confirm"]]}),
        "no action": answered({"confirm": {"content": {"confirm": True}}}),
        "an action in capital letters": answered(
            {"confirm": {**YES["confirm"], "action": "ACCEPT"}}
        ),
        "an action as a list": answered({"confirm": {**YES["confirm"], "action": ["accept"]}}),
        "content as a list": answered({"confirm": {"action": "accept", "content": [True]}}),
    },
    eras=ERAS,
    callers=USER,
)
THEME.add(
    NOT_AGREED,
    {
        "a no": answered({"confirm": {"action": "decline"}}),
        "a yes that says no": answered(
            {"confirm": {"action": "accept", "content": {"confirm": False}}}
        ),
        "a yes as a text": answered(
            {"confirm": {"action": "accept", "content": {"confirm": "true"}}}
        ),
        "a yes as a number": answered({"confirm": {"action": "accept", "content": {"confirm": 1}}}),
        "a yes to nothing": answered({"confirm": {"action": "accept", "content": {}}}),
        "a yes without content": answered({"confirm": {"action": "accept"}}),
        "a no with a yes": answered({"confirm": {**YES["confirm"], "action": "decline"}}),
    },
    eras=ERAS,
    callers=USER,
)
THEME.add(
    ASKED,
    {
        "no response": answered({}),
        "a response to nothing": answered({"confirmed": YES["confirm"]}),
        "a response by another letter": answered({"Confirm": YES["confirm"]}),
        "a yes without a state": (call("erase", word="a"), ASKS, params(inputResponses=YES)),
        "a state of null": (
            call("erase", word="a"),
            ASKS,
            params(requestState=None, inputResponses=YES),
        ),
    },
    eras=ERAS,
    callers=USER,
)
THEME.add(
    WAITS,
    {
        "a client that cannot ask": call("erase", word="a"),
        "a client that asks by addresses": (
            call("erase", word="a"),
            meta(CAPABILITIES, {"elicitation": {"url": {}}}),
        ),
        "a client of odd capabilities": (
            call("erase", word="a"),
            meta(CAPABILITIES, {"elicitation": [{}]}),
        ),
    },
    eras=ERAS,
    callers=USER,
)
THEME.add(
    WAITS,
    {
        "a legacy client": call("erase", word="a"),
        "a legacy client that says yes": (call("erase", word="a"), params(inputResponses=YES)),
        "a legacy client with a state": (
            call("erase", word="a"),
            params(requestState="x", inputResponses=YES),
        ),
    },
    eras=(LEGACY,),
    callers=USER,
)
THEME.add(
    WRONG_ARGUMENTS,
    {
        "a question of wrong arguments": call("erase", word=1),
        "a yes in the arguments": call("erase", word="a", confirm=True),
        "a confirmation in the arguments": call("erase", word="a", confirmed=True),
    },
    callers=USER,
)

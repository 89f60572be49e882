"""Arrays of messages, which only the revision 2025-03-26 has."""

from __future__ import annotations

from typing import Any

from tests.hostile.cases import Theme
from tests.hostile.drafts import CAPABILITIES, LEGACY, MODERN, VERSION, Change, body, message
from tests.hostile.wanted import (
    ECHOED,
    NOT_A_MESSAGE,
    PARAMS,
    WRONG_ARGUMENTS,
    Accepted,
    Answered,
    Batch,
    Refused,
    Wanted,
)

WITH_BATCHES = ("2025-03-26", "none")
NO_BATCH = Refused(-32600, echoes=False, message=".*batch.*")
NOT_FOUND = Refused(-32601, status=200)
CALL = {"name": "echo", "arguments": {"text": "hi"}}
ENVELOPE = {VERSION: MODERN, CAPABILITIES: {}}


def request(id: Any, method: str = "tools/call", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or CALL}


def note(method: str = "notifications/initialized", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


THEME = Theme("batches")
THEME.add(
    NO_BATCH,
    {
        "one call": message([request(1)]),
        "two calls": message([request(1), request(2)]),
        "no message": message([]),
        "notifications": message([note(), note()]),
        "lists in lists": message([[[]]]),
        "numbers": message([1, 2]),
        "a thousand calls": message([request(each) for each in range(1000)]),
    },
    eras=(MODERN, LEGACY, "2025-06-18", "2024-11-05"),
)
THEME.add(
    NOT_A_MESSAGE,
    {
        "no message": message([]),
        "11 calls": message([request(each) for each in range(11)]),
        "5,000 calls": message([request(each) for each in range(5000)]),
        "100,000 numbers": body("[" + "1," * 100_000 + "1]"),
        "an initialize": message([request(1, "initialize", protocolVersion="2025-03-26")]),
        "an initialize beside a call": message(
            [request(1), request(2, "initialize", protocolVersion="2025-03-26")]
        ),
        "a message of the modern era": message([request(1, **CALL, _meta=ENVELOPE)]),
        "one of each era": message([request(1), request(2, **CALL, _meta=ENVELOPE)]),
    },
    eras=WITH_BATCHES,
)


def answers(*each: tuple[Any, Any, Wanted | None]) -> tuple[Change, Batch]:
    """Return a batch of messages, with the wanted answers by id."""
    wanted = tuple((id, found) for _, id, found in each if found is not None)
    return message([sent for sent, _, _ in each]), Batch(wanted)


for title, (change, wanted) in {
    "two calls": answers((request(1), 1, ECHOED), (request(2), 2, ECHOED)),
    "the same id twice": answers((request(1), 1, ECHOED), (request(1), 1, ECHOED)),
    "ids of two types": answers((request(1), 1, ECHOED), (request("1"), "1", ECHOED)),
    "a call and a notification": answers((request("a"), "a", ECHOED), (note(), None, None)),
    "a call that is none": answers(
        (note("tools/call", **CALL), None, None), (request(7), 7, ECHOED)
    ),
    "what is no message": answers(
        *((each, None, NOT_A_MESSAGE) for each in (1, None, "x", [], [[]], {}, True, 1.5))
    ),
    "a good one between bad ones": answers(
        (None, None, NOT_A_MESSAGE), (request(1), 1, ECHOED), ({}, None, NOT_A_MESSAGE)
    ),
    "each wrong in its own way": answers(
        (request(1, "nothing/known"), 1, NOT_FOUND),
        (request(2, name="nothing"), 2, PARAMS),
        (request(3, name="echo", arguments={}), 3, WRONG_ARGUMENTS),
        (request(4, name="echo", arguments=[]), 4, PARAMS),
        (request(None), None, NOT_A_MESSAGE),
        ({**request(6), "jsonrpc": "1.0"}, 6, Refused(-32600)),
    ),
    "ten calls": answers(*((request(each), each, ECHOED) for each in range(10))),
    "ten calls of the forbidden": answers(
        *((request(each, name="forbidden"), each, PARAMS) for each in range(10))
    ),
    "a batch in a batch": answers(([request(1)], None, NOT_A_MESSAGE), (request(2), 2, ECHOED)),
}.items():
    THEME.add(wanted, {title: change}, eras=WITH_BATCHES)
THEME.add(
    Accepted(),
    {
        "notifications alone": message([note(), note("notifications/cancelled", requestId=1)]),
        "calls without ids": message([note("tools/call", **CALL)] * 10),
        "results alone": message([{"jsonrpc": "2.0", "id": 1, "result": {}}]),
    },
    eras=WITH_BATCHES,
)
THEME.add(
    Answered(),
    {"one call that is in no batch": message(request(1))},
    eras=WITH_BATCHES,
)

"""A URLconf with a tool for each result in the tests; clients validate the results."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from inspect import isfunction
from typing import Any, Literal

from django.urls import include, path
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from tests.schemas import test_choices as choices
from tests.schemas.django import test_represented as represented
from tests.schemas.test_defaults import Bounds
from tests.schemas.test_fitting_results import RESULTS
from tests.schemas.test_kinds import KINDS
from tests.schemas.test_lazy_texts import LAZY
from tests.schemas.test_own_serializers import OWN
from tests.schemas.test_written_times import AWARE, TIMES
from tests.support.serving import giving

NAMED: list[tuple[Any, Any]] = [
    (choices.Code, choices.Code.FINE),
    (list[choices.Level], [choices.Level.SMALL, choices.Level.HIGH]),
    (choices.Both, choices.Both([choices.Level.LOW], {choices.Level.HIGH: choices.Level.LOW})),
    (dict[choices.Grade, int], {choices.Grade.FIRST: 1}),
    (dict[Literal[1, 2], int], {1: 5}),
    (dict[Literal[True, "a"], dt.time], {True: dt.time(1), "a": dt.time(2)}),
    (dict[int, choices.Word], {1: choices.Word.YEP}),
]


def results() -> Iterator[tuple[Any, Any]]:
    """Return pairs of a return hint and a value of it, or a function that makes the value."""
    yield from ((kind.hint, value) for kind in KINDS for _, value in kind.taken)
    yield from ((hint, value) for hint, value, _ in (*RESULTS, *LAZY, *OWN))
    yield from (*TIMES, *NAMED, *represented.NULLABLE)
    yield from ((hint, value) for hint, value, *_ in represented.OWN)
    yield dt.datetime, AWARE
    yield Bounds, Bounds(most=1, least=None)


def tool(number: int, hint: Any, value: Any) -> Callable[[], Any]:
    give = giving(hint, value)
    if isfunction(value) and hint is not value:

        def give():  # type: ignore[no-untyped-def]
            """Give a value."""
            return value()

        give.__annotations__ = {"return": hint}
    give.__name__ = f"result_{number}"
    return mcp_tool(give)


server = RpcServer(register_system_procedures=False)
for number, (hint, value) in enumerate(results()):
    server.register_procedure(tool(number, hint, value))
urlpatterns = [path("rpc", server.view), path("", include("mcp_bridge.urls"))]

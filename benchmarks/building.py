"""
What it takes to build a tool, beside what pydantic takes for the schemas alone.

A thousand generated dataclasses, which hold themselves and each other; a tool takes one and returns
it. pydantic builds a TypeAdapter of the class, and both of its JSON Schemas. What holds a result to
its schema is left out, since it is made when the first result comes. No server is started.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from pydantic import TypeAdapter

from mcp_bridge.schemas import Inputs, Outputs, Signature
from tests.schemas.families import families

WORD: Final = "building"
COUNT: Final = 1000
SEED: Final = 2026


def tool_of(kind: type) -> None:
    """What is built for a tool: the schemas, what checks arguments, and what writes results."""

    def take(value: Any) -> Any:
        """Take a value, and return it."""
        return value

    take.__annotations__ = {"value": kind, "return": kind}
    signature = Signature.of(take)
    Inputs(signature)
    Outputs(signature.returns)


def schemas_of(kind: type) -> None:
    """The same two schemas, by pydantic alone."""
    adapter = TypeAdapter(kind)
    adapter.json_schema(mode="validation")
    adapter.json_schema(mode="serialization")


def seconds(build: Callable[[type], None], kind: type) -> float:
    begun = time.process_time()
    build(kind)
    return time.process_time() - begun


def measure() -> str:
    """The figures, as Markdown."""
    found: dict[Any, list[float]] = {tool_of: [], schemas_of: []}
    for number, kind in enumerate(itertools.islice(families(SEED), COUNT)):
        # In turns: whoever comes second finds what pydantic has kept with the class.
        for build in (tool_of, schemas_of)[:: -1 if number % 2 else 1]:
            found[build].append(seconds(build, kind))
    ours, theirs = found.values()
    ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
    middle, low = (statistics.median(each) * 1000 for each in (ours, theirs))
    return (
        f"## Building tools\n\n{COUNT} generated recursive dataclasses: {middle:.1f} ms a tool at "
        f"the median, both schemas, what checks arguments and what writes results; pydantic takes "
        f"{low:.1f} ms for the two schemas alone. Ratio, class by class: {ratio:.2f} at the "
        "median.\n"
    )

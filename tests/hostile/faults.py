"""Tools that misbehave, open to every caller. The texts of their exceptions must not be sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from django.db import DatabaseError, connection

from mcp_bridge import mcp_tool

MARKER = "SECRET-MARKER password=hunter2"


class _Unserialisable:
    def __repr__(self) -> str:
        return f"<Unserialisable {MARKER}>"


class _Unspeakable(Exception):
    """An exception whose text raises another one."""

    def __str__(self) -> str:
        raise ValueError(MARKER)

    __repr__ = __str__


# Exceptions by the name that a client gives.
Kind = Literal[
    "arguments", "assertion", "cancelled", "database", "exit", "generator exit", "group", "io",
    "keyboard", "memory", "stop", "stop async", "surrogate", "unspeakable", "broken pipe",
]  # fmt: skip
RAISED: dict[str, Callable[[], BaseException]] = {
    "arguments": lambda: TypeError(f"raises() got an unexpected keyword argument {MARKER!r}"),
    "assertion": lambda: AssertionError(MARKER),
    "broken pipe": lambda: BrokenPipeError(MARKER),
    "cancelled": lambda: asyncio.CancelledError(MARKER),
    "database": lambda: DatabaseError(MARKER),
    "exit": lambda: SystemExit(MARKER),
    "generator exit": lambda: GeneratorExit(MARKER),
    "group": lambda: ExceptionGroup(MARKER, [ValueError(MARKER)]),
    "io": lambda: FileNotFoundError(2, MARKER, f"/etc/{MARKER}"),
    "keyboard": lambda: KeyboardInterrupt(MARKER),
    "memory": lambda: MemoryError(MARKER),
    "stop": lambda: StopIteration(MARKER),
    "stop async": lambda: StopAsyncIteration(MARKER),
    "surrogate": lambda: RuntimeError(f"\ud800{MARKER}"),
    "unspeakable": _Unspeakable,
}


@mcp_tool(public=True)
def raises(kind: Kind) -> str:
    """Raise an exception."""
    raise RAISED[kind]()


@mcp_tool(public=True)
async def araises(kind: Kind) -> str:
    """Raise an exception on the event loop."""
    raise RAISED[kind]()


@mcp_tool(public=True)
def boom() -> str:
    """Raise an exception whose text is secret."""
    raise RuntimeError(MARKER)


@mcp_tool(public=True)
def typeerr() -> int:
    """Take the length of a number."""
    return len(3)  # type: ignore[arg-type]


@mcp_tool(public=True)
def nan() -> dict[str, float]:
    """Return NaN."""
    return {"value": float("nan")}


@mcp_tool(public=True)
def inf() -> list[float]:
    """Return numbers without end."""
    return [float("inf"), float("-inf")]


@mcp_tool(public=True)
def unser() -> Any:
    """Return an object that JSON cannot hold."""
    return {"value": _Unserialisable()}


@mcp_tool(public=True, name="bytes")
def raw() -> Any:
    """Return bytes that are not text, inside of an object."""
    return {"value": b"\xff\xfe\x00"}


@mcp_tool(public=True)
def surrogate() -> str:
    """Return half a character."""
    return "a\ud800b"


@mcp_tool(public=True)
def hugeint() -> int:
    """Return a number of 5,001 digits."""
    return 10**5000


@mcp_tool(public=True)
def deep(n: int) -> Any:
    """Return nested lists."""
    value: Any = 1
    for _ in range(n):
        value = [value]
    return value


@mcp_tool(public=True)
def circle() -> Any:
    """Return a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


@mcp_tool(public=True)
def recur() -> int:
    """Call itself for ever."""
    return recur() + 1


@mcp_tool(public=True, name="exit")
def leave() -> str:
    """End the process."""
    raise SystemExit(3)


@mcp_tool(public=True)
def none() -> None:
    """Return nothing."""


@mcp_tool(public=True)
def wrong() -> dict[str, int]:
    """Return another type than its hint says."""
    return ["not", MARKER]  # type: ignore[return-value]


@mcp_tool(public=True)
def big(n: int) -> str:
    """Return a long text."""
    return "x" * n


@mcp_tool(public=True)
def broken() -> str:
    """Leave its transaction broken."""
    with connection.cursor() as cursor:
        with suppress(DatabaseError):
            cursor.execute("SELECT * FROM there_is_no_such_table")
        cursor.execute("INSERT INTO auth_group (name) VALUES (NULL)")
    return "done"


@mcp_tool(public=True, read_only=True)
def sleep(s: float) -> str:
    """Rest."""
    time.sleep(min(s, 10))
    return "rested"


@mcp_tool(public=True, read_only=True)
async def asleep(s: float) -> str:
    """Sleep on the event loop."""
    await asyncio.sleep(min(s, 10))
    return "rested"

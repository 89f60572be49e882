"""
Drive a Python client against the newsroom: ``python -m tests.clients.drivers CLIENT``.

The plan on standard input names the address, the token, the calls, of which the last waits for
approval, and the command that approves it. The answer on standard output holds the tools listed,
and what the client shows of each call: its text, the kinds of its content, and whether it counts as
an error.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

from tests.clients.drivers import python

PLAN = json.load(sys.stdin)


async def main(connect: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    asked: list[str] = []
    async with connect(PLAN["url"], PLAN["token"], asked) as client:
        answer["listed"] = sorted(await client.list())
        for step, call in PLAN["steps"].items():
            answer[step] = await seen(client.call(*call))
        if await approved():
            answer["repeated"] = await seen(client.call(*PLAN["steps"]["wait"]))
    answer["asked"] = asked
    answer["bad"] = await seen(refused(connect))
    return answer


async def approved() -> bool:
    """Approve the call that waits; return whether there was one."""
    command = PLAN["approval"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    return done.returncode == 0


async def refused(connect: Any) -> python.Shown:
    async with connect(PLAN["url"], PLAN["bad"], []) as client:
        return python.Shown(f"{len(await client.list())} tools were listed")


async def seen(call: Any) -> dict[str, Any]:
    """Return the content shown for a call, or the exception it ends with."""
    try:
        async with asyncio.timeout(60):
            shown = await call
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return {"error": True, "raised": type(error).__name__, "text": words(error)}
    return {"error": shown.error, "kinds": shown.kinds, "text": shown.text}


def words(error: BaseException) -> str:
    """Return the text of an exception; of a group, the texts of its members."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(words(each) for each in error.exceptions))
    return str(error) or type(error).__name__


answer = asyncio.run(main(getattr(python, sys.argv[1])))
sys.stdout.write("\n" + json.dumps(answer))

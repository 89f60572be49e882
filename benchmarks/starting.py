"""How long a server takes from its start to its first answer, and how much memory it then holds."""

from __future__ import annotations

import time
from typing import Any, Final

from benchmarks import tools
from benchmarks.contestants import BRIDGE, EAGER, FLOOR_B, MCPZ, THREADS, Contestant
from benchmarks.databases import Databases
from benchmarks.rounds import say
from benchmarks.scenarios import Scenario, call_request, exchanges, result_of, verify_call
from benchmarks.servers import Cores, Server
from benchmarks.wire import Connection, load

WORD: Final = "start"
ROUNDS: Final = 5
COUNTS: Final = (10, 1000)
CONTESTANTS: Final = (FLOOR_B, MCPZ, BRIDGE, EAGER)
# What is called before the memory is read, so that what is built at a first use is in it.
CALLS_SECONDS: Final = 0.2


def measure(
    contestants: list[Contestant], databases: Databases, cores: Cores, rounds: int
) -> list[dict[str, Any]]:
    """Start each server anew in each round, in turns."""
    rows = []
    for count in COUNTS:
        prepared = [
            (each, *databases.environment(each, "anonymous", count)) for each in contestants
        ]
        found: dict[str, list[tuple[float, float | None]]] = {each.name: [] for each in contestants}
        for turn in range(rounds):
            say(f"start, {count} tools, round {turn + 1} of {rounds}")
            for each, variables, token in prepared if turn % 2 == 0 else reversed(prepared):
                found[each.name].append(start(each, variables, token, cores, count))
        for each in contestants:
            seconds, megabytes = zip(*found[each.name], strict=True)
            rows.append(
                {
                    "tools": count,
                    "contestant": each.name,
                    "title": each.title,
                    "seconds": list(seconds),
                    "megabytes": list(megabytes),
                }
            )
    say("")
    return rows


def start(
    contestant: Contestant, variables: dict[str, str], token: str, cores: Cores, count: int
) -> tuple[float, float | None]:
    """The seconds to the first answer, and the megabytes after further calls and a listing."""
    begun = time.perf_counter()
    with Server(contestant, variables, token, cores.servers, THREADS) as server:
        connection = Connection(server.port)
        answer = connection.ask(call_request("add", tools.ARGUMENTS["add"], token=""))
        seconds = time.perf_counter() - begun
        connection.close()
        verify_call(result_of(answer), tools.RESULTS["add"])
        for operation in ("add", "list"):
            scenario = Scenario(WORD, "anonymous", operation, count)
            wanted = exchanges(scenario, server, contestant)
            load(server.port, wanted, CALLS_SECONDS, THREADS)
        return seconds, server.megabytes()

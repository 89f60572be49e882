"""Rounds A B C, C B A, …: a machine's drift meets all contestants of a round alike."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from benchmarks.contestants import Contestant, Group
from benchmarks.databases import Databases
from benchmarks.scenarios import Scenario, exchanges
from benchmarks.servers import Cores, Server
from benchmarks.wire import Exchange, latency, load

WARM_UP: Final = 0.3
# What a server still does after it has answered is waited for: the records of tools that only read
# are written every 250 ms.
SETTLING: Final = 0.28
READING: Final = ("add", "echo", "count_users")
# One client alone is measured in every so many rounds.
ALONE: Final = 3


@dataclass(frozen=True, slots=True)
class Window:
    """What one window showed, for an operation as a whole: of a listing, all of its pages."""

    per_second: float
    median_us: float | None
    cpu_us: float | None
    client: float


@dataclass(slots=True)
class Series:
    """All windows of one contestant in one scenario, a window a round."""

    contestant: Contestant
    exchanges: list[Exchange]
    windows: list[Window] = field(default_factory=list)

    @property
    def client(self) -> float:
        """How busy the client was, at most."""
        return max(window.client for window in self.windows)


Results = dict[Scenario, list[Series]]


def run(
    groups: Sequence[tuple[Group, list[Scenario]]],
    databases: Databases,
    cores: Cores,
    rounds: int,
    seconds: float,
) -> Results:
    """Measure the scenarios of all groups; raises where a contestant gives a wrong answer."""
    # Nothing here makes cycles, and a collection would fall into somebody's window.
    gc.disable()
    results: Results = {}
    for group, wanted in groups:
        with ExitStack() as stack:
            servers = []
            for each in group.contestants:
                say(f"{group.name} {group.mode}, {each.title} starts")
                variables, token = databases.environment(each, group.mode, group.tools)
                server = Server(each, variables, token, cores.servers, group.width)
                servers.append(stack.enter_context(server))
            results |= measure_group(group, wanted, servers, rounds, seconds)
    return results


def measure_group(
    group: Group, wanted: list[Scenario], servers: list[Server], rounds: int, seconds: float
) -> Results:
    """Measure scenarios that the same servers can answer, all of the servers being up at once."""
    results: Results = {}
    for scenario in wanted:
        results[scenario] = [start_series(scenario, server, group.width) for server in servers]
    for turn in range(rounds):
        for scenario in wanted:
            say(f"{scenario}, round {turn + 1} of {rounds}")
            pairs = list(zip(servers, results[scenario], strict=True))
            for server, series in pairs if turn % 2 == 0 else reversed(pairs):
                settling = scenario.operation in READING and server.contestant.records
                window = Windows(seconds, group.width, SETTLING if settling else 0)
                series.windows.append(window.measure(server, series.exchanges, turn % ALONE == 0))
    say("")
    return results


def start_series(scenario: Scenario, server: Server, width: int) -> Series:
    """Verify the answers, then warm the server up."""
    try:
        verified = exchanges(scenario, server, server.contestant)
    except Exception as error:
        error.add_note(f"This was {server.contestant.title} in the scenario {scenario}.")
        raise
    load(server.port, verified, WARM_UP, width)
    return Series(server.contestant, verified)


@dataclass(frozen=True, slots=True)
class Windows:
    """How a window is measured: how long, with how many connections, and what is waited for."""

    seconds: float
    width: int
    settling: float

    def measure(self, server: Server, wanted: list[Exchange], alone: bool) -> Window:
        """
        Measure one. What the server does after its last answer counts as time of the window.

        It would otherwise fall into the window of whoever comes next.
        """
        median = None
        if alone:
            median = latency(server.port, wanted, self.seconds / 2)
            time.sleep(self.settling)
        before = server.cpu_seconds()
        loaded = load(server.port, wanted, self.seconds, self.width)
        answered = server.cpu_seconds()
        time.sleep(self.settling)
        after = server.cpu_seconds()
        operations = loaded.requests / len(wanted)
        if before is None or answered is None or after is None:
            return Window(operations / loaded.seconds, median, None, loaded.client)
        return Window(
            per_second=operations / (loaded.seconds + after - answered),
            median_us=median,
            cpu_us=(after - before) * 1e6 / operations,
            client=loaded.client,
        )


def say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<70}", end="" if text else "\r", file=sys.stderr, flush=True)

"""Rounds A B C, C B A, …: a machine's drift meets all contestants of a round alike."""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from benchmarks.scenarios import Scenario, exchanges
from benchmarks.servers import THREADS, Contestant, Cores, Server, environment, pin, prepare
from benchmarks.wire import Exchange, latency, load

# Of each window, the part under full load; the rest is for one client alone.
LOADED: Final = 2 / 3
WARM_UP: Final = 0.3


@dataclass(frozen=True, slots=True)
class Window:
    """What one window showed, for an operation as a whole: of a listing, all of its pages."""

    per_second: float
    median_us: float
    cpu_us: float | None
    client: float

    @property
    def cost(self) -> float:
        """
        What one operation costs the server.

        Processor time, which other work on the machine disturbs least; elapsed time where it
        cannot be read. A server that has a core of its own and is kept busy shows the same in both.
        """
        return 1e6 / self.per_second if self.cpu_us is None else self.cpu_us


@dataclass(slots=True)
class Series:
    """All windows of one contestant in one scenario, a window a round."""

    contestant: Contestant
    exchanges: list[Exchange]
    windows: list[Window] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return statistics.median(window.per_second for window in self.windows)

    @property
    def median_us(self) -> float:
        return statistics.median(window.median_us for window in self.windows)

    @property
    def cpu_us(self) -> float | None:
        times = [window.cpu_us for window in self.windows if window.cpu_us is not None]
        return statistics.median(times) if times else None

    @property
    def client(self) -> float:
        """How busy the client was, at most."""
        return max(window.client for window in self.windows)

    def costs(self, base: Series) -> list[float]:
        """Round by round, the cost of one operation, in times of ``base``."""
        pairs = zip(self.windows, base.windows, strict=True)
        return [own.cost / other.cost for own, other in pairs]


Results = dict[Scenario, list[Series]]


def run(
    scenarios: Sequence[Scenario],
    contestants: Sequence[Contestant],
    cores: Cores,
    rounds: int,
    seconds: float,
) -> Results:
    """Measure all contestants in all scenarios; raises where one gives a wrong answer."""
    pin(0, cores.client)
    # Nothing here makes cycles, and a collection would fall into somebody's window.
    gc.disable()
    results: Results = {}
    with tempfile.TemporaryDirectory() as directory:
        databases = {each.name: Path(directory, f"{each.name}.sqlite3") for each in contestants}
        tokens = {each.name: prepare(each, databases[each.name]) for each in contestants}
        for (mode, tools), group in groupby(scenarios, lambda each: (each.mode, each.tools)):
            with ExitStack() as stack:
                servers = []
                for each in contestants:
                    variables = environment(each, databases[each.name], mode, tools)
                    server = Server(each, variables, tokens[each.name], cores.servers)
                    servers.append(stack.enter_context(server))
                results |= measure_group(list(group), servers, rounds, seconds)
    return results


def measure_group(
    scenarios: list[Scenario], servers: list[Server], rounds: int, seconds: float
) -> Results:
    """Measure scenarios that the same servers can answer, all of the servers being up at once."""
    results: Results = {}
    for scenario in scenarios:
        results[scenario] = [start_series(scenario, server) for server in servers]
    for turn in range(rounds):
        for scenario in scenarios:
            say(f"{scenario}, round {turn + 1} of {rounds}")
            pairs = list(zip(servers, results[scenario], strict=True))
            for server, series in pairs if turn % 2 == 0 else reversed(pairs):
                series.windows.append(measure(server, series.exchanges, seconds))
    say("")
    return results


def start_series(scenario: Scenario, server: Server) -> Series:
    """Verify the answers, then warm the server up."""
    try:
        verified = exchanges(scenario, server, server.contestant)
    except Exception as error:
        error.add_note(f"This was {server.contestant.title} in the scenario {scenario}.")
        raise
    load(server.port, verified, WARM_UP, THREADS)
    return Series(server.contestant, verified)


def measure(server: Server, wanted: list[Exchange], seconds: float) -> Window:
    before = server.cpu_seconds()
    loaded = load(server.port, wanted, seconds * LOADED, THREADS)
    after = server.cpu_seconds()
    operations = loaded.requests / len(wanted)
    used = None if before is None or after is None else (after - before) * 1e6 / operations
    return Window(
        per_second=operations / loaded.seconds,
        median_us=latency(server.port, wanted, seconds * (1 - LOADED)),
        cpu_us=used,
        client=loaded.client,
    )


def say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<70}", end="" if text else "\r", file=sys.stderr, flush=True)

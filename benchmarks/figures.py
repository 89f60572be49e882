"""A run's figures, as they are kept in results.json, and the ratios that are made of them."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.rounds import Results
from benchmarks.servers import Cores
from benchmarks.wire import REVISION

PACKAGES = (
    *("Django", "gunicorn", "granian", "uvicorn", "django-mcpz", "bolt-mcp", "django-bolt"),
    *("django-modern-rpc", "pydantic", "msgspec", "psycopg", "orjson"),
)


def head(cores: Cores, rounds: int, seconds: float, database: str) -> dict[str, Any]:
    """Where and how the figures were made."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} ({platform.machine()})",
        "cores": os.cpu_count(),
        "pinned": cores.client is not None,
        "load": round(os.getloadavg()[0], 1),
        "packages": dict(versions(PACKAGES)),
        "database": database,
        "revision": REVISION,
        "rounds": rounds,
        "seconds": seconds,
    }


def versions(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def rows(results: Results) -> list[dict[str, Any]]:
    """A row a contestant in a scenario, with a figure a round."""
    return [
        {
            "group": scenario.group,
            "mode": scenario.mode,
            "operation": scenario.operation,
            "tools": scenario.tools,
            "contestant": series.contestant.name,
            "title": series.contestant.title,
            "pages": len(series.exchanges),
            "bytes": sum(each.size for each in series.exchanges),
            "client": round(series.client, 3),
            "per_second": [round(each.per_second, 2) for each in series.windows],
            "cpu_us": [each.cpu_us and round(each.cpu_us, 1) for each in series.windows],
            "median_us": [each.median_us and round(each.median_us, 1) for each in series.windows],
        }
        for scenario, contestants in results.items()
        for series in contestants
    ]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio by its median over the rounds, and the middle half of the rounds."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Ratio:
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high)

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f}–{self.high:.2f})"


def costs(row: dict[str, Any]) -> list[float]:
    """
    What one operation costs the server, in µs.

    Processor time, which other work on the machine disturbs least; elapsed time where it cannot be
    read. A server that has a core of its own and is kept busy shows the same in both.
    """
    if None in row["cpu_us"]:
        return [1e6 / each for each in row["per_second"]]
    return list(row["cpu_us"])


def cost(row: dict[str, Any], base: dict[str, Any]) -> Ratio:
    """The cost of one operation in times of ``base``: less is better."""
    return _ratio(costs(row), costs(base))


def speed(row: dict[str, Any], base: dict[str, Any]) -> Ratio:
    """The operations a second in times of ``base``: more is better."""
    return _ratio(row["per_second"], base["per_second"])


def above(values: list[float | None], base: list[float | None]) -> Ratio | None:
    """By how much values are above those of ``base``, round by round; None where one is unknown."""
    pairs = [(one, other) for one, other in zip(values, base, strict=True)]
    known = [one - other for one, other in pairs if one is not None and other is not None]
    return Ratio.of(known) if len(known) == len(pairs) else None


def _ratio(values: list[float], base: list[float]) -> Ratio:
    return Ratio.of([one / other for one, other in zip(values, base, strict=True)])

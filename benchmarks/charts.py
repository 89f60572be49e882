"""A run's charts for docs/project/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import cost, speed
from benchmarks.starting import COUNTS
from benchmarks.targets import Run, row_of

COLORS: Final = {
    "mcpz": "#b7b7b7",
    "floor-orjson": "#6c757d",
    "bare": "#6c757d",
    "bolt": "#c98b2b",
    "bridge": "#205067",
    "bridge-unrecorded": "#79aec8",
}
OTHERS: Final = ("#205067", "#79aec8", "#417690")
Bars = dict[str, list[float]]


def draw(run: Run, folder: Path) -> list[Path]:
    """Write the charts whose figures the run has; returns their paths."""
    made = [
        chart(run, folder / "performance-calls.png", *_calls(run)),
        chart(run, folder / "performance-tokens.png", *_tokens(run)),
        chart(run, folder / "performance-start.png", *_start(run)),
        chart(run, folder / "performance-servers.png", *_servers(run)),
    ]
    return [path for path in made if path is not None]


def chart(
    run: Run,
    path: Path,
    title: str,
    unit: str,
    groups: Sequence[str],
    bars: Bars,
    line: float | None,
) -> Path | None:
    """Groups of bars, one color a contestant, with their figures above them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if not bars:
        return None
    titles = {row["contestant"]: row["title"] for row in [*run["series"], *run["start"]]}
    figure, axes = pyplot.subplots(figsize=(8.5, 4), dpi=120, facecolor="white")
    width = 0.8 / len(bars)
    for number, (name, values) in enumerate(bars.items()):
        places = [each + (number - (len(bars) - 1) / 2) * width for each in range(len(groups))]
        label = titles.get(name, name).replace("`", "")
        drawn = axes.bar(
            places,
            values,
            width * 0.92,
            label=label,
            color=COLORS.get(name, OTHERS[number % len(OTHERS)]),
        )
        axes.bar_label(drawn, fmt="{:,.2f}", fontsize=8, padding=2)
    if line is not None:
        axes.axhline(line, color="#444444", linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel(unit)
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.14)
    if len(bars) > 1:
        axes.legend(
            frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16)
        )
    figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
    pyplot.close(figure)
    return path


def _ratios(
    run: Run,
    places: Sequence[tuple[Any, ...]],
    names: Sequence[str],
    base: str,
    *,
    by_processor: bool = False,
) -> Bars:
    """How fast operations are, in times of the base's; without those that one place lacks."""
    bars: Bars = {}
    for name in names:
        pairs = [(row_of(run, *place, name), row_of(run, *place, base)) for place in places]
        known = [(row, other) for row, other in pairs if row and other]
        if len(known) == len(places):
            bars[name] = [
                cost(other, row).middle if by_processor else speed(row, other).middle
                for row, other in known
            ]
    return bars


def _calls(run: Run) -> tuple[str, str, list[str], Bars, float | None]:
    places = [("calls", "anonymous", each, 100) for each in ("add", "echo", "count_users")]
    bars = _ratios(run, places, ("mcpz", "bridge", "bridge-unrecorded"), "floor-orjson")
    return (
        "Calls without a token, in times of an empty Django view (more is better)",
        "× empty view",
        ["add", "echo, 1 KB", "an ORM query"],
        bars,
        1,
    )


def _tokens(run: Run) -> tuple[str, str, list[str], Bars, float | None]:
    places = [("calls", "token", "add", 100), ("listing", "permissions", "list", 1000)]
    bars = _ratios(run, places, ("mcpz", "bridge"), "mcpz")
    return (
        "With a bearer token, in times of django-mcpz (more is better)",
        "× django-mcpz",
        ["add", "list of 1,000 by permission"],
        bars,
        1,
    )


def _start(run: Run) -> tuple[str, str, list[str], Bars, float | None]:
    bars: Bars = {}
    for row in run["start"]:
        bars.setdefault(row["contestant"], []).append(statistics.median(row["seconds"]))
    return (
        "From the start of a worker to its first answer (less is better)",
        "seconds",
        [f"{each:,} tools" for each in COUNTS],
        bars,
        None,
    )


def _servers(run: Run) -> tuple[str, str, list[str], Bars, float | None]:
    names = ("add", "list of 100")
    found: dict[str, list[float]] = {}
    for group, wanted in (
        ("servers", ("mcpz", "bridge", "mcpz-granian", "bridge-granian")),
        ("direct", ("lane-sync", "lane", "lane-granian-asgi", "bare", "bolt")),
    ):
        places = [(group, "anonymous", each, 100) for each in ("add", "list")]
        found |= _ratios(run, places, wanted, "floor-orjson", by_processor=True)
    bars = {name: [found[each][number] for each in found] for number, name in enumerate(names)}
    titles = {row["contestant"]: row["title"] for row in run["series"]}
    labels = [titles[each].replace("`", "").replace(", ", "\n") for each in found]
    return (
        "Operations by processor time, in times of an empty view on gunicorn (more is better)",
        "× empty view",
        labels,
        bars if found else {},
        1,
    )

"""Who serves the tools, with which server and settings, and who is measured beside whom."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Final

from mcp_bridge.conf import Audit, Conf

THREADS: Final = 4
RECORDS_OFF: Final = {"AUDIT": None}


@dataclass(frozen=True, slots=True)
class Contestant:
    """
    A way to serve the tools: the site ``benchmarks.site.<site>``, on a server.

    ``bridge`` are its settings of MCP_BRIDGE, where it is one; ``options`` are further variables of
    ``benchmarks.site.settings``; ``tools`` are as many as it serves, where the group does not say.
    """

    name: str
    title: str
    site: str
    server: str = "gunicorn"
    bridge: Mapping[str, Any] = field(default_factory=dict, hash=False)
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    database: str = "sqlite"
    tools: int | None = None

    @property
    def is_bridge(self) -> bool:
        return self.site in ("bridge", "lane")

    @property
    def checks_arguments(self) -> bool:
        return self.site not in ("floor", "bare")

    @property
    def records(self) -> bool:
        """Whether it may go on working after it has answered."""
        return self.is_bridge and self.bridge.get("AUDIT", {}) is not None

    def variables(self) -> dict[str, str]:
        named = {f"BENCHMARK_{name}": value for name, value in self.options.items()}
        return {
            "DJANGO_SETTINGS_MODULE": "benchmarks.site.settings",
            "BENCHMARK_SITE": self.site,
            "BENCHMARK_BRIDGE": json.dumps(dict(self.bridge)),
            **named,
        }

    def lacking(self) -> str:
        """Why it cannot be measured here, as a sentence; empty where it can."""
        wanted = {"gunicorn": "gunicorn", "bolt": "bolt_mcp", "uvicorn": "uvicorn"}
        module = wanted.get(self.server, "granian")
        if find_spec(module) is None:
            return f"{module} is not installed."
        if self.site == "lane" and find_spec("mcp_bridge.ext.lane") is None:
            return "The package has no mcp_bridge.ext.lane."
        audit = self.bridge.get("AUDIT") or {}
        unknown = self.bridge.keys() - Conf.__annotations__.keys()
        unknown |= {f"AUDIT {key}" for key in audit.keys() - Audit.__annotations__.keys()}
        if unknown:
            return f"The package has no setting {', '.join(sorted(unknown))}."
        return ""


@dataclass(frozen=True, slots=True)
class Group:
    """Contestants that are measured side by side, all of their servers being up at once."""

    name: str
    mode: str
    operations: tuple[str, ...]
    contestants: tuple[Contestant, ...]
    tools: int = 100
    # The connections of the closed loop, and the threads of a gunicorn.
    width: int = THREADS


def on(server: str, contestant: Contestant) -> Contestant:
    """The same contestant on another server."""
    title = f"{contestant.title}, {server.partition('-')[0]}"
    return replace(contestant, name=f"{contestant.name}-{server}", title=title, server=server)


def with_settings(name: str, title: str, **bridge: Any) -> Contestant:
    """The bridge with other settings than those it is shipped with."""
    return replace(BRIDGE, name=name, title=f"mcp_bridge, {title}", bridge=bridge)


def on_postgresql(contestant: Contestant) -> Contestant:
    title = f"{contestant.title}, PostgreSQL"
    return replace(
        contestant, name=f"{contestant.name}-postgresql", title=title, database="postgresql"
    )


def on_default_sqlite(contestant: Contestant) -> Contestant:
    options = {**contestant.options, "SQLITE": "default"}
    title = f"{contestant.title}, SQLite's defaults"
    return replace(contestant, name=f"{contestant.name}-default", title=title, options=options)


def with_tools(count: int) -> Contestant:
    return replace(BRIDGE, name=f"bridge-{count}", title=f"{count:,} tools", tools=count)


FLOOR: Final = Contestant("floor", "empty view, json", "floor", options={"JSON": "json"})
FLOOR_B: Final = Contestant("floor-orjson", "empty view", "floor")
MCPZ: Final = Contestant("mcpz", "django-mcpz", "mcpz")
BRIDGE: Final = Contestant("bridge", "mcp_bridge", "bridge")
UNRECORDED: Final = with_settings("bridge-unrecorded", "`AUDIT = None`", **RECORDS_OFF)
NOW: Final = with_settings("bridge-now", '`"WRITE": "now"`', AUDIT={"WRITE": "now"})
EAGER: Final = with_settings("bridge-eager", '`BUILD = "eager"`', BUILD="eager")
BARE: Final = Contestant("bare", "bare ASGI", "bare", "uvicorn")
LANE: Final = Contestant(
    "lane", "direct lane, `async def`", "lane", "uvicorn", options={"ASYNC": "1"}
)
LANE_SYNC: Final = Contestant("lane-sync", "direct lane, `def`", "lane", "uvicorn")
LANE_UNRECORDED: Final = replace(
    LANE,
    name="lane-unrecorded",
    title="direct lane, `async def`, `AUDIT = None`",
    bridge=RECORDS_OFF,
)
BOLT: Final = Contestant("bolt", "bolt-mcp", "bolt", "bolt")

BY_SERVER: Final = (FLOOR_B, MCPZ, BRIDGE, UNRECORDED)
ACTING: Final = (
    *(FLOOR_B, BRIDGE, UNRECORDED, on_default_sqlite(FLOOR_B), on_default_sqlite(BRIDGE)),
    *(on_postgresql(FLOOR_B), on_postgresql(BRIDGE)),
)
GROUPS: Final = (
    Group(
        *("calls", "anonymous", ("add", "echo", "count_users")),
        (FLOOR, FLOOR_B, MCPZ, BRIDGE, UNRECORDED, on_default_sqlite(BRIDGE)),
    ),
    Group("calls", "token", ("add", "echo"), (FLOOR, MCPZ, BRIDGE, UNRECORDED)),
    Group("settings", "anonymous", ("add", "echo"), (BRIDGE, NOW)),
    Group("acting", "token", ("note",), ACTING, tools=10),
    Group("writers", "token", ("note",), ACTING, tools=10, width=8),
    Group("listing", "anonymous", ("list",), (FLOOR, FLOOR_B, MCPZ, BRIDGE)),
    Group("listing", "anonymous", ("list",), (FLOOR, FLOOR_B, MCPZ, BRIDGE), tools=1000),
    Group("listing", "token", ("list",), (FLOOR, MCPZ, BRIDGE)),
    Group("listing", "token", ("list",), (FLOOR, MCPZ, BRIDGE), tools=1000),
    Group("listing", "permissions", ("list",), (MCPZ, BRIDGE), tools=1000),
    Group("growth", "anonymous", ("add",), (with_tools(10), with_tools(1000))),
    Group("growth", "anonymous", ("page",), (with_tools(1000), with_tools(10000))),
    Group(
        *("servers", "anonymous", ("add", "list")),
        (*BY_SERVER, *(on("granian", each) for each in BY_SERVER), on("granian-asgi", LANE)),
    ),
    Group(
        *("direct", "anonymous", ("add", "list")),
        (
            *(FLOOR_B, BARE, LANE, LANE_UNRECORDED, LANE_SYNC, BOLT),
            *(on("granian-asgi", each) for each in (BARE, LANE, LANE_SYNC)),
        ),
    ),
)

"""The contestants, and the gunicorn that serves each of them in the same way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way to serve the tools: the URLconf ``benchmarks.site.<name>``."""

    name: str
    title: str
    checks_arguments: bool = True


CONTESTANTS: Final = (
    Contestant("floor", "empty view", checks_arguments=False),
    Contestant("mcpz", "django-mcpz"),
    Contestant("bridge", "mcp_bridge"),
)


class ServerFailedError(Exception):
    """A server did not start, with the end of what it said."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Which core the servers run on and which the client; None where they cannot be chosen."""

    servers: int | None = None
    client: int | None = None

    @classmethod
    def choose(cls) -> Cores:
        """Take the first and the last of the cores that this process may use."""
        if not hasattr(os, "sched_getaffinity"):
            return cls()
        available = sorted(os.sched_getaffinity(0))
        return cls(available[0], available[-1]) if len(available) > 1 else cls()


def pin(process: int, core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(process, {core})


def environment(contestant: Contestant, database: Path, mode: str, tools: int) -> dict[str, str]:
    # Options of somebody's own would make one gunicorn differ from another.
    inherited = {name: os.environ[name] for name in os.environ if name != "GUNICORN_CMD_ARGS"}
    return inherited | {
        "DJANGO_SETTINGS_MODULE": "benchmarks.site.settings",
        "BENCHMARK_CONTESTANT": contestant.name,
        "BENCHMARK_DATABASE": str(database),
        "BENCHMARK_MODE": mode,
        "BENCHMARK_TOOLS": str(tools),
    }


def prepare(contestant: Contestant, database: Path) -> str:
    """Make the contestant's database; returns a token that is valid in it."""
    made = subprocess.run(
        [sys.executable, "-m", "benchmarks.site.prepare"],
        env=environment(contestant, database, mode="token", tools=2),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        raise ServerFailedError(f"{contestant.title}: no database.\n{made.stderr[-3000:]}")
    return made.stdout.split()[-1]


class Server:
    """One gunicorn worker that serves a contestant, as long as the context lasts."""

    def __init__(
        self, contestant: Contestant, variables: dict[str, str], token: str, core: int | None
    ) -> None:
        self.contestant = contestant
        self.token = token
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        # The socket exists before the server does: no port is guessed, and nobody polls until the
        # server listens, since the first request waits for it.
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            self.port: int = listener.getsockname()[1]
            descriptor = listener.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", *options(descriptor)],
                env=variables,
                cwd=ROOT,
                pass_fds=[descriptor],
                stdout=self.output,
                stderr=subprocess.STDOUT,
            )
        # The worker is forked later and inherits this.
        pin(self.process.pid, core)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if exception is not None:
            self.output.seek(0)
            said = self.output.read()[-3000:]
            exception.add_note(f"{self.contestant.title} said:\n{said or '(nothing)'}")
        self.output.close()

    def cpu_seconds(self) -> float | None:
        """The processor time that the server has used so far; None where it cannot be read."""
        try:
            return sum(map(_cpu_seconds, _family(self.process.pid)))
        except (OSError, ValueError):
            return None


def options(descriptor: int) -> list[str]:
    return [
        *("--worker-class", "gthread"),
        *("--workers", "1"),
        *("--threads", str(THREADS)),
        *("--keep-alive", "75"),
        *("--graceful-timeout", "2"),
        *("--bind", f"fd://{descriptor}"),
        "--no-control-socket",
        "django.core.wsgi:get_wsgi_application()",
    ]


def _family(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *map(int, children)]


def _cpu_seconds(process: int) -> float:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

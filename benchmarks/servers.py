"""The servers, each started in the same way for every contestant that it serves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from benchmarks.contestants import Contestant

ROOT: Final = Path(__file__).resolve().parent.parent
# A server with ten thousand tools may build them first.
STARTING: Final = 120


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


class Server:
    """One worker that serves a contestant, as long as the context lasts."""

    def __init__(
        self,
        contestant: Contestant,
        variables: dict[str, str],
        token: str,
        core: int | None,
        threads: int,
    ) -> None:
        self.contestant = contestant
        self.token = token
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        # Where a server takes it, the socket exists before the server does: no port is guessed, and
        # nobody polls until the server listens, since the first request waits for it.
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            self.port: int = listener.getsockname()[1]
            inherits = contestant.server == "gunicorn"
            descriptors = [listener.fileno()] if inherits else []
            if not inherits:
                listener.close()
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command(contestant, self.port, descriptors, threads)],
                env=variables,
                cwd=ROOT,
                pass_fds=descriptors,
                stdout=self.output,
                stderr=subprocess.STDOUT,
            )
        # The worker is forked later and inherits this.
        pin(self.process.pid, core)
        if not inherits:
            self.wait()

    def wait(self) -> None:
        """Wait until the server listens. Raises ServerFailedError."""
        end = time.monotonic() + STARTING
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                time.sleep(0.005)
            else:
                return
        self.end()
        raise ServerFailedError(f"{self.contestant.title} does not listen.\n{self.said()}")

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        if exception is not None:
            exception.add_note(f"{self.contestant.title} said:\n{self.said()}")
        self.output.close()

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def said(self) -> str:
        self.output.seek(0)
        return self.output.read()[-3000:] or "(nothing)"

    def cpu_seconds(self) -> float | None:
        """The processor time that the server has used so far; None where it cannot be read."""
        try:
            return sum(map(_cpu_seconds, _family(self.process.pid)))
        except (OSError, ValueError):
            return None

    def megabytes(self) -> float | None:
        """The resident memory of the largest of its processes; None where it cannot be read."""
        try:
            return max(map(_megabytes, _family(self.process.pid)))
        except (OSError, ValueError):
            return None


def command(contestant: Contestant, port: int, descriptors: list[int], threads: int) -> list[str]:
    site = "benchmarks.site." + {"floor": "wsgi", "mcpz": "wsgi", "bridge": "wsgi"}.get(
        contestant.site, contestant.site
    )
    address = ["--host", "127.0.0.1", "--port", str(port)]
    if contestant.server == "bolt":
        return ["django", "runbolt", *address, "--processes", "1", "--workers", "1", "--no-admin"]
    if contestant.server == "uvicorn":
        quiet = ["--log-level", "error", "--no-access-log", "--lifespan", "off"]
        return ["uvicorn", *address, "--workers", "1", *quiet, f"{site}:application"]
    if contestant.server.startswith("granian"):
        interface = "asginl" if contestant.server == "granian-asgi" else "wsgi"
        blocking = ["--blocking-threads", "1"]
        quiet = ["--log-level", "error", "--no-access-log"]
        options = ["--interface", interface, *address, "--workers", "1", *blocking, *quiet]
        return ["granian", *options, f"{site}:application"]
    return [
        *("gunicorn", "--worker-class", "gthread"),
        *("--workers", "1"),
        *("--threads", str(threads)),
        *("--keep-alive", "75"),
        *("--timeout", str(STARTING)),
        *("--graceful-timeout", "2"),
        *("--bind", f"fd://{descriptors[0]}"),
        "--no-control-socket",
        f"{site}:application",
    ]


def _family(process: int) -> Iterator[int]:
    yield process
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _family(int(child))


def _cpu_seconds(process: int) -> float:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _megabytes(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

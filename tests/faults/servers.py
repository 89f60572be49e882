"""Servers in separate processes, which tests stop, freeze and fill."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import redis


def wait_for(fact: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < until
        time.sleep(0.05)


def program(name: str) -> str:
    """Return the path of a server's program, which ``.ci/faults`` installs if it is missing."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([*map(str, places), os.environ["PATH"], "/usr/sbin"])
    found = shutil.which(name, path=path)
    assert found, f"{name} is missing: run `.ci/faults make faults`, which installs it"
    return found


class Server(ABC):
    """A server on a socket in a folder, and the faults that it can have."""

    owner: ClassVar[str] = "root"
    process: subprocess.Popen[bytes]

    def __init__(self, place: Path) -> None:
        self.place = place
        # Unmounted when the server has ended for good.
        self.disks = ExitStack()
        # Neither database runs as root.
        self.identity: dict[str, Any] = {}
        if os.getuid() == 0 and self.owner != "root":
            user = pwd.getpwnam(self.owner)
            self.identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
            os.chown(place, user.pw_uid, user.pw_gid)
        self.create()
        self.start()

    def create(self) -> None:
        """Prepare the folder that the server needs to start."""
        self.place.chmod(0o755)

    def run(self, *command: str) -> None:
        """Run one of the server's own programs to its end."""
        subprocess.run(
            [program(command[0]), *command[1:]],
            check=True,
            capture_output=True,
            cwd=self.place,
            **self.identity,
        )

    @property
    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command that runs the server."""

    @abstractmethod
    def ask(self) -> object:
        """Send any query to the server. Raises if it does not answer."""

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with (self.place / "log").open("ab") as log:
            # It ends with the tests, even if they are interrupted.
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", program(self.command[0]), *self.command[1:]],
                stdout=log,
                stderr=log,
                cwd=self.place,
                **self.identity,
            )
        until = time.monotonic() + 60
        while True:
            try:
                self.ask()
            except Exception:
                is_over = self.process.poll() is not None or time.monotonic() > until
                assert not is_over, (self.place / "log").read_text()
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """End the server at once, with all connections to it."""
        self.process.kill()
        self.process.wait(30)

    @contextmanager
    def disk(self, name: str, size: str) -> Iterator[Path]:
        """Mount a folder as a separate disk in memory."""
        assert os.getuid() == 0, "a disk of its own takes the right to mount one"
        place = self.place / name
        place.mkdir(exist_ok=True)
        user = pwd.getpwnam(self.owner)
        options = f"size={size},mode=0700,uid={user.pw_uid},gid={user.pw_gid}"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        subprocess.run(mount, check=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True)

    @contextmanager
    def filled(self, place: Path) -> Iterator[None]:
        """Fill a disk until nothing on it is free."""
        filling = place / "filling"
        try:
            with filling.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(4096))
            yield
        finally:
            filling.unlink()

    def processes(self) -> list[int]:
        """Return the server's process and those that it has begun."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    @contextmanager
    def down(self) -> Iterator[None]:
        """End the server, and start it again after the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the server accept connections without answering them."""
        # It begins no others then.
        self.process.send_signal(signal.SIGSTOP)
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)
            self.ask()

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


class Redis(Server):
    @property
    def url(self) -> str:
        return f"unix://{self.place}/redis"

    @property
    def command(self) -> Sequence[str]:
        return ("redis-server", "--port", "0", "--unixsocket", "redis", "--save", "")

    def connect(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def ask(self) -> object:
        with self.connect() as client:
            return client.ping()

    @contextmanager
    def full(self) -> Iterator[None]:
        """Use up the memory, and free none of it."""
        with self.connect() as client:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", 1)
            try:
                yield
            finally:
                client.config_set("maxmemory", 0)

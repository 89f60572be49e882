"""
The programs that test the server, installed once and kept.

They live in ``.conformance/`` at the project's root, a folder that git ignores: a virtual
environment with Node and mcpcheck, which thus cannot change the packages that the project itself is
tested with, and the npm packages.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
HOME = ROOT / ".conformance"

REQUIREMENTS = HERE / "requirements.txt"
NODE = [HERE / "node" / name for name in ("package.json", "package-lock.json", ".npmrc")]


class Failure(Exception):
    """A leg of the run that ended badly; the text names the output to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The exit status of a program, and its whole output."""

    status: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return f"{self.stdout}\n{self.stderr}".strip()


class Toolbox:
    """Node, the npm packages and mcpcheck, ready to be run."""

    def __init__(self, home: Path = HOME) -> None:
        self.home = home
        self.programs = home / "venv" / "bin"
        self.packages = home / "node"
        self.results = home / "results"

    def install(self) -> None:
        """
        Install every program that is missing or pinned to another version; otherwise do nothing.
        """
        stamp = self.home / "installed"
        if stamp.is_file() and stamp.read_text() == fingerprint():
            return
        print("Installing Node, the conformance suite, MCP Inspector and mcpcheck ...", flush=True)
        stamp.unlink(missing_ok=True)
        self.home.mkdir(exist_ok=True)
        (self.home / ".gitignore").write_text("*\n")
        venv.create(self.home / "venv", clear=True, with_pip=True)
        python = self.programs / "python"
        self._must(python, "-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS)
        self.packages.mkdir(parents=True, exist_ok=True)
        for file in NODE:
            shutil.copy(file, self.packages)
        self._must(self.programs / "npm", "ci", "--loglevel=error", cwd=self.packages)
        stamp.write_text(fingerprint())

    def package(self, name: str) -> Path:
        """Return the program of an npm package."""
        return self.packages / "node_modules" / ".bin" / name

    def run(
        self,
        *command: str | Path,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        timeout: float = 600,
    ) -> Finished:
        """Run a program to its end, with Node on its PATH; raises Failure if it takes too long."""
        try:
            ended = subprocess.run(
                [str(part) for part in command],
                cwd=cwd,
                env={**self.surroundings(), **(env or {})},
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            raise Failure(f"{command[0]} did not end within {timeout:.0f} seconds.") from expired
        return Finished(status=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)

    def surroundings(self) -> dict[str, str]:
        """Return the environment of a program: with Node on its PATH, and without colours."""
        path = f"{self.programs}{os.pathsep}{os.environ.get('PATH', '')}"
        found = {**os.environ, "PATH": path, "NO_COLOR": "1"}
        found.pop("FORCE_COLOR", None)
        return found

    def _must(self, *command: str | Path, cwd: Path = ROOT) -> None:
        ended = self.run(*command, cwd=cwd)
        if ended.status:
            raise Failure(f"{' '.join(map(str, command))} failed:\n{ended.output}")


def fingerprint() -> str:
    """Return the pins, the Python and the path: a virtual environment cannot move."""
    digest = hashlib.sha256(f"{sys.version}\n{HOME}".encode())
    for file in (REQUIREMENTS, *NODE):
        digest.update(file.read_bytes())
    return digest.hexdigest()

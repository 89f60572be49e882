"""Python in separate processes, for facts that hold for a whole site."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@cache
def forking() -> subprocess.Popen[str]:
    """Return the process from which others are forked; it ends with its input."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.forking"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)
    return process


def ask(**request: Any) -> Any:
    process = forking()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps(request), file=process.stdin, flush=True)
    return json.loads(process.stdout.readline())


class Python:
    """A process that runs Python, with the arguments of its command line."""

    def __init__(
        self,
        *arguments: str,
        out: Path,
        err: Path,
        cwd: Path = ROOT,
        env: Mapping[str, str] = os.environ,
        timeout: int = 0,
    ) -> None:
        self.pid: int = ask(
            arguments=arguments,
            out=str(out),
            err=str(err),
            cwd=str(cwd),
            env=dict(env),
            timeout=timeout,
        )

    def wait(self, options: int = 0) -> int | None:
        """Return the exit status; None while it runs, with ``os.WNOHANG``."""
        status: int | None = ask(pid=self.pid, options=options)
        return status


def variables(site: Path) -> dict[str, str]:
    """Return the variables of a process that imports from a folder, with its settings."""
    path = f"{site}{os.pathsep}{ROOT}"
    return {**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": path}


def try_python(*arguments: str, timeout: int = 60, **place: Any) -> tuple[int | None, str, str]:
    """
    Return the exit status, the output and the errors of Python at the project's root, or elsewhere.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        status = Python(*arguments, out=out, err=err, timeout=timeout, **place).wait()
        return status, out.read_text("utf-8"), err.read_text("utf-8")


def run_python(*arguments: str, **place: Any) -> str:
    """Run Python until it has succeeded; return its output."""
    status, out, err = try_python(*arguments, **place)
    assert status == 0, err
    return out

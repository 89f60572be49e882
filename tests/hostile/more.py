"""
Another set of hostile requests, if one is kept beside this checkout.

It is a script ``run.py`` in the folder HOSTILE_CASES (default: ``../shared/hostile``) that takes
``--url`` and ``--header``, and writes its results to the file ``--out``. Nothing depends on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.hostile.serving import ROOT, Server

SCRIPT: Final = ROOT / os.environ.get("HOSTILE_CASES", "../shared/hostile") / "run.py"
GOOD: Final = {"ok", "tolerated"}


@dataclass
class Outcome:
    """The number of requests answered as required, and the outcome of each other one."""

    ok: int = 0
    others: list[str] = field(default_factory=list)


def found() -> str:
    """Return whether there is another set."""
    return f"further ones of {SCRIPT}" if SCRIPT.is_file() else f"no further ones: no {SCRIPT}"


def run(server: Server, caller: str) -> Outcome | None:
    """Send the other set to a server, anonymously or with a token; return None if there is none."""
    if not SCRIPT.is_file():
        return None
    out = Path(server.folder, f"others-{caller}.json")
    secret = server.secrets.get(caller)
    credential = ["--header", f"Authorization: Bearer {secret}"] if secret else []
    done = subprocess.run(
        [sys.executable, SCRIPT, "--url", f"http://127.0.0.1:{server.port}/mcp", "--out", out]
        + ["--denied", "forbidden", *credential],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = json.loads(out.read_text("utf-8"))["rows"] if out.is_file() else []
    others = [
        f"{row['verdict']} {row['id']} {row['title']}: {row['status']} {row['answer'][:160]}"
        for row in rows
        if row["verdict"] not in GOOD
    ]
    if done.returncode and not others:
        others = [done.stderr[-500:]]
    return Outcome(len(rows) - len(others), others)

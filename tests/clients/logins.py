"""Clients that log in, given only an address: the official TypeScript one, Claude Code."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.clients.environments import NODE, ROOT, SERVERS, npm_program, programs, search_path
from tests.clients.serving import Failure, Server, serving

CLAUDE_CODE = "https://claude.ai/oauth/claude-code-client-metadata"
URLS = {"gunicorn": "testproject.authorization_urls", "uvicorn": "tests.clients.login_urls"}
TIMEOUT = 120


@dataclass(frozen=True)
class Login:
    """A way to log in: an era, and how the client makes itself known."""

    name: str
    mode: str
    revision: str
    document: str | None = None


LOGINS = [
    Login("legacy-registered", "legacy", "2025-11-25"),
    Login("modern-registered", "auto", "2026-07-28"),
    Login("modern-document", "auto", "2026-07-28", CLAUDE_CODE),
]


def wrong_of(login: Login, server: Server) -> list[str]:
    """Return the unmet requirements in words."""
    seen = _run(login, server)
    made = "made by a document" if login.document else "registered"
    return [
        text
        for text, holds in {
            "is not logged in as its user": seen["me"]["username"] == "editor",
            f"does not speak {login.revision}": seen["me"]["revision"] == login.revision,
            "has asked for other scopes": seen["scopes"] == ["news:read", "news:read news:write"],
            "has asked for another resource": seen["resource"] == server.url,
            "was not let call what needs more": seen["status"] == "review",
            "has taken an answer of another issuer": seen["refused"] == ["IssuerMismatchError"] * 2,
            f"is not {made}": (seen["client"] == CLAUDE_CODE) == bool(login.document),
        }.items()
        if not holds
    ]


def serving_logins(name: str, folder: Path) -> Any:
    """Serve the newsroom as its own authorization server, with a draft for each login."""
    return serving(name, [*WAYS], folder, URLS[name], login=True)


def _run(login: Login, server: Server) -> dict[str, Any]:
    seat = server.seats[login.name]
    plan = {"url": server.url, "mode": login.mode, "document": login.document, "slug": seat["slug"]}
    plan |= {"username": "editor", "password": seat["password"]}
    try:
        done = subprocess.run(
            [programs(SERVERS) / "node", NODE / "login.mjs"],
            env={"HOME": str(server.folder), "PATH": search_path()},
            input=json.dumps(plan),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise Failure(f"did not end within {TIMEOUT} s") from expired
    if done.returncode:
        raise Failure(f"has ended with {done.returncode}: {done.stderr[-2000:]}")
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def claude_code(server: Server) -> list[str]:
    """Have Claude Code log in, which opens a browser; return the unmet requirements."""
    home = server.folder / "claude"
    # Its browser is ours.
    opener = home / "bin" / "xdg-open"
    opener.parent.mkdir(parents=True)
    python = programs(SERVERS) / "python"
    opener.write_text(f'#!/bin/sh\ncd {ROOT} && exec {python} -m tests.clients.browser "$1"\n')
    opener.chmod(0o755)
    env = {
        "HOME": str(home),
        "PATH": f"{opener.parent}{os.pathsep}{search_path()}",
        "BROWSER": str(opener),
        # Without a screen it would open nothing.
        "DISPLAY": ":0",
        "TERM": "xterm",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }

    def run(*arguments: str) -> str:
        command = [npm_program("claude"), "mcp", *arguments]
        if arguments[0] == "login":
            # Without a user's terminal it does not log in.
            return _in_terminal(command, home, env)
        done = subprocess.run(
            command,
            cwd=home,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        return done.stdout + done.stderr

    run("add", "--transport", "http", "newsroom", server.url)
    steps = [
        ("get", "Needs authentication"),
        ("login", "Authenticated with"),
        ("get", "✔ Connected"),
        ("logout", "Signed out"),
    ]
    said = [(step, wanted, run(step, "newsroom")) for step, wanted in steps]
    return [
        f"{step} does not say {wanted!r}: {text[-1000:]}"
        for step, wanted, text in said
        if wanted not in text
    ]


def _in_terminal(command: list[Any], folder: Path, env: dict[str, str]) -> str:
    """Return the output of a program in a terminal."""
    ours, theirs = pty.openpty()
    said, deadline = b"", time.monotonic() + TIMEOUT
    with subprocess.Popen(
        command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        try:
            while time.monotonic() < deadline:
                if select.select([ours], [], [], 1)[0]:
                    said += os.read(ours, 65536)
        except OSError:
            # A terminal whose last program has ended ends so.
            pass
        finally:
            process.kill()
            os.close(ours)
    # It may move the cursor from word to word.
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", " ", said.decode(errors="replace"))


WAYS: dict[str, Callable[[Server], list[str]]] = {
    **{login.name: partial(wrong_of, login) for login in LOGINS},
    "claude-code": claude_code,
}

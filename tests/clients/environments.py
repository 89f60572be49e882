"""
The environments of the clients, installed once and kept in ``.clients/`` at the project's root.

Python packages are pinned in ``requirements.txt``, a section an environment, npm packages in
``node/`` and ``n8n/``. The project itself is in the environment of the servers alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOME = ROOT / ".clients"
NODE = HOME / "node"
REQUIREMENTS = HERE / "requirements.txt"
# Their binaries come by a script of the package, which npm does not run by default.
WITH_SCRIPTS = ["@anthropic-ai/claude-code", "opencode-ai"]
# The environments of npm packages.
NPM = ("node", "n8n")
SERVERS = "servers"


def programs(environment: str) -> Path:
    """Return the folder of the programs of a Python environment."""
    return HOME / environment / "bin"


def npm_program(name: str) -> Path:
    """Return the program of an npm package."""
    return NODE / "node_modules" / ".bin" / name


def copy_scripts() -> None:
    """
    Put our own scripts beside the npm packages, since Node looks for these in a file's folder.
    """
    for script in (HERE / "node").glob("*.mjs"):
        for name in NPM:
            shutil.copy(script, HOME / name)


def search_path() -> str:
    """Return PATH with the Node of these environments first."""
    return f"{programs(SERVERS)}{os.pathsep}{os.environ.get('PATH', '')}"


def install() -> None:
    """Install everything that is missing or was installed with other pins."""
    HOME.mkdir(exist_ok=True)
    # The servers' first: npm is in there.
    found = sections()
    _install(SERVERS, found.pop(SERVERS), f"{ROOT}[demo,test]")
    with ThreadPoolExecutor() as pool:
        done = [pool.submit(_install, name, pins) for name, pins in found.items()]
        done += [pool.submit(_install_packages, name) for name in NPM]
        for each in done:
            each.result()
    copy_scripts()


def sections() -> dict[str, str]:
    """Return the pins of each environment."""
    found: dict[str, str] = {}
    for part in REQUIREMENTS.read_text().split("# environment: ")[1:]:
        name, _, pins = part.partition("\n")
        lines = [line for line in pins.splitlines() if line and not line.startswith("#")]
        found[name] = "\n".join(lines)
    return found


def versions() -> dict[str, str]:
    """Return every pinned version, by the name of its package."""
    pins = [line for text in sections().values() for line in text.splitlines() if "==" in line]
    found = {name: version for name, _, version in (pin.partition("==") for pin in pins)}
    packages: dict[str, str] = _package("node")["dependencies"]
    unpacked, _, version = _package("n8n")["config"]["unpacked"].rpartition("@")
    # The older official client has a separate environment.
    return {
        **found,
        **packages,
        unpacked: version,
        "mcp 1": _version("mcp", "google"),
        "mcp": _version("mcp", "agents"),
    }


def _version(package: str, environment: str) -> str:
    pins = dict(line.split("==") for line in sections()[environment].splitlines())
    return pins[package]


def _install(name: str, pins: str, *more: str) -> None:
    # The requirements of the project itself are in its setup.cfg.
    stamp = _Stamp(name, pins + (ROOT / "setup.cfg").read_text() if more else pins)
    if stamp.holds():
        return
    print(f"Installing the environment {name!r} ...", flush=True)
    # A copy of Python may not be executed while another thread starts a process.
    venv.create(HOME / name, clear=True, with_pip=True, symlinks=True)
    (HOME / f"{name}.txt").write_text(pins)
    pip = [programs(name) / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    editable = [argument for path in more for argument in ("-e", path)]
    subprocess.run([*pip, "-r", HOME / f"{name}.txt", *editable], check=True)
    stamp.set()


def _package(name: str) -> dict[str, Any]:
    package: dict[str, Any] = json.loads((HERE / name / "package.json").read_text())
    return package


def _install_packages(name: str) -> None:
    files = [HERE / name / "package.json", HERE / name / "package-lock.json", HERE / "node/.npmrc"]
    stamp = _Stamp(name, "".join(file.read_text() for file in files))
    if stamp.holds():
        return
    print(f"Installing the npm packages {name!r} ...", flush=True)
    folder = HOME / name
    folder.mkdir(exist_ok=True)
    for file in files:
        shutil.copy(file, folder)
    npm, env = programs(SERVERS) / "npm", {**os.environ, "PATH": search_path()}

    def run(*arguments: str) -> str:
        command = [npm, *arguments, "--loglevel=error"]
        done = subprocess.run(
            command, cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()

    if name == "n8n":
        run("install", "--omit=optional")
        spec = _package(name)["config"]["unpacked"]
        _unpack(folder / run("pack", spec), folder / "node_modules" / spec.rpartition("@")[0])
    else:
        # Not "ci": it requires every platform's binary in the lock, even unpublished ones.
        run("install")
        run("rebuild", "--ignore-scripts=false", *WITH_SCRIPTS)
    stamp.set()


def _unpack(archive: Path, target: Path) -> None:
    """Put a package in a folder for Node, without its dependencies."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    tar = ["tar", "-xzf", archive, "--strip-components=1", "-C", target]
    subprocess.run(tar, check=True)
    archive.unlink()


class _Stamp:
    """Mark of the pins that an environment was installed with, and its path: it cannot be moved."""

    def __init__(self, name: str, pins: str) -> None:
        self.path = HOME / f"{name}.installed"
        self.text = hashlib.sha256(f"{sys.version}\n{HOME}\n{pins}".encode()).hexdigest()

    def holds(self) -> bool:
        return self.path.is_file() and self.path.read_text() == self.text

    def set(self) -> None:
        self.path.write_text(self.text)

"""
The environments of the clients, installed once and kept in ``.clients/`` at the project's root.

Python packages are pinned in ``requirements.txt``, a section an environment, npm packages in
``node/``. The project itself is in the environment of the servers alone.
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

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOME = ROOT / ".clients"
NODE = HOME / "node"
REQUIREMENTS = HERE / "requirements.txt"
PACKAGES = [HERE / "node" / name for name in ("package.json", "package-lock.json", ".npmrc")]
# Their binaries come by a script of the package's, which npm does not run unasked.
WITH_SCRIPTS = ["@anthropic-ai/claude-code", "opencode-ai"]
SERVERS = "servers"


def programs(environment: str) -> Path:
    """Where the programs of a Python environment are."""
    return HOME / environment / "bin"


def npm_program(name: str) -> Path:
    """The program of an npm package."""
    return NODE / "node_modules" / ".bin" / name


def copy_scripts() -> None:
    """Put our own scripts beside the npm packages, since Node looks for those where a file is."""
    for script in (HERE / "node").glob("*.mjs"):
        shutil.copy(script, NODE)


def search_path() -> str:
    """PATH with the Node of these environments first."""
    return f"{programs(SERVERS)}{os.pathsep}{os.environ.get('PATH', '')}"


def install() -> None:
    """Install what is missing or pinned otherwise than when it was installed."""
    HOME.mkdir(exist_ok=True)
    # The servers' first: npm is in there.
    found = sections()
    _install(SERVERS, found.pop(SERVERS), f"{ROOT}[demo,test]")
    with ThreadPoolExecutor() as pool:
        done = [pool.submit(_install, name, pins) for name, pins in found.items()]
        done.append(pool.submit(_install_packages))
        for each in done:
            each.result()
    copy_scripts()


def sections() -> dict[str, str]:
    """The pins of each environment."""
    found: dict[str, str] = {}
    for part in REQUIREMENTS.read_text().split("# environment: ")[1:]:
        name, _, pins = part.partition("\n")
        lines = [line for line in pins.splitlines() if line and not line.startswith("#")]
        found[name] = "\n".join(lines)
    return found


def versions() -> dict[str, str]:
    """Every pinned version, by the name of its package."""
    pins = [line for text in sections().values() for line in text.splitlines() if "==" in line]
    found = {name: version for name, _, version in (pin.partition("==") for pin in pins)}
    packages: dict[str, str] = json.loads(PACKAGES[0].read_text())["dependencies"]
    # The older official client, of an environment of its own.
    return {
        **found,
        **packages,
        "mcp 1": _version("mcp", "google"),
        "mcp": _version("mcp", "agents"),
    }


def _version(package: str, environment: str) -> str:
    pins = dict(line.split("==") for line in sections()[environment].splitlines())
    return pins[package]


def _install(name: str, pins: str, *more: str) -> None:
    # What the project itself asks for stands in its setup.cfg.
    stamp = _Stamp(name, pins + (ROOT / "setup.cfg").read_text() if more else pins)
    if stamp.holds():
        return
    print(f"Installing the environment {name!r} ...", flush=True)
    venv.create(HOME / name, clear=True, with_pip=True)
    (HOME / f"{name}.txt").write_text(pins)
    pip = [programs(name) / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    editable = [argument for path in more for argument in ("-e", path)]
    subprocess.run([*pip, "-r", HOME / f"{name}.txt", *editable], check=True)
    stamp.set()


def _install_packages() -> None:
    stamp = _Stamp("node", "".join(file.read_text() for file in PACKAGES))
    if stamp.holds():
        return
    print("Installing the npm packages ...", flush=True)
    NODE.mkdir(exist_ok=True)
    for file in PACKAGES:
        shutil.copy(file, NODE)
    npm, env = programs(SERVERS) / "npm", {**os.environ, "PATH": search_path()}
    quiet = "--loglevel=error"
    # Not "ci": it wants every platform's binary in the lock, also those that nobody has published.
    subprocess.run([npm, "install", quiet], cwd=NODE, env=env, check=True)
    rebuild = [npm, "rebuild", quiet, "--ignore-scripts=false", *WITH_SCRIPTS]
    subprocess.run(rebuild, cwd=NODE, env=env, check=True, stdout=subprocess.DEVNULL)
    stamp.set()


class _Stamp:
    """Says whether an environment is what is pinned now; a virtual environment cannot move."""

    def __init__(self, name: str, pins: str) -> None:
        self.path = HOME / f"{name}.installed"
        self.text = hashlib.sha256(f"{sys.version}\n{HOME}\n{pins}".encode()).hexdigest()

    def holds(self) -> bool:
        return self.path.is_file() and self.path.read_text() == self.text

    def set(self) -> None:
        self.path.write_text(self.text)

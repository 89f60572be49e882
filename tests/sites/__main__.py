"""
Install the bridge into sites that know nothing of it: ``make sites`` (ARGS="knox" for one).

Each site is made anew by its own tools, gets what docs/installation.md asks for and a file of ten
procedures, and is served by gunicorn: it must start, check clean, list as three users, run five
tools, publish after a confirmation, and answer at its own addresses byte for byte as before.
Exits with 1 if any site fails.
"""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.sites import accounts, cms, djoser, helpdesk, knox, wagtail
from tests.sites.run import Failure, Run
from tests.sites.site import Site

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-sites"
SITES = [wagtail.SITE, cms.SITE, helpdesk.SITE, djoser.SITE, knox.SITE, *accounts.SITES]


def main(names: list[str]) -> int:
    chosen = [site for site in SITES if not names or site.name in names]
    if not chosen:
        print(f"No such site; there are {', '.join(site.name for site in SITES)}.")
        return 2
    install()
    started = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        passed = list(pool.map(judge, chosen))
    print(f"{sum(passed)} of {len(passed)} sites passed in {time.monotonic() - started:.0f} s")
    return 0 if all(passed) else 1


def install() -> None:
    """Make the environment of the sites, with the bridge as a package that is not edited."""
    if not ENVIRONMENT.is_dir():
        venv.create(ENVIRONMENT, with_pip=True)
    requirements = Path(__file__).with_name("requirements.txt")
    pip = [ENVIRONMENT / "bin" / "python", "-m", "pip", "install", "-q"]
    quiet = ["--disable-pip-version-check"]
    bridge = f"{ROOT}[drf,ninja]"
    subprocess.run([*pip, *quiet, "-r", requirements, bridge], check=True)
    # The version does not change from one commit to the next.
    again = ["--force-reinstall", "--no-deps"]
    subprocess.run([*pip, *quiet, *again, ROOT], check=True)


def judge(site: Site) -> bool:
    """Run one site, and print what came of it."""
    started = time.monotonic()
    try:
        verdict, passed = Run(site, ENVIRONMENT / "bin").whole(), True
    except Failure as failure:
        verdict, passed = str(failure), False
    mark = "ok  " if passed else "FAIL"
    print(f"{mark} {site.name:<20} {time.monotonic() - started:4.1f} s  {verdict}", flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""
Install the bridge into sites that were written without it: ``make sites`` (ARGS="knox ara" for
two).

Each site is made by its own tools, gets the additions of docs/start/installation.md and a file of
ten procedures, and is served by gunicorn: it must start, check clean, list as three users, run five
tools, publish after a confirmation, and answer at its own addresses byte for byte as before.

Three sites get no procedures: all of their REST API is enabled, and ten calls change something that
is then seen over HTTP. Exits with 1 if any site fails.
"""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.sites import (
    accounts,
    ara,
    cms,
    djoser,
    helpdesk,
    knox,
    labelstudio,
    oscar,
    stock,
    wagtail,
)
from tests.sites.run import Failure, Run
from tests.sites.site import Site

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv-sites"
SITES = [
    wagtail.SITE,
    cms.SITE,
    helpdesk.SITE,
    djoser.SITE,
    knox.SITE,
    stock.SITE,
    *accounts.SITES,
    ara.SITE,
    oscar.SITE,
    labelstudio.SITE,
]


def main(names: list[str]) -> int:
    sites = {site.name: site for site in SITES}
    if unknown := set(names) - sites.keys():
        print(f"There is no site {', '.join(sorted(unknown))}; there are {', '.join(sites)}.")
        return 2
    chosen = [sites[name] for name in names or sites]
    for requirements in dict.fromkeys(site.requirements for site in chosen):
        install(requirements)
    started = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        passed = list(pool.map(judge, chosen))
    print(f"{sum(passed)} of {len(passed)} sites passed in {time.monotonic() - started:.0f} s")
    return 0 if all(passed) else 1


def environment(requirements: str) -> Path:
    """Return the folder of the environment of the sites with these requirements."""
    return ENVIRONMENTS / (Path(requirements).parent.name or "shared")


def install(requirements: str) -> None:
    """Make an environment, with the bridge as a package that is not edited."""
    place = environment(requirements)
    if not place.is_dir():
        venv.create(place, with_pip=True)
    pip = [place / "bin" / "python", "-m", "pip", "install", "-q"]
    quiet = ["--disable-pip-version-check"]
    packages = ["-r", Path(__file__).parent / requirements, f"{ROOT}[drf,ninja]"]
    subprocess.run([*pip, *quiet, *packages], check=True)
    # The version does not change from one commit to the next.
    again = ["--force-reinstall", "--no-deps"]
    subprocess.run([*pip, *quiet, *again, ROOT], check=True)


def judge(site: Site) -> bool:
    """Run one site, and print the outcome."""
    started = time.monotonic()
    try:
        verdict, passed = Run(site, environment(site.requirements) / "bin").whole(), True
    except Failure as failure:
        verdict, passed = str(failure), False
    mark = "ok  " if passed else "FAIL"
    print(f"{mark} {site.name:<20} {time.monotonic() - started:4.1f} s  {verdict}", flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

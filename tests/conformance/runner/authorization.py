"""The official conformance suite's scenarios for authorization servers, at one revision."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections import Counter

from runner.official import announced, read, statuses
from runner.sites import Site
from runner.toolbox import ROOT, Failure, Toolbox

# The browser of the demo.
sys.path.append(str(ROOT))

# The metadata, and the grant of a code.
SCENARIOS = 2
TIMEOUT = 120


def run(toolbox: Toolbox, site: Site, revision: str) -> str:
    """
    Have the suite log in with a client that registers first; return a line on the outcome.

    Raises Failure for a check that did not succeed, and for another number of scenarios.
    """
    results = toolbox.results / f"authorization-{revision}"
    shutil.rmtree(results, ignore_errors=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    issuer = site.url.removesuffix("/mcp")
    client = register(f"{issuer}/oauth/register/", f"http://127.0.0.1:{port}/callback")
    command = [
        *(toolbox.package("conformance"), "authorization", "--url", issuer, "--client-id", client),
        *("--resource", site.url, "--port", port, "--spec-version", revision),
        *("--output-dir", results),
    ]
    with subprocess.Popen(
        [str(part) for part in command],
        env=toolbox.surroundings(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as suite:
        try:
            output = log_in(suite, issuer)
        finally:
            suite.kill()
    scenarios = read(results, expected=announced(output))
    found = sum(map(statuses, scenarios.scenarios.values()), Counter())
    if suite.returncode or len(scenarios.scenarios) != SCENARIOS or set(found) != {"SUCCESS"}:
        raise Failure(f"The suite's authorization scenarios did not all succeed:\n{output}")
    return (
        f"{len(scenarios.scenarios)} scenarios of authorization, {found['SUCCESS']} checks passed"
    )


def register(url: str, callback: str) -> str:
    """Register a client that redirects to an address; return its id."""
    body = {"redirect_uris": [callback], "token_endpoint_auth_method": "none"}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        client: str = json.load(response)["client_id"]
    return client


def log_in(suite: subprocess.Popen[str], issuer: str) -> str:
    """Open the address that the suite asks for, as a reader; return all of its output."""
    from testproject.demo.login import Browser

    said = ""
    assert suite.stdout is not None
    for line in suite.stdout:
        said += line
        if line.startswith(f"{issuer}/oauth/authorize/?"):
            browser = Browser("reader", "demo")
            asyncio.run(browser.visit(line.strip()))
            urllib.request.urlopen(browser.url, timeout=TIMEOUT).close()
    suite.wait(TIMEOUT)
    return said

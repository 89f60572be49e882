from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from django.core import checks
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from mcp_bridge.checks.deployment import TABLES
from mcp_bridge.checks.urls import ADD_ADDRESS, NO_ADDRESS, reachable
from mcp_bridge.management.base import named_user
from mcp_bridge.management.endpoint import Endpoint, Unreachable
from mcp_bridge.management.probes import PROBES, Finding, Findings, error, info, ok, warning
from mcp_bridge.sources.base import first_line

# What Django's own deployment checks say of HTTPS.
_HTTPS: Final = ("security.W001", "security.W008", "security.W018", "security.W020")
_LEVELS: Final = ("error", "warning", "info", "ok")


class Command(BaseCommand):
    help = (
        "Examine the site and try its endpoint as a client would: each finding with its remedy. "
        "Fails where there is an error."
    )
    # They are findings here, and so are migrations.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--url",
            help="The endpoint as clients reach it, such as https://example.com/mcp (default: in "
            "this process, without the network).",
        )
        parser.add_argument(
            "--token",
            help='A credential: a bearer token, or a whole Authorization header ("Token abc").',
        )
        parser.add_argument("--user", help="In this process: whom to try as, without a token.")
        parser.add_argument(
            "--timeout", type=float, default=15, help="Of the network, in seconds (default: 15)."
        )
        parser.add_argument("--json", action="store_true", help="As JSON.")

    def handle(
        self, *, url: str | None, token: str | None, user: str | None, **options: Any
    ) -> None:
        if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc):
            raise CommandError(f"{url!r} is no address: give one such as https://example.com/mcp.")
        if url and user:
            raise CommandError("--user is for the test in this process: with --url give --token.")
        if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
            raise CommandError("The token cannot stand in a header: is all of it a token?")
        found: list[tuple[str, Finding]] = []
        for area, finding in _examined(url, token, user, options["timeout"]):
            found.append((area, finding))
            if not options["json"]:
                self._print(area, finding)
        counts = {level: sum(finding.level == level for _, finding in found) for level in _LEVELS}
        if options["json"]:
            listed = [{"area": area, **asdict(finding)} for area, finding in found]
            self.stdout.write(json.dumps({"counts": counts, "findings": listed}, indent=2))
        else:
            self.stdout.write(f"\nErrors: {counts['error']}, warnings: {counts['warning']}.")
        if counts["error"]:
            raise CommandError(f"Errors that must be mended: {counts['error']}.")

    def _print(self, area: str, finding: Finding) -> None:
        style = {"error": self.style.ERROR, "warning": self.style.WARNING}
        level = style.get(finding.level, self.style.SUCCESS)(f"{finding.level:<8}")
        self.stdout.write(f"{level} {area}: {finding.text}")
        if finding.remedy:
            self.stdout.write(f"{'':<9}-> {finding.remedy}")


def _examined(
    url: str | None, token: str | None, user: str | None, timeout: float
) -> Iterator[tuple[str, Finding]]:
    """Yield each finding with its area: first those of the site, then those of the endpoint."""
    found = sorted(dict.fromkeys(_checked()), key=lambda each: _LEVELS.index(each.level))
    yield from (("checks", each) for each in found)
    if not any(each.level in ("error", "warning") for each in found):
        yield "checks", ok("The system checks find nothing.")
    if any(each.text.startswith(TABLES) for each in found):
        # What follows makes the tools, which may write rows that a migration cannot stand.
        return
    if not url:
        where = next(_findings(_located))
        yield "URLs" if where.level == "ok" else "endpoint", where
        if where.level == "error":
            return
    endpoint = Endpoint(url, token, named_user(user) if user else None, timeout)
    for area, probe in PROBES.items():
        findings = list(_findings(partial(probe, endpoint)))
        yield from ((f"endpoint, {area}", finding) for finding in findings)
        if area == "handshake" and any(each.level == "error" for each in findings):
            # Whatever answers there, it is not the endpoint.
            return


def _checked() -> Findings:
    """Run the system checks: all of this package, and of others what would stop a command."""
    known = checks.registry.registry
    for check in known.get_checks(include_deployment_checks=True):
        is_ours, stops = "mcp_bridge" in check.tags, check in known.get_checks()
        if is_ours or stops or checks.Tags.security in check.tags:
            yield from _findings(partial(_messages, check, is_ours, stops))


def _messages(check: Callable[..., Any], is_ours: bool, stops: bool) -> Findings:
    # With databases, those of the tools wait until migrations are done.
    for each in check(app_configs=None, databases=list(connections)):
        text = f"{each.id}: {each.msg}"
        if each.is_silenced():
            continue
        if is_ours or (stops and each.level >= checks.ERROR):
            level = (error, warning, info)[
                (each.level < checks.ERROR) + (each.level < checks.WARNING)
            ]
            yield level(text, str(each.hint or "Every command stops at it."))
        elif each.id in _HTTPS:
            yield info(
                text, "Tokens cross the network with every call. `check --deploy` says more."
            )


def _located() -> Findings:
    if addresses := reachable():
        yield ok(f"The endpoint is at {', '.join(addresses)}.")
    else:
        yield error(f"{NO_ADDRESS}, so that it was not tried.", ADD_ADDRESS)


def _findings(examine: Callable[[], Findings]) -> Findings:
    """Yield what is found, and an error in place of what cannot be looked at."""
    try:
        yield from examine()
    except Unreachable as unreachable:
        yield error(*unreachable.args)
    except Exception as raised:
        yield error(
            f"This cannot be examined: {type(raised).__name__}: {first_line(raised)}.",
            "Mend that, and what is said above; then run mcp_doctor again.",
        )

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_bridge.management.doctor import LEVELS, Finding, examined


class Command(BaseCommand):
    help = (
        "Check the site and try its endpoint like a client; prints each finding and its remedy. "
        "Fails if there is an error."
    )
    # System checks and migrations are findings here.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--url",
            help="The endpoint's public address, such as https://example.com/mcp (default: in "
            "this process, without the network).",
        )
        parser.add_argument(
            "--token",
            help='A credential: a bearer token, or a full Authorization header ("Token abc").',
        )
        parser.add_argument("--user", help="In this process: the user to try as, without a token.")
        parser.add_argument(
            "--timeout", type=float, default=15, help="Network timeout in seconds (default: 15)."
        )
        parser.add_argument("--json", action="store_true", help="Print as JSON.")

    def handle(
        self, *, url: str | None, token: str | None, user: str | None, **options: Any
    ) -> None:
        if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc):
            raise CommandError(f"Invalid address {url!r}: use one such as https://example.com/mcp.")
        if url and user:
            raise CommandError("--user works only in this process; with --url, pass --token.")
        if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
            raise CommandError("The token is not valid in a header; check for copy errors.")
        found: list[tuple[str, Finding]] = []
        for area, finding in examined(url, token, user, options["timeout"]):
            found.append((area, finding))
            if not options["json"]:
                style = getattr(self.style, finding.level.upper(), self.style.SUCCESS)
                self.stdout.write(f"{style(f'{finding.level:<8}')} {area}: {finding.text}")
                if finding.remedy:
                    self.stdout.write(f"{'':<9}-> {finding.remedy}")
        counts = {level: sum(finding.level == level for _, finding in found) for level in LEVELS}
        if options["json"]:
            listed = [{"area": area, **asdict(finding)} for area, finding in found]
            self.stdout.write(json.dumps({"counts": counts, "findings": listed}, indent=2))
        else:
            self.stdout.write(f"\nErrors: {counts['error']}, warnings: {counts['warning']}.")
        if counts["error"]:
            raise CommandError(f"Errors to fix: {counts['error']}.")

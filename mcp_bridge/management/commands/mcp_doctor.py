from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_bridge.management.doctor import LEVELS, Finding, examined


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
            raise CommandError(f"Errors that must be mended: {counts['error']}.")

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.cache import cache
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.http.request import validate_host
from django.utils.module_loading import import_string
from rest_framework.authentication import SessionAuthentication
from rest_framework.settings import api_settings

from mcp_bridge.access.policy import served_host
from mcp_bridge.checks.urls import ADD_ADDRESS, NO_ADDRESS, endpoints, reachable
from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.management.base import TablesCommand, named_user
from mcp_bridge.management.endpoint import Endpoint, Unreachable
from mcp_bridge.management.probes import PROBES, Finding, Findings, error, info, ok, warning
from mcp_bridge.registry.linting import lint_list
from mcp_bridge.registry.registry import registry, unapplied
from mcp_bridge.registry.toolsets import title_of
from mcp_bridge.sources.base import first_line
from mcp_bridge.views import AsyncMCPView

_PRIVATE_CACHES: Final = ("locmem.LocMemCache", "dummy.DummyCache")


def system_checks() -> Findings:
    """The system checks of this package, and the errors of others, which stop every command."""
    # With databases, those of the tools wait until migrations are done.
    run = partial(checks.run_checks, databases=list(connections))
    ours = run(tags=["mcp_bridge"], include_deployment_checks=True)
    errors = (each for each in run() if each.level >= checks.ERROR)
    found = {(each.id, each.msg): each for each in (*ours, *errors)}
    kept = [each for each in found.values() if not each.is_silenced()]
    for each in kept:
        level = error if each.level >= checks.ERROR else warning
        yield level(f"{each.id}: {each.msg}", str(each.hint or "Every command stops at it."))
    if not kept:
        yield ok("The system checks find nothing.")


def hosts() -> Findings:
    """ALLOWED_HOSTS, without which every request is refused."""
    allowed = settings.ALLOWED_HOSTS
    if not allowed and settings.DEBUG:
        return
    if not validate_host(served_host(), allowed):
        how = "has no host that a request could name" if allowed else "is empty"
        yield error(
            f"ALLOWED_HOSTS {how}: every request is refused with an HTML page of status 400.",
            "Name there the hosts in the addresses that clients use; an IPv6 address stands in "
            "brackets: [::1].",
        )


def urls() -> Findings:
    """Where the endpoint is; what is wrong with that, a system check says."""
    if addresses := reachable():
        yield ok(f"The endpoint is at {', '.join(addresses)}.")


def address() -> Findings:
    """Whether there is an address to try in this process."""
    if not reachable():
        yield error(f"{NO_ADDRESS}, so that it was not tried.", ADD_ADDRESS)


def databases() -> list[str]:
    """Return the databases that the site has: the dummy backend is none."""
    return [alias for alias in connections if connections[alias].vendor != "unknown"]


def migrations() -> Findings:
    """The tables of this package."""
    try:
        TablesCommand().check_migrations()
    except CommandError as refused:
        yield error(str(refused), "Then run mcp_doctor again.")
        return
    for alias in databases():
        waiting = unapplied(alias)
        # A database without any migration is not for the models of the site.
        if waiting and MigrationRecorder(connections[alias]).applied_migrations():
            yield error(
                f"Migrations of {alias!r} wait ({len(waiting)}): {', '.join(waiting[:5])}.",
                "Run `manage.py migrate`, and then mcp_doctor again.",
            )
            return
    yield ok("The database has all tables.")


def tools() -> Findings:
    """Whether any tool is served, and not too many for one list."""
    discovered, served = len(registry.discovered), len(registry.snapshot)
    if not served:
        yield warning(
            f"No tool is served, of {discovered} that the code has.",
            "`manage.py mcp_tools` says which there are, and why they are not served.",
        )
    else:
        yield ok(f"{served} of {discovered} tools are served.")
    for name, part in registry.snapshot.lists().items():
        for each in lint_list(title_of(name), len(part), part.tokens()):
            yield info(each.msg, str(each.hint))
    own_loops = [tool.name for tool in registry.snapshot if tool.is_async]
    views = endpoints().values()
    is_async = any(issubclass(view, AsyncMCPView) for view in views)
    with suppress(Exception):
        is_async |= bool(_direct_lane())
    if own_loops and views and not is_async:
        yield info(
            f"Tools are `async def` ({', '.join(own_loops[:5])}), and the endpoint's view is not: "
            "each call of them has an event loop of its own.",
            "Where the site is served under ASGI, include mcp_bridge.urls_async.",
        )


def credentials() -> Findings:
    """Whether somebody can authenticate."""
    classes = [import_string(path) for path in conf.AUTHENTICATION_CLASSES]
    public = registry.snapshot.has_public
    if not classes and not public:
        yield error(
            "MCP_BRIDGE['AUTHENTICATION_CLASSES'] is empty and no tool is public: nobody can call.",
            "Take the setting away, to use the bearer tokens of mcp_bridge.tokens, or name a DRF "
            "authentication class there.",
        )
    elif classes and all(issubclass(each, SessionAuthentication) for each in classes):
        yield warning(
            "Only sessions authenticate: programs such as Claude Code send no cookies.",
            "Add mcp_bridge.tokens.authentication.TokenAuthentication, or another class that reads "
            "the Authorization header, to MCP_BRIDGE['AUTHENTICATION_CLASSES'].",
        )
    elif classes:
        yield ok(f"Callers authenticate by {', '.join(each.__name__ for each in classes)}.")
    by_token = [each for each in classes if each.__module__.startswith("mcp_bridge.tokens")]
    if by_token and len(classes) == 1 and not public:
        tokens = apps.get_model("mcp_bridge_tokens", "Token")._default_manager
        valid = sum(
            token.is_valid and token.user.is_active for token in tokens.select_related("user")
        )
        if valid:
            yield ok(f"Valid tokens: {valid}.")
        else:
            yield warning(
                "There is no valid token, and nothing else authenticates: nobody can call.",
                'Issue one: `manage.py mcp_token create USERNAME --name "My laptop"`.',
            )


def https() -> Findings:
    """What Django's own deployment checks say of DEBUG, HTTPS and hosts."""
    if settings.DEBUG:
        yield info("DEBUG is on: this is a site for development, and changed tools are served.")
        return
    found = checks.run_checks(tags=[checks.Tags.security], include_deployment_checks=True)
    for each in found:
        if each.id in ("security.W001", "security.W008", "security.W020"):
            remedy = "Tokens cross the network with every call. `check --deploy` says more."
            yield info(f"{each.id}: {each.msg}", remedy)


def proxies() -> Findings:
    """Settings that tell Django of a proxy in front of it."""
    header = settings.SECURE_PROXY_SSL_HEADER
    if header and not str(header[0]).startswith("HTTP_"):
        name = str(header[0]).upper().replace("-", "_")
        yield error(
            f"SECURE_PROXY_SSL_HEADER names {header[0]!r}, which no request has: Django takes "
            "every request for plain HTTP, and refuses browsers' origins.",
            f"Write it as in request.META: ({'HTTP_' + name!r}, {header[1]!r}).",
        )
    is_behind = header or settings.USE_X_FORWARDED_HOST
    if is_behind and api_settings.NUM_PROXIES is None and registry.snapshot.has_public:
        yield info(
            "Anonymous callers are counted by their address, which behind a proxy is the proxy's.",
            "Give REST_FRAMEWORK['NUM_PROXIES'] the number of proxies "
            f"({DOCUMENTATION}throttling.md).",
        )
    if settings.SECURE_SSL_REDIRECT and not header:
        yield info(
            "SECURE_SSL_REDIRECT is on without SECURE_PROXY_SSL_HEADER: behind a proxy that ends "
            "TLS, every request is redirected for ever.",
            "Set SECURE_PROXY_SSL_HEADER where there is such a proxy.",
        )


def workers() -> Findings:
    """What does not hold when several processes, or an event loop, serve the site."""
    lane: Collection[str] = ()
    try:
        lane = _direct_lane()
    except Exception as raised:
        yield warning(
            f"ASGI_APPLICATION, {settings.ASGI_APPLICATION!r}, cannot be imported: "
            f"{first_line(raised)}.",
            "Mend it: a server that is given it does not start.",
        )
    if lane:
        yield info(
            f"The direct lane answers for {', '.join(lane)} (ASGI_APPLICATION).",
            "In this process Django answers in its place: --url tries the lane itself.",
        )
    is_async = any(issubclass(view, AsyncMCPView) for view in endpoints().values())
    for alias in databases():
        given = connections[alias].settings_dict
        if given["CONN_MAX_AGE"] != 0 and is_async and not lane:
            yield warning(
                f"{alias!r} keeps connections (CONN_MAX_AGE is {given['CONN_MAX_AGE']}). Under "
                "ASGI Django has a thread for each request, and uses none of them again.",
                "Set it to 0, and pool connections in the database's driver; or serve the endpoint "
                f"by the direct lane, which uses them again ({DOCUMENTATION}direct-lane.md).",
            )
        elif given["CONN_MAX_AGE"] == 0 and lane and not given["OPTIONS"].get("pool"):
            yield info(
                f"{alias!r} has a new connection for each request, and the direct lane could keep "
                "them (CONN_MAX_AGE is 0).",
                "Set it above 0 where the process serves little but the endpoint, and the "
                "database's limit of connections by the requests at once "
                f"({DOCUMENTATION}direct-lane.md).",
            )


def _direct_lane() -> Collection[str]:
    """Return the addresses that ASGI_APPLICATION serves without Django, if it has an attribute."""
    name = getattr(settings, "ASGI_APPLICATION", None)
    return getattr(import_string(name), "mcp_served", ()) if name else ()


def caches() -> Findings:
    """The cache in which calls are counted."""
    rates = [rate for rate in conf.THROTTLE_RATES.values() if rate]
    rates += [tool.rate or tool.options.throttle or "" for tool in registry.snapshot]
    kind = str(settings.CACHES["default"]["BACKEND"])
    if any(rates) and kind.endswith(_PRIVATE_CACHES):
        yield warning(
            f"Tools have rates, and the default cache is {kind.rpartition('.')[2]}: each worker "
            "counts for itself, or none does, so that a caller has a rate several times over.",
            "Give CACHES['default'] a cache that all workers share, such as Redis "
            f"({DOCUMENTATION}throttling.md). With a single worker, LocMemCache is right.",
        )
    try:
        cache.set("mcp_bridge.doctor", 1, timeout=1)
    except Exception as exception:
        yield error(
            f"The default cache cannot be written ({type(exception).__name__}: {exception}): "
            f"calls count as THROTTLE_WITHOUT_CACHE says ({conf.THROTTLE_WITHOUT_CACHE!r}).",
            "Start the cache, and look at CACHES['default'].",
        )


SITE: Final[tuple[tuple[str, Callable[[], Findings]], ...]] = (
    ("checks", system_checks),
    ("settings", hosts),
    ("URLs", urls),
    ("migrations", migrations),
    ("tools", tools),
    ("credentials", credentials),
    ("proxies", proxies),
    ("HTTPS", https),
    ("workers", workers),
    ("cache", caches),
)


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
        counts = {
            level: sum(finding.level == level for _, finding in found)
            for level in ("error", "warning", "info", "ok")
        }
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
    for area, examine in SITE:
        findings = list(_findings(examine))
        yield from ((area, finding) for finding in findings)
        if area == "migrations" and any(each.level == "error" for each in findings):
            # What follows makes the tools, which may write rows that a migration cannot stand.
            return
    # Without an address there is nothing to try.
    if not url and (missing := list(_findings(address))):
        yield "endpoint", missing[0]
        return
    endpoint = Endpoint(url, token, named_user(user) if user else None, timeout)
    for area, probe in PROBES.items():
        findings = list(_findings(partial(probe, endpoint)))
        yield from ((f"endpoint, {area}", finding) for finding in findings)
        if area == "handshake" and any(each.level == "error" for each in findings):
            # Whatever answers there, it is not the endpoint.
            return


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

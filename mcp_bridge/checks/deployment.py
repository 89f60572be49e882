"""Checks for ``check --deploy`` and ``mcp_doctor``: whether a site is reachable and works."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections, router
from django.db.migrations.recorder import MigrationRecorder
from django.http.request import validate_host
from django.utils.module_loading import import_string
from rest_framework.authentication import SessionAuthentication
from rest_framework.settings import api_settings

from mcp_bridge.access.policy import served_host
from mcp_bridge.calls.running import begins_with_lock, is_sqlite_file
from mcp_bridge.checks.tools import Databases, awaits_tables
from mcp_bridge.checks.urls import endpoints
from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.registry.linting import lint_list
from mcp_bridge.registry.listing import title_of
from mcp_bridge.registry.registry import registry, unapplied
from mcp_bridge.sources.base import first_line
from mcp_bridge.views import AsyncMCPView

TABLES: Final = "mcp_bridge.E024"
# The optional apps that have tables.
_WITH_TABLES: Final = ("tokens", "oauth", "remote", "tasks")
_PRIVATE_CACHES: Final = ("locmem.LocMemCache", "dummy.DummyCache")
# PRAGMAs with which SQLite rarely waits for the disk, in any spelling (OFF never waits).
_UNHURRIED: Final = ("journal_mode=wal", "synchronous=(normal|off|0|1)")

Messages = Iterator[checks.CheckMessage]


def check_deployment(databases: Databases = None, **kwargs: object) -> list[checks.CheckMessage]:
    """Return messages on settings that are wrong for a public site; queries no database."""
    found = [*_hosts(), *_connections()]
    if conf.LEGACY_ASK:
        effect = "a reply that another worker receives never reaches its call"
        page = f"{DOCUMENTATION}access/elicitation/#earlier-revisions"
        found += _private_cache("mcp_bridge.W093", "LEGACY_ASK is set", effect, page)
    return found if awaits_tables(databases) else [*found, *_sqlite()]


def check_service(databases: Databases = None, **kwargs: object) -> list[checks.CheckMessage]:
    """Return messages if the database or the cache prevents serving or counting callers."""
    if databases is None or check_tables(databases):
        return []
    return [*_tools(), *_callers(), *_counting()]


def check_tables(databases: Databases = None, **kwargs: object) -> list[checks.CheckMessage]:
    """Return an error if migrations are unapplied or cannot be read."""
    waiting_for = lru_cache(unapplied)
    text = missing_tables(waiting_for) if databases else None
    for alias in databases or () if text is None else ():
        # A database without migrations is not for the site's models.
        if (
            connections[alias].vendor != "unknown"
            and (waiting := waiting_for(alias))
            and MigrationRecorder(connections[alias]).applied_migrations()
        ):
            text = f"Unapplied migrations of {alias!r} ({len(waiting)}): {', '.join(waiting[:5])}."
    hint = "Run `manage.py migrate`."
    return [] if text is None else [checks.Error(text, hint=hint, id=TABLES)]


def missing_tables(waiting_for: Callable[[str], list[str]] = unapplied) -> str | None:
    """
    Return a sentence why tables of this package cannot be used, or None.

    ``waiting_for`` returns the unapplied migrations of a database.
    """
    for label in ("mcp_bridge", *(f"mcp_bridge_{each}" for each in _WITH_TABLES)):
        if label not in apps.app_configs:
            continue
        (model, *_) = apps.get_app_config(label).get_models()
        alias = router.db_for_write(model)
        try:
            if any(name.startswith(f"{label}.") for name in waiting_for(alias)):
                return f"Tables of {label} are missing: run `manage.py migrate` first."
        except ImproperlyConfigured:
            # The site does not use a database.
            return None
        except DatabaseError as error:
            text = f"The database {alias!r} cannot be read: {first_line(error)}."
            return f"{text} Check that it is running and the setting DATABASES."
        except Exception as error:
            # The graph covers all apps, and importing a migration may raise anything.
            return (
                f"The site's migrations cannot be read: {first_line(error)}. Fix that "
                "migration; `manage.py migrate` fails with the same error."
            )
    return None


def _hosts() -> Messages:
    """Check ALLOWED_HOSTS, and the settings for a proxy in front of Django."""
    allowed = settings.ALLOWED_HOSTS
    if (allowed or not settings.DEBUG) and not validate_host(served_host(), allowed):
        how = "does not contain a valid host" if allowed else "is empty"
        yield checks.Error(
            f"ALLOWED_HOSTS {how}: every request is refused with an HTML page of status 400.",
            hint="Add the hosts in the addresses that clients use; put an IPv6 address in "
            "brackets: [::1].",
            id="mcp_bridge.E022",
        )
    header = settings.SECURE_PROXY_SSL_HEADER
    if header and not str(header[0]).startswith("HTTP_"):
        name = "HTTP_" + str(header[0]).upper().replace("-", "_")
        yield checks.Error(
            f"SECURE_PROXY_SSL_HEADER names {header[0]!r}, which requests never have: Django "
            "treats every request as plain HTTP, and refuses browsers' origins.",
            hint=f"Use the key in request.META: ({name!r}, {header[1]!r}).",
            id="mcp_bridge.E023",
        )


def _connections() -> Messages:
    """Check that connections are not kept without being reused."""
    for connection in connections.all():
        age = connection.settings_dict["CONN_MAX_AGE"]
        if age != 0 and connection.vendor != "unknown" and _is_async() and not _is_lane():
            yield checks.Warning(
                f"{connection.alias!r} keeps connections (CONN_MAX_AGE is {age}). Under ASGI "
                "Django uses a new thread for each request and never reuses them.",
                hint="Set it to 0 and use connection pooling in the database driver, or serve the "
                "endpoint through the direct lane, which reuses connections "
                f"({DOCUMENTATION}operate/direct-lane/).",
                id="mcp_bridge.W097",
            )


def _is_async() -> bool:
    return any(issubclass(view, AsyncMCPView) for view in endpoints().values())


def _is_lane() -> bool:
    """Return whether ASGI_APPLICATION is the direct lane, or has it as an attribute."""
    with suppress(Exception):
        return bool(import_string(settings.ASGI_APPLICATION).mcp_served)
    return False


def _sqlite() -> Messages:
    """Check the SQLite databases that tools write to, and that of the records."""
    if not all(tool.is_read_only for tool in registry.discovered):
        for alias in sorted({router.db_for_write(model) for model in apps.get_models()}):
            if is_sqlite_file(connections[alias]) and not begins_with_lock(connections[alias]):
                yield checks.Warning(
                    f"The SQLite database {alias!r} begins transactions without a write lock: a "
                    'tool that reads before it writes fails at once with "database is locked" if '
                    "another call wrote in between.",
                    hint=f'Set DATABASES[{alias!r}]["OPTIONS"]["transaction_mode"] = "IMMEDIATE"; '
                    f"see {DOCUMENTATION}start/installation/#sqlite.",
                    id="mcp_bridge.W013",
                )
    alias = router.db_for_write(ToolCallRecord)
    if conf.AUDIT is None or not is_sqlite_file(connections[alias]):
        return
    commands = connections[alias].settings_dict["OPTIONS"].get("init_command")
    given = re.sub(r"\s", "", str(commands or "")).lower()
    if not all(re.search(each, given) for each in _UNHURRIED):
        yield checks.Warning(
            f"The SQLite database {alias!r}, which stores the call log, waits for the disk on "
            "every commit.",
            hint=f'Set DATABASES[{alias!r}]["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL; '
            f'PRAGMA synchronous=NORMAL"; see {DOCUMENTATION}start/installation/#sqlite.',
            id="mcp_bridge.W015",
        )


def _tools() -> Messages:
    """Check that tools are served, that lists are not too long, and that the view suits them."""
    discovered, served = len(registry.discovered.tools), registry.snapshot
    if not served.tools:
        yield checks.Warning(
            f"None of the {discovered} tools in the code is served.",
            hint="`manage.py mcp_tools` lists them, and why they are not served.",
            id="mcp_bridge.W096",
        )
    for name, part in served.lists().items():
        yield from lint_list(title_of(name), len(part.tools), part.tokens())
    own_loops = [tool.name for tool in served.tools.values() if tool.is_async]
    if own_loops and endpoints() and not (_is_async() or _is_lane()):
        yield checks.Info(
            f"Tools are `async def` ({', '.join(own_loops[:5])}), but the endpoint's view is not: "
            "each call of them runs in a separate event loop.",
            hint="If the site is served under ASGI, include mcp_bridge.urls_async.",
            id="mcp_bridge.I004",
        )


def _callers() -> Messages:
    """Check that callers can authenticate, and that anonymous callers are distinguished."""
    classes: list[type[Any]] = [import_string(path) for path in conf.AUTHENTICATION_CLASSES]
    has_public = registry.snapshot.has_public
    if not classes and not has_public:
        yield checks.Error(
            "MCP_BRIDGE['AUTHENTICATION_CLASSES'] is empty and no tool is public: all calls fail.",
            hint="Remove the setting to use the bearer tokens of mcp_bridge.tokens, or add a "
            "DRF authentication class.",
            id="mcp_bridge.E026",
        )
    elif classes and all(issubclass(each, SessionAuthentication) for each in classes):
        yield checks.Warning(
            "Sessions are the only authentication: programs such as Claude Code send no cookies.",
            hint="Add mcp_bridge.tokens.authentication.TokenAuthentication, or another class that "
            "reads the Authorization header, to MCP_BRIDGE['AUTHENTICATION_CLASSES'].",
            id="mcp_bridge.W028",
        )
    elif len(classes) == 1 and classes[0].__module__.startswith("mcp_bridge.tokens"):
        tokens = apps.get_model("mcp_bridge_tokens", "Token")._default_manager
        known = tokens.select_related("user")
        if not has_public and not any(each.is_valid and each.user.is_active for each in known):
            yield checks.Warning(
                "Without a valid token or other authentication, all calls fail.",
                hint='Issue one: `manage.py mcp_token create USERNAME --name "My laptop"`.',
                id="mcp_bridge.W029",
            )
    is_behind = settings.SECURE_PROXY_SSL_HEADER or settings.USE_X_FORWARDED_HOST
    if is_behind and api_settings.NUM_PROXIES is None and has_public:
        yield checks.Info(
            "Anonymous callers are counted by address, which behind a proxy is the proxy's.",
            hint="Set REST_FRAMEWORK['NUM_PROXIES'] to the number of proxies "
            f"({DOCUMENTATION}access/throttling/).",
            id="mcp_bridge.I005",
        )


def _private_cache(id: str, use: str, effect: str, page: str) -> Messages:
    """Check that workers share the default cache, if something uses it."""
    kind = str(settings.CACHES["default"]["BACKEND"])
    if kind.endswith(_PRIVATE_CACHES):
        yield checks.Warning(
            f"{use}, but the default cache is {kind.rpartition('.')[2]}: {effect}.",
            hint="Set CACHES['default'] to a cache that all workers share, such as Redis "
            f"({page}). With a single worker, LocMemCache is enough.",
            id=id,
        )


def _counting() -> Messages:
    """Check the cache in which calls are counted."""
    rates = [rate for rate in conf.THROTTLE_RATES.values() if rate]
    rates += [tool.rate or tool.options.throttle or "" for tool in registry.snapshot]
    if any(rates):
        effect = "each worker counts alone, or not at all, so callers can exceed their rates"
        page = f"{DOCUMENTATION}access/throttling/"
        yield from _private_cache("mcp_bridge.W098", "Tools have rates", effect, page)
    try:
        cache.set("mcp_bridge.doctor", 1, timeout=1)
    except Exception as exception:
        yield checks.Error(
            f"The default cache is not writable ({type(exception).__name__}: {exception}): calls "
            f"are handled by THROTTLE_WITHOUT_CACHE ({conf.THROTTLE_WITHOUT_CACHE!r}).",
            hint="Start the cache, and check CACHES['default'].",
            id="mcp_bridge.E025",
        )

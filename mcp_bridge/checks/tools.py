"""Checks of the tools that the sources found, their permissions and their throttles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Final
from urllib.parse import parse_qs, urlsplit

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_permission_codename, get_user_model
from django.core import checks
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.models import Count, Max
from django.utils import timezone
from django.utils.module_loading import import_string
from rest_framework.throttling import BaseThrottle, ScopedRateThrottle, SimpleRateThrottle

from mcp_bridge.access.throttling import EVERY_TOOL, ToolRateThrottle, make_throttle
from mcp_bridge.calls.running import LONG, is_sqlite_file
from mcp_bridge.checks.settings import did_you_mean
from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.features import Tool
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.linting import lint
from mcp_bridge.registry.listing import unmatched
from mcp_bridge.registry.registry import Snapshot, has_database, is_migrated, registry

_REDIS: Final = ("django.core.cache.backends.redis.RedisCache", "django_redis.cache.RedisCache")
_RECENT: Final = timedelta(days=7)

# The databases that a command selects (Django, "Database checks"); others are not queried.
Databases = Sequence[str] | None

logger = get_logger("mcp_bridge.checks")


def check_tools(databases: Databases = None, **kwargs: object) -> list[checks.CheckMessage]:
    """Return the problems of all tools, including those that sources omitted."""
    if awaits_tables(databases):
        return []
    # Read again, and kept for the requests that follow.
    registry.reload()
    tools = registry.discovered
    return [
        *tools.messages,
        *_permissions(tools),
        # Infos are shown by `mcp_tools --lint`, not on each start of the site.
        *(each for tool in tools for each in lint(tool) if each.level > checks.INFO),
        *_throttles(tools),
        *_toolsets(tools),
        *_tasks(tools),
        *(_locks(tools.tools.values()) if databases and has_database() else ()),
    ]


def awaits_tables(databases: Databases) -> bool:
    """Return whether tools cannot be built yet, since tables for their types may be missing."""
    # Commands that select databases: migrate, and all others from Django 6.1 on.
    if not (databases and has_database()):
        return False
    using = router.db_for_write(ToolSetting)
    try:
        return using not in databases or not is_migrated(using)
    except Exception:
        # An unreadable database or migration also stops migrate.
        logger.debug("Cannot determine whether migrations are unapplied", exc_info=True)
        return False


def _permissions(tools: Snapshot) -> Iterator[checks.CheckMessage]:
    """Warn of permissions that ``migrate`` does not create; queries no database."""
    declared: set[str] = set()
    for options in (model._meta for model in apps.get_models()):
        actions = (get_permission_codename(each, options) for each in options.default_permissions)
        codenames = [*actions, *(codename for codename, _ in options.permissions)]
        declared.update(f"{options.app_label}.{codename}" for codename in codenames)
    labels = {config.label for config in apps.get_app_configs()}
    asking = sorted(tool.name for tool in tools if tool.access.permissions)
    user_model = get_user_model()
    if asking and not hasattr(user_model, "has_perm"):
        yield checks.Warning(
            f"{user_model._meta.label} lacks has_perm(), so users lack all permissions, and "
            f"the tools {cut(', '.join(asking), 300)} cannot be called.",
            hint="Add django.contrib.auth.models.PermissionsMixin or a has_perm() method to the "
            "user model.",
            id="mcp_bridge.W025",
        )
    asked = [
        (f"The {it.kind} {it.name!r} ({it.source}) requires the permission", p, "mcp_bridge.W011")
        for it in tools
        for p in it.access.permissions
    ]
    if conf.DISCOVERY_PERMISSION is not None:
        setting = "MCP_BRIDGE['DISCOVERY_PERMISSION'] is"
        asked.append((setting, conf.DISCOVERY_PERMISSION, "mcp_bridge.W099"))
    for subject, permission, id in asked:
        if permission not in declared:
            label, dot, _ = permission.partition(".")
            if not dot:
                why = "which lacks an app label"
            elif label not in labels:
                why = f"but {label!r} is not the label of an installed app"
            else:
                why = f"which no model declares in the app {label!r}"
            yield checks.Warning(
                f"{subject} {permission!r}, {why}: unless it was created by hand, only superusers "
                "have it.",
                hint=f"{_nearest(permission, declared)} Use app_label.codename of a permission "
                "that a model declares (in Meta, or by default: add, change, delete, view). If "
                "permissions are created at run time, add "
                f"{id} to SILENCED_SYSTEM_CHECKS.".lstrip(),
                id=id,
            )


def _toolsets(tools: Snapshot) -> Iterator[checks.CheckMessage]:
    """Warn of names in TOOLSETS that do not match a tool."""
    # Including candidates, which may not be enabled yet.
    aliases = {tool.name: tool.source_alias for tool in (*tools.candidates.values(), *tools)}
    known = [*aliases, *(f"source:{alias}" for alias in conf.sources)]
    for name, options in conf.toolsets.items():
        for pattern in unmatched(options, aliases.items()):
            meant = did_you_mean(pattern, known)
            yield checks.Warning(
                f"MCP_BRIDGE['TOOLSETS'][{name!r}] contains {pattern!r}, which does not match any "
                "tool.",
                hint=f"{meant} Use a tool's name as `manage.py mcp_tools` lists it, a pattern "
                "such as 'articles_*', or 'source:' and a key of SOURCES.".lstrip(),
                id="mcp_bridge.W095",
            )


def _tasks(tools: Snapshot) -> Iterator[checks.CheckMessage]:
    """Check that tools that may run as tasks can."""
    names = sorted(tool.name for tool in tools if tool.options.task)
    if names and not apps.is_installed("mcp_bridge.tasks"):
        yield checks.Error(
            f"Tools have task=, but mcp_bridge.tasks is not installed: {cut(', '.join(names), 300)}"
            ". Their calls run inside their requests; with task='required' all are refused.",
            hint="Add 'mcp_bridge.tasks' to INSTALLED_APPS "
            f"({DOCUMENTATION}tools/tasks/#install), or remove task=.",
            id="mcp_bridge.E029",
        )


def _nearest(permission: str, declared: set[str]) -> str:
    """Return a question with a similar permission, preferably of the same app, or ""."""
    label, codename = permission.partition(".")[0], permission.rpartition(".")[2]
    for names in ({each for each in declared if each.startswith(f"{label}.")}, declared):
        known = {each.partition(".")[2]: each for each in sorted(names)}
        if close := get_close_matches(codename, known, n=1, cutoff=0.8):
            return f" Did you mean {known[close[0]]!r}?"
    return ""


def _throttles(tools: Snapshot) -> Iterator[checks.CheckMessage]:
    """Check throttle classes and, if all are usable, the rates of settings and marks."""
    errors = [(path, text) for path in conf.THROTTLE_CLASSES if (text := _class_error(path))]
    for path, text in errors:
        yield checks.Error(
            f"MCP_BRIDGE['THROTTLE_CLASSES'] contains {path!r}, which {text}.",
            hint="Use the path of a DRF throttle class, and set a rate for its scope in "
            "MCP_BRIDGE['THROTTLE_RATES'].",
            id="mcp_bridge.E020",
        )
    if errors:
        return
    classes: list[type[BaseThrottle]] = list(map(import_string, conf.THROTTLE_CLASSES))
    rates, marks = conf.THROTTLE_RATES, {tool.options.throttle for tool in tools}
    names = {EVERY_TOOL, *(tool.name for tool in tools)}
    yield from _unset_rates(tools)
    # A ScopedRateThrottle takes its scopes from views, which are unknown here.
    if not any(issubclass(each, ScopedRateThrottle) for each in classes):
        known = names | marks | {getattr(each, "scope", None) for each in classes}
        for name in filter(lambda name: name not in known, rates):
            yield checks.Warning(
                f"MCP_BRIDGE['THROTTLE_RATES'] contains {name!r}, which is not a tool, a rate in a "
                "mark, or the scope of a class in THROTTLE_CLASSES.",
                hint="`manage.py mcp_tools` lists the names of tools.",
                id="mcp_bridge.W020",
            )
    rated = any(marks) or not names.isdisjoint(rates)
    counts = [issubclass(each, ToolRateThrottle) for each in classes]
    if rated and not any(counts):
        yield checks.Warning(
            "Rates of tools are not enforced: THROTTLE_CLASSES lacks a ToolRateThrottle.",
            hint="Add mcp_bridge.access.throttling.ToolRateThrottle to "
            "MCP_BRIDGE['THROTTLE_CLASSES'].",
            id="mcp_bridge.W021",
        )
    if (rated or not all(counts)) and _may_hang():
        yield checks.Warning(
            "Calls are counted in a Redis without a timeout: if it hangs, every call hangs.",
            hint="Set socket_timeout and socket_connect_timeout in CACHES['default']['OPTIONS'] "
            f"to 0.3 seconds; see {DOCUMENTATION}access/throttling/#the-cache.",
            id="mcp_bridge.W022",
        )


def _class_error(path: str) -> str | None:
    """Return the problem with a path in THROTTLE_CLASSES, or None."""
    try:
        if not issubclass(found := import_string(path), BaseThrottle):
            return "is not a subclass of BaseThrottle"
        throttle = make_throttle(found)
    except Exception as exception:
        return f"cannot be used ({type(exception).__name__}: {exception})"
    scoped = isinstance(throttle, ScopedRateThrottle)
    if isinstance(throttle, SimpleRateThrottle) and not scoped and throttle.rate is None:
        return f"has no effect: its scope {throttle.scope!r} lacks a rate"
    return None


def _unset_rates(tools: Snapshot) -> Iterator[checks.Error]:
    """Yield errors for marks that name a rate which THROTTLE_RATES lacks."""
    for tool in tools:
        name = tool.options.throttle
        if not name or "/" in name or name in conf.THROTTLE_RATES:
            continue
        hint = f'Add {name!r} to it, or use a rate in the mark: mcp_tool(throttle="20/min").'
        if re.search(r"[\d\s]", name):
            hint = (
                f"{name!r} is not a rate, so it is read as a name. Use a number, a slash and s, "
                'min, hour or day: mcp_tool(throttle="20/min"). If it is a name, add a rate for '
                "it."
            )
        yield checks.Error(
            f"The {tool.kind} {tool.name!r} ({tool.source}) uses the rate {name!r}, which is not "
            "in MCP_BRIDGE['THROTTLE_RATES']: every call of it fails.",
            hint=hint,
            id="mcp_bridge.E021",
        )


def _may_hang() -> bool:
    """Return whether the default cache is a Redis without a socket timeout."""
    config = settings.CACHES.get("default", {})
    if config.get("BACKEND") not in _REDIS:
        return False
    given = {name.lower() for name in config.get("OPTIONS", {})}
    location = config.get("LOCATION", "")
    address = location if isinstance(location, str) else next(iter(location), "")
    return "socket_timeout" not in given | parse_qs(urlsplit(address).query).keys()


def _locks(tools: Iterable[Tool]) -> Iterator[checks.CheckMessage]:
    """Warn of writing tools with recent slow calls in a transaction on SQLite."""
    if not is_sqlite_file(connections[DEFAULT_DB_ALIAS]):
        return
    locking = {
        tool.name: tool
        for tool in tools
        if not (tool.is_read_only or tool.options.task or DEFAULT_DB_ALIAS in tool.non_atomic)
    }
    records = ToolCallRecord.objects.using(router.db_for_read(ToolCallRecord)).filter(
        started_at__gte=timezone.now() - _RECENT,
        duration_ms__gte=LONG * 1000,
        tool__in=list(locking),
    )
    found = records.order_by().values("tool").annotate(most=Max("duration_ms"), calls=Count("pk"))
    for row in found.order_by("tool"):
        yield checks.Warning(
            f"The tool {row['tool']!r} ({locking[row['tool']].source}) took up to "
            f"{row['most'] / 1000:.1f} s in a transaction ({row['calls']} of its calls in the last "
            f"7 days took more than {LONG:g} s), which blocks all other writes to the SQLite "
            f"database {DEFAULT_DB_ALIAS!r}.",
            hint="Apply django.db.transaction.non_atomic_requests to it and write in short "
            f"transactions; see {DOCUMENTATION}tools/transactions/.",
            id="mcp_bridge.W016",
        )

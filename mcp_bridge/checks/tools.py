"""Checks of the tools that the sources found (W011), and of what they run on (W013)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from django.apps import AppConfig, apps
from django.contrib.auth import get_permission_codename
from django.core import checks
from django.db import connections, router

from mcp_bridge.checks.settings import check_settings
from mcp_bridge.checks.throttling import throttling
from mcp_bridge.features import Tool
from mcp_bridge.registry.linting import lint
from mcp_bridge.registry.registry import registry

# The modes of SQLite's BEGIN that take the lock for writing with it.
_WRITING: Final = ("IMMEDIATE", "EXCLUSIVE")


def check_tools(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: object
) -> list[checks.CheckMessage]:
    """Return what is wrong with the tools, those that the sources left out included."""
    if check_settings():
        # A wrong setting can stop the sources from being read at all; it is reported by itself.
        return []
    # Read anew, and kept for the requests that follow.
    registry.reload()
    snapshot = registry.discovered
    return [
        *snapshot.messages,
        *_permissions(snapshot),
        *lint_messages(snapshot),
        *throttling(snapshot),
        *_transactions(snapshot),
    ]


def lint_messages(tools: Iterable[Tool], *, minor: bool = False) -> Iterator[checks.CheckMessage]:
    """Yield the linter's findings as warnings; with ``minor``, the minor ones too, as infos."""
    for tool in tools:
        for finding in lint(tool):
            rule = finding.rule
            if minor or not rule.is_minor:
                kind = checks.Info if rule.is_minor else checks.Warning
                yield kind(finding.message, hint=rule.hint, id=rule.id)


def _permissions(tools: Iterable[Tool]) -> Iterator[checks.CheckMessage]:
    """Warn of permissions of marks that ``migrate`` does not make, computed without a database."""
    declared: set[str] = set()
    for options in (model._meta for model in apps.get_models()):
        actions = (get_permission_codename(each, options) for each in options.default_permissions)
        codenames = [*actions, *(codename for codename, _ in options.permissions)]
        declared.update(f"{options.app_label}.{codename}" for codename in codenames)
    labels = {config.label for config in apps.get_app_configs()}
    for tool in tools:
        for permission in tool.access.permissions:
            if permission in declared:
                continue
            label, dot, _ = permission.partition(".")
            if not dot:
                why = "which has no app label"
            elif label not in labels:
                why = f"but {label!r} is no installed app's label"
            else:
                why = f"which no model declares in the app {label!r}"
            yield checks.Warning(
                f"The tool {tool.name!r} ({tool.source}) asks for the permission {permission!r}, "
                f"{why}: where nobody has made it by hand, only superusers have it.",
                hint=f"{_nearest(permission, declared)}Give app_label.codename of a permission "
                "that a model declares (in Meta, or by default: add, change, delete, view). Where "
                "permissions are made at run time, name mcp_bridge.W011 in SILENCED_SYSTEM_CHECKS.",
                id="mcp_bridge.W011",
            )


def _nearest(permission: str, declared: set[str]) -> str:
    """Return a question whether a similar permission was meant, one of the same app if it can."""
    label, codename = permission.partition(".")[0], permission.rpartition(".")[2]
    own = {name for name in declared if name.startswith(f"{label}.")}
    for names in (own, declared):
        pool = {name.partition(".")[2]: name for name in sorted(names)}
        for match in get_close_matches(codename, pool, n=1, cutoff=0.8):
            return f"Did you mean {pool[match]!r}? "
    return ""


def _transactions(tools: Iterable[Tool]) -> Iterator[checks.CheckMessage]:
    """Warn of SQLite databases in which tools that read and then write fail under concurrency."""
    if all(tool.annotations.get("readOnlyHint") for tool in tools):
        return
    for alias in sorted({router.db_for_write(model) for model in apps.get_models()}):
        connection = connections[alias]
        mode = str(connection.settings_dict["OPTIONS"].get("transaction_mode")).upper()
        in_memory = re.search(":memory:|mode=memory", str(connection.settings_dict["NAME"]))
        if connection.vendor == "sqlite" and not in_memory and mode not in _WRITING:
            yield checks.Warning(
                f"The SQLite database {alias!r} begins transactions without a lock for writing: a "
                'tool that first reads and then writes fails at once with "database is locked" '
                "where another call has written in between.",
                hint=f'Set DATABASES[{alias!r}]["OPTIONS"]["transaction_mode"] = "IMMEDIATE"; see '
                "docs/installation.md.",
                id="mcp_bridge.W013",
            )

"""System checks of tasks: the backend that queues them, and the transactions of their tools."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from django.core import checks
from django.db import connections

from mcp_bridge.checks.settings import check_settings
from mcp_bridge.checks.tools import Databases, awaits_tables
from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.registry import registry
from mcp_bridge.sources.base import first_line
from mcp_bridge.tasks.models import PACKAGE, QUEUE

Messages = Sequence[checks.CheckMessage]

_WITH_WORKERS: Final = (
    "Use a backend with workers, such as django_tasks_db.DatabaseBackend "
    f"({DOCUMENTATION}tools/tasks/#install)."
)


def check_tasks(databases: Databases = None, **options: Any) -> Messages:
    """Check the backend of TASK_BACKEND, and the tools that run as tasks."""
    if check_settings():
        return []
    if find_spec(PACKAGE) is None:
        text = f"mcp_bridge.tasks requires a package that is missing: {PACKAGE}."
        hint = "Run pip install 'django-mcp-bridge[tasks]'."
        return [checks.Error(text, hint=hint, id="mcp_bridge.E110")]
    alias = conf.TASK_BACKEND
    try:
        backend = _backend()
    except Exception as why:
        # The class of a backend may raise anything.
        text = f"MCP_BRIDGE['TASK_BACKEND'] is {alias!r}, which cannot be used: {first_line(why)}."
        hint = f"Add {alias!r} to the setting TASKS, or use another one of its keys."
        return [checks.Error(text, hint=hint, id="mcp_bridge.E111")]
    found: list[checks.CheckMessage] = []
    # Without any, a backend accepts all.
    if backend.queues and QUEUE not in backend.queues:
        text = f"The backend {alias!r} of TASKS does not have the queue {QUEUE!r}."
        hint = f"Add {QUEUE!r} to TASKS[{alias!r}]['QUEUES'], and start a worker for it."
        found.append(checks.Error(text, hint=hint, id="mcp_bridge.E112"))
    if _is(backend, "ImmediateBackend"):
        text = f"The backend {alias!r} of TASKS runs each tool inside the request that queues it."
        found.append(checks.Warning(text, hint=_WITH_WORKERS, id="mcp_bridge.W110"))
    if _is(backend, "DummyBackend"):
        text = f"The backend {alias!r} of TASKS is for tests: it never runs a task."
        found.append(checks.Warning(text, hint=_WITH_WORKERS, id="mcp_bridge.W111"))
    return found if awaits_tables(databases) else [*found, *_transactions()]


def _backend() -> Any:
    """Return the backend of TASK_BACKEND. Raises any exception if it cannot be used."""
    return import_module(PACKAGE).task_backends[conf.TASK_BACKEND]


def _is(backend: object, name: str) -> bool:
    """Return whether a backend is one of Django's, or of the backport's, classes of this name."""
    return any(each.__name__ == name for each in type(backend).__mro__)


def _transactions() -> Messages:
    """Warn of tools without the transaction that ATOMIC_REQUESTS promises."""
    atomic = sorted(
        alias for alias, each in connections.settings.items() if each.get("ATOMIC_REQUESTS")
    )
    # The tools are read only if that matters.
    found = registry.discovered if atomic else ()
    names = sorted(tool.name for tool in found if tool.options.task)
    if not names:
        return []
    text = (
        f"ATOMIC_REQUESTS is on for {', '.join(map(repr, atomic))}, but tools with task= run "
        f"without a transaction around them: {cut(', '.join(names), 300)}."
    )
    hint = (
        "Write inside transaction.atomic() in these tools, and add mcp_bridge.W112 to "
        f"SILENCED_SYSTEM_CHECKS ({DOCUMENTATION}tools/tasks/#write-the-tool)."
    )
    return [checks.Warning(text, hint=hint, id="mcp_bridge.W112")]

"""A site that offers everything that the official conformance suite calls for, and no more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import django

from tests.support.site_settings import *  # noqa: F403
from tests.support.site_settings import INSTALLED_APPS as APPS

# The names of a local site: a rebound DNS name comes with another Host, and an Origin that agrees
# with it (scenario dns-rebinding-protection).
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "tests.conformance.urls"
TIME_ZONE = "UTC"
INSTALLED_APPS = [
    "modernrpc",
    *APPS,
    "mcp_bridge.ext.skills",
    "mcp_bridge.tasks",
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "django_tasks_db",
]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": ["default", "mcp"]}}
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("CONFORMANCE_DATABASE", ":memory:"),
        # Workers write as well.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL",
        },
    }
}
if "CONFORMANCE_POSTGRESQL" in os.environ:
    import dj_database_url

    DATABASES["default"] = dict(dj_database_url.parse(os.environ["CONFORMANCE_POSTGRESQL"]))
# The answers of legacy clients reach any process.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": os.environ.get("CONFORMANCE_CACHE", "unused"),
    }
}

MCP_BRIDGE = {
    "SKILLS": {
        "greet-people": {"path": Path(__file__).parent / "skills/greet-people", "public": True}
    },
    # A change is seen while the suite listens for it.
    "STATE_MAX_AGE": 0.1,
    "LEGACY_ASK": 20,
    "SERVER_INFO": {"name": "conformance", "version": "1.0.0"},
    "INSTRUCTIONS": "Every tool here exists for one check of the conformance suite.",
}

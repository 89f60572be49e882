"""Settings of a site whose server runs in a separate process."""

from __future__ import annotations

import json
import os

from testproject.settings import *  # noqa: F403

ROOT_URLCONF = "tests.processes.served_site"
WSGI_APPLICATION = "tests.processes.served_site.wsgi"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["SERVED_DATABASE"],
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 60,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    }
}
if "SERVED_OPTIONS" in os.environ:
    DATABASES["default"]["OPTIONS"] = json.loads(os.environ["SERVED_OPTIONS"])
MCP_BRIDGE = {
    "ALLOW_ANONYMOUS": True,
    "REMOTE_ALLOWED_HOSTS": os.environ.get("SERVED_REMOTE", "").split(),
}
if "SERVED_CALLS" in os.environ:
    # All clients of a test are one caller.
    calls = int(os.environ["SERVED_CALLS"])
    MCP_BRIDGE |= {"MAX_CONCURRENT_CALLS": calls, "MAX_PROCESS_CALLS": calls}
if "SERVED_HEARTBEAT" in os.environ:
    MCP_BRIDGE["PROGRESS_HEARTBEAT"] = float(os.environ["SERVED_HEARTBEAT"])
if "SERVED_ASK" in os.environ:
    MCP_BRIDGE["LEGACY_ASK"] = float(os.environ["SERVED_ASK"])
    MCP_BRIDGE["LEGACY_ASK_THREADS"] = int(os.environ.get("SERVED_THREADS", "12"))
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
            "LOCATION": f"{os.environ['SERVED_DATABASE']}.cache",
        }
    }
SILENCED_SYSTEM_CHECKS = ["mcp_bridge.W033", "mcp_bridge.W035"]

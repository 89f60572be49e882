"""
The settings of one server: which contestant, in which mode, with how many tools.

They differ in nothing else. No sessions, connections to the database kept open: what is left is the
contestant.
"""

from __future__ import annotations

import json
import os
from typing import Any

SITE = os.environ["BENCHMARK_SITE"]
PUBLIC = os.environ["BENCHMARK_MODE"] == "anonymous"
# Whether each tool that only fills the list asks for a permission of its own.
PERMISSIONS = os.environ["BENCHMARK_MODE"] == "permissions"
TOOLS = int(os.environ["BENCHMARK_TOOLS"])
ASYNC = "BENCHMARK_ASYNC" in os.environ
# What the empty views write and read JSON with.
JSON = os.environ.get("BENCHMARK_JSON", "orjson")
# A file with the definitions that the empty views list.
DEFINITIONS = os.environ.get("BENCHMARK_DEFINITIONS", "")

SECRET_KEY = "only for the benchmark, and long enough"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
BRIDGE = SITE in ("bridge", "lane")
ROOT_URLCONF = os.environ.get(
    "BENCHMARK_URLCONF", f"benchmarks.site.{'bridge' if SITE == 'lane' else SITE}"
)
# It adds Content-Length, without which gunicorn would send chunks, at the cost of further writes.
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "benchmarks.site",
    *(["modernrpc", "rest_framework", "mcp_bridge", "mcp_bridge.tokens"] if BRIDGE else []),
    *(["django_mcpz.bearer_tokens"] if SITE == "mcpz" else []),
    *(["django_bolt"] if SITE == "bolt" else []),
]
BOLT_API = ["benchmarks.site.bolt:api"]


def database(place: str) -> dict[str, Any]:
    """A file of SQLite, as docs/project/performance.md advises or by its defaults, or PostgreSQL's URL."""
    if "://" in place:
        from psycopg.conninfo import conninfo_to_dict

        found = conninfo_to_dict(place)
        keys = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host"}
        keys["PORT"] = "port"
        values = {key: found.get(name, "") for key, name in keys.items()}
        return {"ENGINE": "django.db.backends.postgresql", **values}
    options = {
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    }
    if os.environ.get("BENCHMARK_SQLITE") == "default":
        options = {}
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": place, "OPTIONS": options}


DATABASES = {"default": {**database(os.environ["BENCHMARK_DATABASE"]), "CONN_MAX_AGE": None}}
MCP_BRIDGE = {
    "SERVER_INFO": {"name": "benchmark", "version": "1.0"},
    **json.loads(os.environ.get("BENCHMARK_BRIDGE", "{}")),
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

"""
The settings of one server: which contestant, in which mode, with how many tools.

They differ in nothing else. No sessions, connections to the database kept open: what is left is the
contestant.
"""

from __future__ import annotations

import os

CONTESTANT = os.environ["BENCHMARK_CONTESTANT"]
PUBLIC = os.environ["BENCHMARK_MODE"] == "anonymous"
TOOLS = int(os.environ["BENCHMARK_TOOLS"])

SECRET_KEY = "only for the benchmark"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = f"benchmarks.site.{CONTESTANT}"
# It adds Content-Length, without which gunicorn would send chunks, at the cost of further writes.
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    *{
        "floor": ["benchmarks.site"],
        "mcpz": ["django_mcpz.bearer_tokens"],
        "bridge": ["modernrpc", "rest_framework", "mcp_bridge", "mcp_bridge.tokens"],
    }[CONTESTANT],
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["BENCHMARK_DATABASE"],
        "CONN_MAX_AGE": None,
    }
}
# Nothing that is measured beside it keeps a record of calls.
MCP_BRIDGE = {"SERVER_INFO": {"name": "benchmark", "version": "1.0"}, "AUDIT": None}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

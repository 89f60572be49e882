"""The site of fault tools, on a separate database."""

from __future__ import annotations

import os

from tests.hostile.logs import logging_to
from tests.support.site_settings import *  # noqa: F403

DEBUG = os.environ.get("HOSTILE_DEBUG") == "1"
ROOT_URLCONF = "tests.hostile.urls"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["HOSTILE_DATABASE"],
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
LOGGING = logging_to(os.environ["HOSTILE_LOG"])
FUNCTIONS = "mcp_bridge.sources.functions.FunctionSource"
MODULES = [f"tests.hostile.{name}" for name in ("probes", "faults", "many")]
MCP_BRIDGE = {"SOURCES": {"functions": {"BACKEND": FUNCTIONS, "OPTIONS": {"modules": MODULES}}}}

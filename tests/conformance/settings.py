"""A site that offers everything that the official conformance suite calls for, and no more."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.site_settings import *  # noqa: F403
from tests.support.site_settings import INSTALLED_APPS as APPS

# The names of a local site: a rebound DNS name comes with another Host, and an Origin that agrees
# with it (scenario dns-rebinding-protection).
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "tests.conformance.urls"
TIME_ZONE = "UTC"
INSTALLED_APPS = ["modernrpc", *APPS, "mcp_bridge.ext.skills"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("CONFORMANCE_DATABASE", ":memory:"),
    }
}
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

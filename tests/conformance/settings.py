"""A site that offers what the official conformance suite calls for, and nothing else."""

from __future__ import annotations

import os

SECRET_KEY = "the conformance site keeps no secrets"
DEBUG = False
# The names a local site answers to: a rebound DNS name comes with a Host of its own, and an Origin
# that agrees with it (scenario dns-rebinding-protection).
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "tests.conformance.urls"
WSGI_APPLICATION = "tests.conformance.wsgi.application"
TIME_ZONE = "UTC"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "modernrpc",
    "rest_framework",
    "mcp_bridge",
    "mcp_bridge.tokens",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("CONFORMANCE_DATABASE", ":memory:"),
    }
}

MCP_BRIDGE = {
    "SERVER_INFO": {"name": "conformance", "version": "1.0.0"},
    "INSTRUCTIONS": "Every tool here exists for one check of the conformance suite.",
}

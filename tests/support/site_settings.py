"""Settings of a site that has the bridge and little else; a site adds its database and its URLs."""

from __future__ import annotations

SECRET_KEY = "the sites of the tests keep no secrets"
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "rest_framework",
    "mcp_bridge",
    "mcp_bridge.tokens",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
]

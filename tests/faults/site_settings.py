"""Settings of a site whose database and cache fail."""

from __future__ import annotations

import json
import os

import django

from tests.support.site_settings import *  # noqa: F403
from tests.support.site_settings import INSTALLED_APPS

DEBUG = "FAULTS_DEBUG" in os.environ
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
ROOT_URLCONF = "tests.faults.site"
MIDDLEWARE = []
INSTALLED_APPS += [
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    *("django_tasks_db", "mcp_bridge.tasks"),
]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": ["default", "mcp"]}}
DATABASES = {"default": json.loads(os.environ["FAULTS_DATABASE"])}
if "FAULTS_CACHE" in os.environ:
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": os.environ["FAULTS_CACHE"],
            "OPTIONS": {"socket_timeout": 0.3, "socket_connect_timeout": 0.3},
        }
    }
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
MCP_BRIDGE = {
    "SOURCES": {
        "functions": {
            "BACKEND": "mcp_bridge.sources.functions.FunctionSource",
            "OPTIONS": {"modules": ["tests.faults.tools"]},
        }
    },
    "ALLOW_ANONYMOUS": True,
    **json.loads(os.environ.get("FAULTS_OPTIONS", "{}")),
}

if "FAULTS_LOGGING" in os.environ:
    KIND = os.environ["FAULTS_LOGGING"]
    HANDLERS = {
        "full disk": {"class": "logging.FileHandler", "filename": "/dev/full"},
        "handler that raises": {"class": "tests.faults.failing_handler.RaisingHandler"},
    }
    # The second handles the bridge's logs alone: Django and asyncio cannot bear one that raises.
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"failing": HANDLERS[KIND]},
        "loggers": {
            "" if KIND == "full disk" else "mcp_bridge": {"handlers": ["failing"], "level": "DEBUG"}
        },
    }

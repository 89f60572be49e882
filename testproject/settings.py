"""Settings of the newsroom: a small site on SQLite, for the demo and the tests."""

from __future__ import annotations

import os
from pathlib import Path

import django

from testproject.authorization import authorization
from testproject.newsroom.archive import with_archive
from testproject.newsroom.weather.source import weather_source

BASE_DIR = Path(__file__).resolve().parent.parent

# For this demonstration only: a site of your own keeps its key secret.
SECRET_KEY = "newsroom-demonstration-only"
DEBUG = os.environ.get("DJANGO_DEBUG") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "modernrpc",
    "rest_framework",
    "mcp_bridge",
    "mcp_bridge.tokens",
    "oauth2_provider",
    "mcp_bridge.oauth",
    "mcp_bridge.remote",
    "mcp_bridge.tasks",
    # Django 6.0 and later have the first one built in.
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "django_tasks_db",
    "mcp_bridge.ext.grpc",
    "mcp_bridge.ext.openapi",
    "mcp_bridge.ext.skills",
    "testproject.newsroom",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "testproject.urls"
WSGI_APPLICATION = "testproject.wsgi.application"
ASGI_APPLICATION = "testproject.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES: dict[str, dict[str, object]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("NEWSROOM_DATABASE", BASE_DIR / "db.sqlite3"),
        # A transaction that reads first and writes later would otherwise fail at once with
        # "database is locked" when another thread has written in between.
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    },
}
if "MCP_BRIDGE_TEST_DATABASE_URL" in os.environ:
    import dj_database_url

    DATABASES["default"] = dict(dj_database_url.parse(os.environ["MCP_BRIDGE_TEST_DATABASE_URL"]))
if "MCP_BRIDGE_TEST_FILE" in os.environ:
    # The tests' database is in a file, so that other connections write to it.
    DATABASES["default"]["TEST"] = {"NAME": os.environ["MCP_BRIDGE_TEST_FILE"]}
if "MCP_BRIDGE_TEST_CACHE_URL" in os.environ:
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": os.environ["MCP_BRIDGE_TEST_CACHE_URL"],
            # redis-py would wait five seconds for a server that hangs.
            "OPTIONS": {"socket_timeout": 0.3, "socket_connect_timeout": 0.3},
        }
    }
# A worker takes the tasks: manage.py db_worker --queue-name mcp
TASKS = {
    "default": {
        "BACKEND": "django_tasks_db.DatabaseBackend",
        "QUEUES": ["default", "mcp"],
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"

# Where matplotlib draws its first chart, it says that it is looking for fonts.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {"matplotlib": {"level": "ERROR"}},
}

# The results of procedures are dataclasses and content blocks, which plain JSON does not know.
MODERNRPC_JSON_SERIALIZER = {"class": "testproject.newsroom.encoding.RpcJsonSerializer"}

# So that what @extend_schema says of a view is told.
REST_FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}

SOURCES: dict[str, object] = {
    "functions": {
        "OPTIONS": {"modules": ["testproject.newsroom.style", "testproject.newsroom.prompts"]}
    },
    # An API whose views are marked.
    "api": {"BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource"},
    # One whose code is left as it is.
    "moderation": {
        "BACKEND": "mcp_bridge.sources.ninja.NinjaSource",
        "OPTIONS": {
            "operations": {
                "moderation_comments": {
                    "title": "Comments to look after",
                    "permissions": "newsroom.change_comment",
                    "scopes": "news:read",
                },
                "moderation_hide": {
                    "title": "Hide a comment, or show it again",
                    "destructive": False,
                    "permissions": "newsroom.change_comment",
                    "scopes": "news:write",
                },
            }
        },
    },
}
# The pages of the admin, for editors and administrators.
SOURCES["admin"] = {
    "BACKEND": "mcp_bridge.sources.admin.AdminSource",
    "OPTIONS": {
        "operations": {
            "newsroom.article.find": {"scopes": "news:read"},
            "newsroom.article.get": {"scopes": "news:read"},
            "newsroom.article.history": {"scopes": "news:read"},
            "newsroom.article.change": {"scopes": "news:write", "confirm": True},
            "newsroom.article.publish": {"scopes": "news:write"},
        }
    },
}
# Such as http://127.0.0.1:8100: where another system of the newsroom's tells the weather.
if "NEWSROOM_WEATHER_URL" in os.environ:
    SOURCES["weather"] = weather_source(os.environ["NEWSROOM_WEATHER_URL"])
MCP_BRIDGE = {
    "SKILLS": {"edit-an-article": {"permissions": "newsroom.view_article", "scopes": "news:read"}},
    "SERVER_INFO": {"name": "newsroom", "version": "1.0"},
    "AUDIT": {"ARGUMENTS": "redacted"},
    "SOURCES": SOURCES,
    "INSTRUCTIONS": (
        "The editorial system of a small newspaper. Articles go from draft to review to "
        "published. Find an article's slug with articles_search or articles_list; every other "
        "tool for articles takes that slug."
    ),
}

# Such as 127.0.0.1:50051: the methods of the archive are tools where its service runs.
if "NEWSROOM_ARCHIVE" in os.environ:
    MCP_BRIDGE = with_archive(MCP_BRIDGE, os.environ["NEWSROOM_ARCHIVE"])

# Registered when Django starts, which is before "manage.py demo" has an address.
OAUTH2_PROVIDER = {"APPLICATION_ADMIN_CLASS": "mcp_bridge.oauth.admin.ClientAdmin"}
# Such as http://127.0.0.1:8000: clients can log in to a newsroom that knows where it is served.
if "NEWSROOM_URL" in os.environ:
    globals().update(authorization(os.environ["NEWSROOM_URL"], MCP_BRIDGE))

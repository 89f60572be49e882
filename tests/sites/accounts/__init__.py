"""A site with a user model of its own: keys are UUIDs, names are addresses, groups do not exist."""

from __future__ import annotations

import os

from tests.sites.site import STARTPROJECT, USERS, Call, Site

SETTINGS = """
INSTALLED_APPS += ["people"]
AUTH_USER_MODEL = "people.Person"
"""
POSTGRESQL = """
import os
import dj_database_url
INSTALLED_APPS += ["corsheaders", "debug_toolbar", "silk", "whitenoise"]
MIDDLEWARE = [
    "corsheaders.middleware.CorsMiddleware",
    "debug_toolbar.middleware.DebugToolbarMiddleware",
    "silk.middleware.SilkyMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    *MIDDLEWARE[1:3],
    "django.middleware.locale.LocaleMiddleware",
    *MIDDLEWARE[3:],
]
DATABASES = {"default": dj_database_url.parse(os.environ["SITE_DATABASE_URL"])}
DATABASES["default"] |= {"NAME": "mcp_bridge_site", "ATOMIC_REQUESTS": True}
CORS_ALLOWED_ORIGINS = ["https://inspector.example"]
STATIC_ROOT = BASE_DIR / "static"
"""
URLS = """
from django.http import JsonResponse
from people.models import Person

def names(request):
    return JsonResponse({"names": list(Person.objects.order_by("email").values_list("name", flat=True))})

urlpatterns.append(path("names/", names))
"""
TOOLBAR_URLS = """
from django.urls import include
from debug_toolbar.toolbar import debug_toolbar_urls
urlpatterns += [path("silk/", include("silk.urls", namespace="silk")), *debug_toolbar_urls()]
"""
READING = {"people_list", "person_read", "people_count", "notes_list", "note_read", "whoami"}
WRITING = {"note_create", "note_change", "note_publish"}


NEW_DATABASE = """
import os
import psycopg

with psycopg.connect(os.environ["SITE_DATABASE_URL"], autocommit=True) as connection:
    connection.execute("DROP DATABASE IF EXISTS mcp_bridge_site WITH (FORCE)")
    connection.execute("CREATE DATABASE mcp_bridge_site")
"""


def accounts(
    database: str,
    own_settings: str = "",
    own_urls: str = "",
    create: tuple[tuple[str, ...], ...] = (),
    **env: str,
) -> Site:
    return Site(
        name=f"accounts-{database}",
        create=STARTPROJECT + create,
        own_settings=SETTINGS + own_settings,
        own_urls=URLS + own_urls,
        names={user: f"{user}@example.com" for user in USERS},
        pages=("/names/", "/admin/jsi18n/"),
        listed={
            "reader": READING,
            "editor": READING | WRITING,
            "admin": READING | WRITING | {"person_deactivate"},
        },
        calls=(
            Call("reader", "whoami", {}, "reader@example.com"),
            Call("reader", "people_list", {}, "editor@example.com"),
            Call("editor", "note_create", {"text": "Harvest"}, "Harvest"),
            Call("reader", "notes_list", {}, "Harvest"),
            Call("admin", "person_deactivate", {"email": "reader@example.com"}, "may no longer"),
        ),
        publish=Call("editor", "note_publish", {"text": "Harvest"}, "is published"),
        env=env,
    )


SITES = [
    accounts("sqlite"),
    accounts(
        "postgresql",
        POSTGRESQL,
        TOOLBAR_URLS,
        (("python", "-c", NEW_DATABASE),),
        SITE_DATABASE_URL=os.environ.get("MCP_BRIDGE_TEST_DATABASE_URL", ""),
    ),
]

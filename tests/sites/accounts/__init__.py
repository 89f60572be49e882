"""A site with a custom user model: keys are UUIDs, names are addresses, groups do not exist."""

from __future__ import annotations

from tests.sites import notes
from tests.sites.site import STARTPROJECT, USERS, Database, Site

SETTINGS = """
INSTALLED_APPS += ["people"]
AUTH_USER_MODEL = "people.Person"
"""
DATABASE = Database("mcp_bridge_site")
POSTGRESQL = f"""
{DATABASE.settings}
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
DATABASES["default"]["ATOMIC_REQUESTS"] = True
CORS_ALLOWED_ORIGINS = ["https://inspector.example"]
STATIC_ROOT = BASE_DIR / "static"
"""
TOOLBAR_URLS = """
from django.urls import include
from debug_toolbar.toolbar import debug_toolbar_urls
urlpatterns += [path("silk/", include("silk.urls", namespace="silk")), *debug_toolbar_urls()]
"""


def accounts(
    database: str,
    own_settings: str = "",
    own_urls: str = "",
    create: tuple[tuple[str, ...], ...] = (),
    origins: tuple[str, ...] = (),
    **env: str,
) -> Site:
    return Site(
        name=f"accounts-{database}",
        create=STARTPROJECT + create,
        own_settings=notes.SETTINGS + SETTINGS + own_settings,
        own_urls=notes.URLS + own_urls,
        seed="accounts/seed.py",
        apps={"people": "accounts/models.py", "notes": notes.MODELS},
        procedures=notes.PROCEDURES,
        names={user: f"{user}@example.com" for user in USERS},
        pages=("/notes/", "/admin/jsi18n/"),
        listed=notes.LISTED,
        calls=notes.CALLS,
        publish=notes.PUBLISH,
        bridge={"ALLOWED_ORIGINS": [*origins]},
        env=env,
    )


SITES = [
    accounts("sqlite"),
    accounts(
        "postgresql",
        POSTGRESQL,
        TOOLBAR_URLS,
        (DATABASE.create,),
        # As manage.py check recommends if CORS lets them read.
        ("https://inspector.example",),
        **DATABASE.env,
    ),
]

"""A site with the admins of django-reversion, django-simple-history and django-import-export."""

from __future__ import annotations

from tests.sites import notes
from tests.sites.site import STARTPROJECT, Site

SITE = Site(
    name="stock",
    create=STARTPROJECT,
    own_settings=notes.SETTINGS
    + """
INSTALLED_APPS += ["reversion", "simple_history", "import_export", "stock"]
MIDDLEWARE += ["simple_history.middleware.HistoryRequestMiddleware"]
MEDIA_ROOT = BASE_DIR / "media"
""",
    own_urls=notes.URLS,
    apps={"notes": notes.MODELS, "stock": "stock/models.py"},
    admins={"stock": "stock/admin.py"},
    seed="stock/seed.py",
    procedures=notes.PROCEDURES,
    pages=("/notes/", "/admin/jsi18n/"),
    listed=notes.LISTED,
    calls=notes.CALLS,
    publish=notes.PUBLISH,
    compares_admin=True,
)

"""NetBox's required settings."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

_database = urlsplit(os.environ["SITE_DATABASE_URL"])
_redis = os.environ["SITE_CACHE_URL"]

ALLOWED_HOSTS = ["127.0.0.1"]
API_TOKEN_PEPPERS = {1: "known to everybody, " * 3}
CENSUS_REPORTING_ENABLED = False
DATABASES = {
    "default": {
        "NAME": _database.path.strip("/"),
        "USER": unquote(_database.username or ""),
        "PASSWORD": unquote(_database.password or ""),
        # An address, or the quoted path of a socket, which `hostname` would write in small letters.
        "HOST": unquote(_database.netloc.rpartition("@")[2].partition(":")[0]),
        "PORT": _database.port or "",
    }
}
REDIS = {name: {"URL": _redis} for name in ("tasks", "caching")}
SECRET_KEY = "known to everybody, " * 3

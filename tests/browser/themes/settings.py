"""Settings of a newsroom whose admin has the theme, or other values, of the environment."""

from __future__ import annotations

import os

from testproject.settings import *
from testproject.settings import INSTALLED_APPS as APPS
from testproject.settings import TEMPLATES

# The name of the theme's app; without one, the admin is Django's own.
THEME = os.environ.get("THEME", "")
INSTALLED_APPS = [*filter(None, [THEME]), *APPS]
ROOT_URLCONF = "tests.browser.themes.urls"
WSGI_APPLICATION = None
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["THEME_DATABASE"],
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 60},
    }
}
if THEME == "jazzmin":
    # Its own cookie of a light or dark page is read by its script alone.
    JAZZMIN_UI_TWEAKS = {"default_theme_mode": "auto"}

"""Settings of a newsroom with the admin theme of the variable THEME, or without one."""

from __future__ import annotations

import os
from typing import Any

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS as APPS

THEME = os.environ.get("THEME", "")
INSTALLED_APPS = [*filter(None, [THEME]), *APPS]
ROOT_URLCONF = "tests.browser.themes.urls"
WSGI_APPLICATION = None
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["THEME_DATABASE"],
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 60},
    }
}
JAZZMIN_SETTINGS = {"use_google_fonts_cdn": False}
JAZZMIN_UI_TWEAKS = {"default_theme_mode": "auto"}

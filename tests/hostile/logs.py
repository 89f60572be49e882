"""The log of a site under test: a file with one JSON object for each record at ERROR or above."""

from __future__ import annotations

import json
import logging
from typing import Any


class JSONFormatter(logging.Formatter):
    """Write a record as one line."""

    def format(self, record: logging.LogRecord) -> str:
        told = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)[-2000:]
        return json.dumps(told)


def logging_to(path: str) -> dict[str, Any]:
    """Return LOGGING for a site that writes all of its errors to that file."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JSONFormatter}},
        "handlers": {
            "errors": {
                "class": "logging.FileHandler",
                "filename": path,
                "level": "ERROR",
                "formatter": "json",
            },
            "none": {"class": "logging.NullHandler"},
        },
        "root": {"handlers": ["errors"], "level": "WARNING"},
        "loggers": {
            "django": {"handlers": ["none"], "level": "WARNING", "propagate": True},
            # As Django's documentation advises for hosts that are not the site's: its middleware
            # logs that, before any view.
            "django.security.DisallowedHost": {"handlers": ["none"], "propagate": False},
            "matplotlib": {"level": "CRITICAL"},
        },
    }

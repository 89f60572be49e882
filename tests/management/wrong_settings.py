"""Settings with an error, and an app that prints."""

from __future__ import annotations

from tests.processes.served_settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.management.printing"]  # noqa: F405
MCP_BRIDGE = {"PAGE_SIZE": "many"}

"""The newsroom on a separate database, with the tools that the cases call added to its tools."""

from __future__ import annotations

import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES as NEWSROOM_DATABASES
from testproject.settings import MCP_BRIDGE as NEWSROOM_BRIDGE
from testproject.settings import SOURCES as NEWSROOM_SOURCES
from tests.hostile.logs import logging_to

DEBUG = os.environ.get("HOSTILE_DEBUG") == "1"
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "tests.hostile.newsroom_urls"
DATABASES = {"default": {**NEWSROOM_DATABASES["default"], "NAME": os.environ["HOSTILE_DATABASE"]}}
LOGGING = logging_to(os.environ["HOSTILE_LOG"])
MCP_BRIDGE = {
    **NEWSROOM_BRIDGE,
    "SOURCES": {
        **NEWSROOM_SOURCES,
        "probes": {
            "BACKEND": "mcp_bridge.sources.functions.FunctionSource",
            "OPTIONS": {"modules": ["tests.hostile.probes"]},
        },
    },
}

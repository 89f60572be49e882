"""Settings of a site on PostgreSQL whose tools last until a file exists."""

from __future__ import annotations

import json
import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES

ROOT_URLCONF = "tests.processes.crowded_site"
DATABASES["default"]["NAME"] = os.environ["CROWDED_DATABASE"]
MCP_BRIDGE = json.loads(os.environ["CROWDED_OPTIONS"])

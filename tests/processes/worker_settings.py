"""The newsroom's settings for a worker process, with tools of generations."""

from __future__ import annotations

import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES

DATABASES["default"]["NAME"] = os.environ["WORKER_DATABASE"]
MCP_BRIDGE = {"SOURCES": {"generations": {"BACKEND": "tests.processes.worker.GenerationSource"}}}

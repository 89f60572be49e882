"""The newsroom's settings for a worker process, with tools of generations."""

from __future__ import annotations

import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES

DATABASES["default"]["NAME"] = os.environ["WORKER_DATABASE"]
if "WORKER_TRANSACTION_MODE" in os.environ:
    DATABASES["default"]["OPTIONS"] = {"transaction_mode": os.environ["WORKER_TRANSACTION_MODE"]}
MCP_BRIDGE = {"SOURCES": {"generations": {"BACKEND": "tests.processes.worker.GenerationSource"}}}

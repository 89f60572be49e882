"""The newsroom's settings for a worker process, with tools of generations."""

from __future__ import annotations

import os

from mcp_bridge.conf import DEFAULT_SOURCES
from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES

DATABASES["default"]["NAME"] = os.environ["WORKER_DATABASE"]
if "sqlite" in str(DATABASES["default"]["ENGINE"]):
    # Long, so that a slow disk is not a failure: the tests are not about waiting for locks.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": os.environ.get("WORKER_TRANSACTION_MODE", "IMMEDIATE"),
        "timeout": 60,
    }
MCP_BRIDGE = {
    "REMOTE_ALLOWED_HOSTS": os.environ.get("WORKER_REMOTE", "").split(),
    "SOURCES": {
        **dict.fromkeys((*DEFAULT_SOURCES, "skills")),
        "generations": {"BACKEND": "tests.processes.worker.GenerationSource"},
    },
}

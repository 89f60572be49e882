"""The settings of processes that call tools as tasks, and of their workers."""

from __future__ import annotations

from tests.processes.worker_settings import *  # noqa: F403
from tests.processes.worker_settings import DATABASES

if "sqlite" in str(DATABASES["default"]["ENGINE"]):
    DATABASES["default"]["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL"
MCP_BRIDGE = {
    "SOURCES": {
        **dict.fromkeys(("rpc", "remote", "skills")),
        "functions": {"OPTIONS": {"modules": ["tests.processes.task_tools"]}},
    },
}

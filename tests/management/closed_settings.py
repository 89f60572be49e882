"""Settings that refuse anonymous callers."""

from __future__ import annotations

from tests.processes.served_settings import *  # noqa: F403

MCP_BRIDGE = {"ALLOW_ANONYMOUS": False}

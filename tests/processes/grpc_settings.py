"""Settings of a site whose tools are methods of a service elsewhere."""

from __future__ import annotations

import os

from tests.processes.served_settings import *  # noqa: F403

ROOT_URLCONF = "tests.processes.grpc_site"
WSGI_APPLICATION = "tests.processes.grpc_site.wsgi"
MCP_BRIDGE = {
    "SOURCES": {
        "echo": {
            "BACKEND": "mcp_bridge.ext.grpc.GRPCSource",
            "OPTIONS": {
                "descriptors": os.environ["SERVED_DESCRIPTORS"],
                "target": os.environ.get("SERVED_TARGET", "localhost:1"),
                "metadata": "tests.processes.grpc_site.metadata",
            },
        }
    }
}

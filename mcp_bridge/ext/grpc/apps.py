from __future__ import annotations

from django.apps import AppConfig


class GRPCConfig(AppConfig):
    """The app that provides the command ``mcp_grpc``."""

    name = "mcp_bridge.ext.grpc"
    label = "mcp_bridge_grpc"
    verbose_name = "MCP: gRPC"

"""Methods of gRPC services, told by descriptor sets; needs the extra ``grpc``."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

try:
    from mcp_bridge.sources.grpc.source import GRPCSource
except ModuleNotFoundError as missing:
    raise ImproperlyConfigured(
        f'{missing}: run pip install "django-mcp-bridge[grpc]", which brings what it needs'
    ) from missing

__all__ = ["GRPCSource"]

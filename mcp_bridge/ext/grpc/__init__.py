"""
The source of gRPC methods, described by descriptor sets (extra ``grpc``).

The source is imported on first access: generated code imports ``annotations_pb2`` from this
package, which must work without Django.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "GRPCSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from mcp_bridge.ext.grpc.source import GRPCSource
    except ModuleNotFoundError as missing:
        from django.core.exceptions import ImproperlyConfigured

        raise ImproperlyConfigured(
            f'{missing}: run pip install "django-mcp-bridge[grpc]" to install its dependencies'
        ) from missing
    return GRPCSource

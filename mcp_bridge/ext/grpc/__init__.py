"""
Methods of gRPC services, described by descriptor sets, as tools; needs the extra ``grpc``.

The source is imported when it is first asked for: generated code imports ``annotations_pb2`` from
this package, and needs no Django for it.
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
            f'{missing}: run pip install "django-mcp-bridge[grpc]", which brings what it needs'
        ) from missing
    return GRPCSource

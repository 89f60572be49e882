"""The source of django-ninja operations (extra ``ninja``)."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

try:
    from mcp_bridge.sources.ninja.source import NinjaSource, caller
except ModuleNotFoundError as missing:
    raise ImproperlyConfigured(
        f'{missing}: run pip install "django-mcp-bridge[ninja]" to install its dependencies'
    ) from missing

__all__ = ["NinjaSource", "caller"]

"""Tools made of operations of django-ninja, which the extra ``ninja`` installs."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

try:
    from mcp_bridge.sources.ninja.source import NinjaSource, caller
except ModuleNotFoundError as missing:
    raise ImproperlyConfigured(
        f'{missing}: run pip install "django-mcp-bridge[ninja]", which brings what it needs'
    ) from missing

__all__ = ["NinjaSource", "caller"]
